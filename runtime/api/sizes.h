// The rule of sizes of mlc.h: of a struct of the caller no byte behind its `size` is read or written, whichever of the two,
// the caller's header or this library, is the older one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/compose.h"
#include "base/status.h"
#include "runtime/api/mlc.h"

namespace mlc::api {

// What the struct was in version 1, and so the least that a caller may say. These numbers never change.
template <class T>
inline constexpr uint32_t kFirstSize = 0;
template <> inline constexpr uint32_t kFirstSize<MlcAllocator> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcReader> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcOpenOptions> = 168;
template <> inline constexpr uint32_t kFirstSize<MlcFileInfo> = 24;
template <> inline constexpr uint32_t kFirstSize<MlcModelInfo> = 96;
template <> inline constexpr uint32_t kFirstSize<MlcProgram> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcPort> = 288;
template <> inline constexpr uint32_t kFirstSize<MlcAsset> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcVariant> = 64;
template <> inline constexpr uint32_t kFirstSize<MlcClause> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcChoice> = 24;
template <> inline constexpr uint32_t kFirstSize<MlcDevice> = 56;
template <> inline constexpr uint32_t kFirstSize<MlcPoolOptions> = 24;
template <> inline constexpr uint32_t kFirstSize<MlcSessionOptions> = 72;
template <> inline constexpr uint32_t kFirstSize<MlcRunOptions> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcSessionInfo> = 40;
template <> inline constexpr uint32_t kFirstSize<MlcStage> = 56;
template <> inline constexpr uint32_t kFirstSize<MlcMemoryInfo> = 48;
template <> inline constexpr uint32_t kFirstSize<MlcSelftest> = 40;
template <> inline constexpr uint32_t kFirstSize<MlcProfileEntry> = 32;
template <> inline constexpr uint32_t kFirstSize<MlcProfileMoments> = 32;

// Whether there is a struct to be filled.
template <class T>
bool is_fillable(const T* out) {
  static_assert(kFirstSize<T> != 0 && kFirstSize<T> <= sizeof(T));
  return out && out->size >= kFirstSize<T>;
}

// Fills the caller's struct. MLC_USAGE if there is none.
template <class T>
int fill(T known, T* out) {
  if (!is_fillable(out)) return MLC_USAGE;
  const uint32_t size = out->size;
  known.size = size;
  std::memcpy(static_cast<void*>(out), &known, std::min<size_t>(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(out) + sizeof(T), 0, size - sizeof(T));
  return MLC_OK;
}

// What the caller's struct says, with zeros for what it does not have; all zeros for null.
template <class T>
Result<T> read_options(const T* given, const char* name) {
  static_assert(kFirstSize<T> != 0 && kFirstSize<T> <= sizeof(T));
  T out{};
  if (!given) return out;
  if (given->size < kFirstSize<T>)
    return Status(Code::Usage, "{}: size is {}, expected {} or more: set it to sizeof", name, given->size, kFirstSize<T>);
  std::memcpy(static_cast<void*>(&out), given, std::min<size_t>(given->size, sizeof(T)));
  return out;
}

}  // namespace mlc::api
