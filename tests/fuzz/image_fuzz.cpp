// libs: mlc_io
// Pictures of every kind. Properties: an image that decodes has the size that its header told, in every combination of
// options; and no decoder, its library included, ever holds more memory than it may.
#include <cstdio>
#include <cstdlib>

#include "runtime/io/picture/image.h"
#include "tests/fuzz/heap_peak.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::io;
  static const mlc::fuzz::HeapPeak heap;
  mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  DecodeLimits limits;
  limits.memory = 8 << 20;
  const ImageOptions options = {.color = static_cast<Color>(size % 3), .alpha = static_cast<Alpha>(size / 3 % 3)};
  heap.begin();
  const auto info = image_info(bytes, limits);
  const auto image = decode_image(bytes, options, limits);
  heap.check_at_most(limits.memory);
  if (!image.ok()) return 0;
  const int64_t channels = (options.color == Color::Gray ? 1 : 3) + (options.alpha == Alpha::Keep);
  if (!info.ok() || image->elements() != info->height * info->width * channels) std::abort();
  return 0;
}
