// What the decoders hand to image.cpp: pixels as stored in the file.
#pragma once

#include <string>

#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

struct Raster {
  int64_t height = 0, width = 0;
  int channels = 0;  // 1 grey, 2 grey + alpha, 3 RGB, 4 RGBA
  int orientation = 1;
  HostBuffer pixels;  // empty where only the header was asked for

  uint64_t num_pixels() const { return static_cast<uint64_t>(width) * static_cast<uint64_t>(height); }
  uint64_t num_bytes() const { return num_pixels() * static_cast<uint64_t>(channels); }
  // "png: 640 x 480 pixels, 3 channels", for MemoryNeed::check.
  std::string describe(const char* kind) const;
};

// Refuses empty images and those above limits.pixels, which bounds every product of width, height and 64.
Status check_dims(uint64_t width, uint64_t height, const DecodeLimits& limits);

// One for each kind of picture (media.h), for bytes that media_of takes for one. None takes more memory than
// limits.memory, the pixels of the answer included.
Result<Raster> decode_jpeg(Bytes file, const DecodeLimits& limits, bool header_only);
Result<Raster> decode_png(Bytes file, const DecodeLimits& limits, bool header_only);
Result<Raster> decode_bmp(Bytes file, const DecodeLimits& limits, bool header_only);
Result<Raster> decode_pnm(Bytes file, const DecodeLimits& limits, bool header_only);
// Part of a build where their libraries are (MLC_HAS_...).
Result<Raster> decode_jpeg2000(Bytes file, const DecodeLimits& limits, bool header_only);
Result<Raster> decode_tiff(Bytes file, const DecodeLimits& limits, bool header_only);
Result<Raster> decode_webp(Bytes file, const DecodeLimits& limits, bool header_only);

}  // namespace mlc::io
