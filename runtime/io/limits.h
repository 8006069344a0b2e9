// What decoding a file may take. Every decoder of this folder keeps to it: the bytes it says and those that its library
// asks for, together, beyond the bytes of the file itself. What a library cannot be told is computed from the headers
// before the first call into it, and the formula stands there.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::io {

// The one default (spec/pipeline.md, "Limits"): baseline JPEG and PNG of 89 million RGB pixels.
inline constexpr uint64_t kDefaultDecodeMemory = uint64_t{256} << 20;
inline constexpr uint64_t kMaxPixels = uint64_t{1} << 28;

// Bytes that are read of one file: at most `unsized` where it does not say how many it has, as pipes and devices, whose end may never come.
struct FileLimits {
  uint64_t bytes = UINT64_MAX, unsized = UINT64_MAX;
  const char* option = nullptr;  // that allows more; must outlive this
};

struct DecodeLimits {
  uint64_t memory = kDefaultDecodeMemory;  // bytes
  uint64_t pixels = kMaxPixels;            // of a picture

  bool all = false;                        // the bytes of files, and what was decoded before, count as well
  bool together = false;                   // what was decoded before counts as well, but not the bytes of files
  FileLimits files;                        // of what is read before anything of it is decoded; where all counts it is within `memory`

  // Of the next file.
  FileLimits of_file() const {
    const uint64_t most = all ? memory : UINT64_MAX;
    return {std::min(files.bytes, most), std::min(files.unsized, most), files.option};
  }

  // Sound and arrays are hardly packed, so that their file tells how much they take: its size comes on top, unless all counts.
  DecodeLimits beyond(Bytes file) const {
    return all ? *this : DecodeLimits{checked_add(memory, file.size()).value_or(UINT64_MAX), pixels, false, together, files};
  }
  // What is left where `bytes`, of a file or of what was decoded, are taken for good.
  DecodeLimits after(uint64_t bytes) const { return all ? less(bytes) : *this; }
  DecodeLimits after_decoding(uint64_t bytes) const { return all || together ? less(bytes) : *this; }
 private:
  DecodeLimits less(uint64_t bytes) const { return {memory - std::min(memory, bytes), pixels, all, together, files}; }
};

// A sum of products that stays at its largest value instead of wrapping.
struct MemoryNeed {
  uint64_t bytes = 0;

  MemoryNeed& add(uint64_t count, uint64_t each = 1) {
    const auto product = checked_mul(count, each);
    const auto sum = product ? checked_add(bytes, *product) : std::nullopt;
    bytes = sum.value_or(UINT64_MAX);
    return *this;
  }
  // Resource unless limits.memory has room; `what` names kind and item: "png: 16384 x 16384 pixels, 4 channels".
  Status check(const DecodeLimits& limits, std::string_view what) const;
};

}  // namespace mlc::io
