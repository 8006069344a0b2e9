// Decompression of one leaf: a zstd frame whose every property is fixed by the format (spec/container.md,
// "Compression"). The only file of the runtime that knows zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/checked.h"
#include "base/status.h"

struct ZSTD_DCtx_s;

namespace mlc::container {

// Reusable; one per thread.
class FrameDecoder {
 public:
  FrameDecoder();
  ~FrameDecoder();

  // Decodes exactly one frame into exactly `out`: content size stated and equal, checksum present, window at most
  // 2^20, no dictionary, nothing before or behind it. Malformed otherwise.
  [[nodiscard]] Status decode(Bytes frame, std::span<std::byte> out);

 private:
  ZSTD_DCtx_s* context_;
};

}  // namespace mlc::container
