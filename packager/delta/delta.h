// The front of a delta: which file it is for, which one it makes, and of which parts (spec/container.md, section 11).
//
// What is parsed keeps these promises: the lengths of the parts add up to `size`, what they store to the rest of the delta, and none is longer than
// kMaxPart. So a delta of n bytes makes at most n / 32 parts, and work and memory follow from its own size.
#pragma once

#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "schema/format.h"
#include "signing/hash_tree.h"

namespace mlc::delta {

enum class PartKind : uint8_t {
  Zeros = 1,   // padding
  Copy = 2,    // bytes of the file that is there
  Stored = 3,  // bytes of the delta
  Packed = 4,  // a zstd frame of the delta
  Patch = 5,   // a zstd frame of the delta that refers to bytes of the file that is there
};

// Where those lie: places that every copy of a container has, whatever was left out of it.
enum class Where : uint8_t {
  None = 0,
  Segment = 1,    // stored bytes
  LeafTable = 2,  // of a segment
  Manifest = 3,
};

struct Source {
  Where where = Where::None;
  uint32_t segment = 0;
  uint32_t length = 0;
  uint64_t offset = 0;
};

struct Part {
  PartKind kind = PartKind::Zeros;
  uint32_t length = 0;  // in the new file
  uint32_t stored = 0;  // in the delta
  Source source;        // of Copy and Patch
};

inline constexpr uint32_t kMaxPart = static_cast<uint32_t>(format::kMaxFrameLen);  // a leaf, however it is stored
inline constexpr uint32_t kFrontLen = 128, kPartLen = 32;

struct Delta {
  uint64_t size = 0;      // of the file that it makes
  Digest from{}, root{};  // root of the container that it is for, and of the one that it makes
  Digest file{};          // SHA-256 of all bytes that it makes
  std::vector<Part> parts;
};

// What lies in front of the stored bytes.
[[nodiscard]] std::vector<std::byte> encode(const Delta& delta);

// How long that is, from the first kFrontLen bytes of a delta of `delta_len` bytes. Malformed, also if that is no delta; Unsupported for a later version.
[[nodiscard]] Result<uint64_t> front_len(Bytes front, uint64_t delta_len);
// `front` has as many bytes.
[[nodiscard]] Result<Delta> parse(Bytes front, uint64_t delta_len);

}  // namespace mlc::delta
