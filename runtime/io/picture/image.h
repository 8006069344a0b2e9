// Pictures to u8 [h, w, c], with exactly one answer per file (spec/pipeline.md, "decode_image"): PNG, JPEG, BMP, PNM,
// WebP, TIFF and JPEG 2000.
//
// Fixed for JPEG: libjpeg-turbo, slow-integer IDCT, smooth chroma upsampling, no scaling while decoding; baseline and
// progressive; CMYK is refused. Fixed for PNG: gamma and colour profiles are ignored, 16 bits become 8 by dropping the
// low byte, palettes and low depths are expanded. The order of the steps: decode, orient, alpha, colour.
//
// Bytes are hostile: memory and pixels keep to the DecodeLimits (limits.h), work to the numbers below; a file that ends
// early or whose entropy-coded data is damaged is an error, never a partly grey picture. Broken EXIF data counts as no
// orientation. Beyond a limit of memory or work: Resource, and the decoder has not begun or stops there.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/io/limits.h"
#include "runtime/io/media.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

inline constexpr int kMaxScans = 200;  // of JPEG
// Blocks of 8 x 8 samples that all scans of a JPEG visit: 16 scans over as many blocks as the default memory holds.
inline constexpr uint64_t kMaxBlockVisits = uint64_t{1} << 25;

enum class Color { Rgb, Bgr, Gray };
// How three channels become one. A grey source stays as it is with either formula.
enum class GrayFormula {
  Pillow,  // (19595 R + 38470 G + 7471 B + 2^15) >> 16
  OpenCv,  // (9798 R + 19235 G + 3735 B + 2^14) >> 15
};
enum class Alpha {
  Drop,  // the colour channels as stored, whatever the alpha
  Over,  // composed over `background`: (c a + b (255 - a)) / 255, rounded to nearest
  Keep,  // one more channel, 255 where the file has none
};
enum class Orient {
  Exif,    // turned as the EXIF orientation says (JPEG APP1, PNG eXIf, WebP EXIF, the tag of TIFF)
  Ignore,  // rows as stored
};

struct ImageOptions {
  Color color = Color::Rgb;
  GrayFormula gray = GrayFormula::Pillow;
  Alpha alpha = Alpha::Drop;
  std::array<uint8_t, 3> background = {0, 0, 0};  // R, G, B
  Orient orient = Orient::Exif;
};

// Loads what decoders load on demand, for a process that can open no file later on.
void load_codecs();

// Whether this build decodes a kind of pictures: the rarer ones need libraries that a cross-compiled one may lack.
bool is_decoded(Media media);

// u8 [height, width, channels]; channels is 3 (1 for Gray), plus 1 with Alpha::Keep.
Result<HostTensor> decode_image(Bytes file, const ImageOptions& options, const DecodeLimits& limits = {});

// A PNG file of u8 [height, width, channels], 1 to 4 of them: grey or R G B, with alpha or without. `allow` is asked before so many more
// bytes of it are made; what it refuses is the answer.
Result<std::vector<std::byte>> encode_png(const HostTensor& picture, const std::function<Status(uint64_t bytes)>& allow);

// Height, width, channels (1 grey, 2 grey + alpha, 3 RGB, 4 RGBA) and orientation (1..8) as stored, without pixels.
struct ImageInfo {
  int64_t height = 0, width = 0;
  int channels = 0;
  int orientation = 1;
};
Result<ImageInfo> image_info(Bytes file, const DecodeLimits& limits = {});

}  // namespace mlc::io
