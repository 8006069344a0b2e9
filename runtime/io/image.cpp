#include "runtime/io/image.h"

#include "runtime/io/raster.h"

namespace mlc::io {
namespace {

Result<Raster> decode(Bytes file, bool header_only) {
  switch (media_of(file)) {
    case Media::Png: return decode_png(file, header_only);
    case Media::Jpeg: return decode_jpeg(file, header_only);
    case Media::Bmp: return decode_bmp(file, header_only);
    case Media::Pnm: return decode_pnm(file, header_only);
#if MLC_HAS_JPEG2000
    case Media::Jpeg2000: return decode_jpeg2000(file, header_only);
#endif
#if MLC_HAS_TIFF
    case Media::Tiff: return decode_tiff(file, header_only);
#endif
#if MLC_HAS_WEBP
    case Media::WebP: return decode_webp(file, header_only);
#endif
    default: break;
  }
  const std::string found(describe_bytes(file));
  if (is_picture(media_of(file))) return Status(Code::Unsupported, "this build decodes no " + found);
  return Status(Code::InputMismatch, "not a picture but " + found);
}

// Orientations 5..8 swap rows and columns; flips are those of the stored picture.
Result<Raster> upright(Raster in) {
  if (in.orientation == 1) return in;
  int o = in.orientation;
  bool swap = o >= 5;
  bool flip_rows = o == 3 || o == 4 || o == 6 || o == 7, flip_columns = o == 2 || o == 3 || o == 7 || o == 8;
  Raster out;
  out.height = swap ? in.width : in.height;
  out.width = swap ? in.height : in.width;
  out.channels = in.channels;
  MLC_ASSIGN(out.pixels, HostBuffer::allocate(in.pixels.size()));
  const std::byte* from = in.pixels.data();
  std::byte* to = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x) {
      int64_t row = swap ? x : y, column = swap ? y : x;
      if (flip_rows) row = in.height - 1 - row;
      if (flip_columns) column = in.width - 1 - column;
      const std::byte* pixel = from + (row * in.width + column) * in.channels;
      for (int c = 0; c < in.channels; ++c) *to++ = pixel[c];
    }
  return out;
}

uint8_t over(unsigned c, unsigned background, unsigned alpha) {
  // x / 255 rounded to nearest, exact for all products of two bytes.
  unsigned x = c * alpha + background * (255 - alpha) + 128;
  return static_cast<uint8_t>((x + (x >> 8)) >> 8);
}

uint8_t grey_of(unsigned r, unsigned g, unsigned b, GrayFormula formula) {
  switch (formula) {
    case GrayFormula::Pillow: return static_cast<uint8_t>((19595 * r + 38470 * g + 7471 * b + (1u << 15)) >> 16);
    case GrayFormula::OpenCv: return static_cast<uint8_t>((9798 * r + 19235 * g + 3735 * b + (1u << 14)) >> 15);
  }
  return 0;
}

// Alpha, then colour, pixel by pixel.
Result<HostTensor> convert(const Raster& in, const ImageOptions& o) {
  int colours = o.color == Color::Gray ? 1 : 3;
  int channels = colours + (o.alpha == Alpha::Keep ? 1 : 0);
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::U8, {in.height, in.width, channels}));
  bool grey_source = in.channels <= 2, has_alpha = in.channels % 2 == 0;
  auto* from = reinterpret_cast<const uint8_t*>(in.pixels.data());
  auto* to = reinterpret_cast<uint8_t*>(out.data.data());
  for (int64_t i = 0, n = in.height * in.width; i < n; ++i, from += in.channels, to += channels) {
    uint8_t rgb[3] = {from[0], from[grey_source ? 0 : 1], from[grey_source ? 0 : 2]};
    uint8_t alpha = has_alpha ? from[in.channels - 1] : 255;
    if (o.alpha == Alpha::Over)
      for (int c = 0; c < 3; ++c) rgb[c] = over(rgb[c], o.background[c], alpha);
    switch (o.color) {
      case Color::Rgb: to[0] = rgb[0], to[1] = rgb[1], to[2] = rgb[2]; break;
      case Color::Bgr: to[0] = rgb[2], to[1] = rgb[1], to[2] = rgb[0]; break;
      case Color::Gray: to[0] = grey_of(rgb[0], rgb[1], rgb[2], o.gray); break;
    }
    if (o.alpha == Alpha::Keep) to[colours] = alpha;
  }
  return out;
}

}  // namespace

Status check_dims(uint64_t width, uint64_t height) {
  auto pixels = checked_mul(width, height);
  std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width == 0 || height == 0) return Status(Code::Malformed, size);
  if (!pixels || *pixels > kMaxPixels) return Status(Code::Malformed, size + ", at most " + std::to_string(kMaxPixels));
  return ok();
}

bool is_decoded(Media media) {
  switch (media) {
    case Media::Jpeg2000: return MLC_HAS_JPEG2000 != 0;
    case Media::Tiff: return MLC_HAS_TIFF != 0;
    case Media::WebP: return MLC_HAS_WEBP != 0;
    default: return is_picture(media);
  }
}

Result<ImageInfo> image_info(Bytes file) {
  MLC_ASSIGN(Raster r, decode(file, /*header_only=*/true));
  return ImageInfo{r.height, r.width, r.channels, r.orientation};
}

Result<HostTensor> decode_image(Bytes file, const ImageOptions& options) {
  MLC_ASSIGN(Raster stored, decode(file, /*header_only=*/false));
  if (options.orient == Orient::Ignore) return convert(stored, options);
  MLC_ASSIGN(Raster turned, upright(std::move(stored)));
  return convert(turned, options);
}

}  // namespace mlc::io
