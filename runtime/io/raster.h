// What the decoders hand to image.cpp: pixels as stored in the file.
#pragma once

#include <string>

#include "runtime/io/tensor.h"

namespace mlc::io {

struct Raster {
  int64_t height = 0, width = 0;
  int channels = 0;  // 1 grey, 2 grey + alpha, 3 RGB, 4 RGBA
  int orientation = 1;
  HostBuffer pixels;  // empty where only the header was asked for
};

// Refuses empty images and those above kMaxPixels.
Status check_dims(uint64_t width, uint64_t height);

Result<Raster> decode_jpeg(Bytes file, bool header_only);
Result<Raster> decode_png(Bytes file, bool header_only);

}  // namespace mlc::io
