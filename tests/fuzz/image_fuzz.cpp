// libs: mlc_io
// Pictures of every kind. Property: an image that decodes has the size that its header told, in every combination of options.
#include <cstdlib>

#include "runtime/io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::io;
  mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  auto info = image_info(bytes);
  if (!info.ok() || info->height * info->width > 1 << 18) return 0;
  ImageOptions options;
  options.color = static_cast<Color>(size % 3);
  options.alpha = static_cast<Alpha>(size / 3 % 3);
  auto image = decode_image(bytes, options);
  int64_t channels = (options.color == Color::Gray ? 1 : 3) + (options.alpha == Alpha::Keep);
  if (image.ok() && image->elements() != info->height * info->width * channels) std::abort();
  return 0;
}
