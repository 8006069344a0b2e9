// An image layer with a container in it: one uncompressed ustar with models/model.mlc, of which everything but the file's own bytes is
// fixed (spec/registry.md, section 2).
#pragma once

#include <cstdint>
#include <optional>

#include "base/checked.h"
#include "base/status.h"
#include "registry/texts/upload.h"

namespace mlc::registry {

inline constexpr std::string_view kTarPath = "models/model.mlc";
inline constexpr uint64_t kTarHead = 1024;  // the entries of the folder and of the file, before its bytes
inline constexpr uint64_t kMaxTarHead = 16u << 10, kMaxTarTail = 64u << 10;

[[nodiscard]] uint64_t tar_size(uint64_t file_size);
// The whole tar around `file`.
[[nodiscard]] Upload tar_of(const Upload& file);

// Where the file is in a tar.
struct TarPlace {
  uint64_t offset = 0, size = 0;
};
// `head` is the beginning of a tar of `size` bytes, kMaxTarHead of it or all. An error of code 30 where models/model.mlc is not a regular
// file within reach of it, or more than kMaxTarTail bytes follow.
[[nodiscard]] Result<TarPlace> find_in_tar(Bytes head, uint64_t size);

}  // namespace mlc::registry
