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

// One for each kind of picture (media.h), for bytes that media_of takes for one.
Result<Raster> decode_jpeg(Bytes file, bool header_only);
Result<Raster> decode_png(Bytes file, bool header_only);
Result<Raster> decode_bmp(Bytes file, bool header_only);
Result<Raster> decode_pnm(Bytes file, bool header_only);
// Part of a build where their libraries are (MLC_HAS_...).
Result<Raster> decode_jpeg2000(Bytes file, bool header_only);
Result<Raster> decode_tiff(Bytes file, bool header_only);
Result<Raster> decode_webp(Bytes file, bool header_only);

}  // namespace mlc::io
