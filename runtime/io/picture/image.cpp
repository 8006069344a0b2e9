#include "runtime/io/picture/image.h"

#include "runtime/io/picture/raster.h"
#if MLC_HAS_SNDFILE
#include "runtime/io/sound/sndfile_library.h"
#endif
#if MLC_HAS_TIFF
#include "runtime/io/picture/tiff_library.h"
#endif

namespace mlc::io {
namespace {

Result<Raster> decode(Bytes file, const DecodeLimits& limits, bool header_only) {
  switch (media_of(file)) {
    case Media::Png: return decode_png(file, limits, header_only);
    case Media::Jpeg: return decode_jpeg(file, limits, header_only);
    case Media::Bmp: return decode_bmp(file, limits, header_only);
    case Media::Pnm: return decode_pnm(file, limits, header_only);
#if MLC_HAS_JPEG2000
    case Media::Jpeg2000: return decode_jpeg2000(file, limits, header_only);
#endif
#if MLC_HAS_TIFF
    case Media::Tiff: return decode_tiff(file, limits, header_only);
#endif
#if MLC_HAS_WEBP
    case Media::WebP: return decode_webp(file, limits, header_only);
#endif
    default: break;
  }
  const std::string found(describe_bytes(file));
  if (is_picture(media_of(file))) return Status(Code::Unsupported, "this build decodes no " + found);
  return Status(Code::InputMismatch, "not a picture but " + found);
}

// Orientations 5..8 swap rows and columns; flips are those of the stored picture.
Result<Raster> upright(Raster in, const DecodeLimits& limits) {
  if (in.orientation == 1) return in;
  int o = in.orientation;
  bool swap = o >= 5;
  bool flip_rows = o == 3 || o == 4 || o == 6 || o == 7, flip_columns = o == 2 || o == 3 || o == 7 || o == 8;
  Raster out;
  out.height = swap ? in.width : in.height;
  out.width = swap ? in.height : in.width;
  out.channels = in.channels;
  MLC_RETURN_IF_ERROR(MemoryNeed().add(in.num_bytes(), 2).check(limits, in.describe("turning")));
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

// Alpha, then colour, pixel by pixel: in place where the answer has no more channels than the file.
Result<HostTensor> convert(Raster in, const ImageOptions& o, const DecodeLimits& limits) {
  const int colours = o.color == Color::Gray ? 1 : 3;
  const int channels = colours + (o.alpha == Alpha::Keep ? 1 : 0);
  const uint64_t pixels = in.num_pixels(), size = pixels * static_cast<uint64_t>(channels);
  const bool in_place = channels <= in.channels;
  HostTensor out;
  out.dtype = DType::U8;
  out.shape = {in.height, in.width, channels};
  if (!in_place) {
    MLC_RETURN_IF_ERROR(MemoryNeed().add(in.num_bytes()).add(size).check(limits, in.describe("converting")));
    MLC_ASSIGN(out.data, HostBuffer::allocate(size));
  }
  const bool grey_source = in.channels <= 2, has_alpha = in.channels % 2 == 0;
  auto* from = reinterpret_cast<const uint8_t*>(in.pixels.data());
  auto* to = reinterpret_cast<uint8_t*>((in_place ? in.pixels : out.data).data());
  for (uint64_t i = 0; i < pixels; ++i, from += in.channels, to += channels) {
    uint8_t rgb[3] = {from[0], from[grey_source ? 0 : 1], from[grey_source ? 0 : 2]};
    const uint8_t alpha = has_alpha ? from[in.channels - 1] : 255;
    if (o.alpha == Alpha::Over)
      for (int c = 0; c < 3; ++c) rgb[c] = over(rgb[c], o.background[c], alpha);
    switch (o.color) {
      case Color::Rgb: to[0] = rgb[0], to[1] = rgb[1], to[2] = rgb[2]; break;
      case Color::Bgr: to[0] = rgb[2], to[1] = rgb[1], to[2] = rgb[0]; break;
      case Color::Gray: to[0] = grey_of(rgb[0], rgb[1], rgb[2], o.gray); break;
    }
    if (o.alpha == Alpha::Keep) to[colours] = alpha;
  }
  if (in_place) {
    in.pixels.shrink(size);
    out.data = std::move(in.pixels);
  }
  return out;
}

}  // namespace

Status check_dims(uint64_t width, uint64_t height, const DecodeLimits& limits) {
  auto pixels = checked_mul(width, height);
  std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width == 0 || height == 0) return Status(Code::Malformed, size);
  if (!pixels || *pixels > limits.pixels)
    return Status(Code::Malformed, size + ", at most " + std::to_string(limits.pixels));
  return ok();
}

std::string Raster::describe(const char* kind) const {
  return std::string(kind) + ": " + std::to_string(width) + " x " + std::to_string(height) + " pixels, " +
         std::to_string(channels) + (channels == 1 ? " channel" : " channels");
}

bool is_decoded(Media media) {
  switch (media) {
    case Media::Jpeg2000: return MLC_HAS_JPEG2000 != 0;
    case Media::Tiff: return MLC_HAS_TIFF != 0;
    case Media::WebP: return MLC_HAS_WEBP != 0;
    default: return is_picture(media);
  }
}

void load_codecs() {
#if MLC_HAS_TIFF
  [[maybe_unused]] const auto tiff = tiff_library();  // if it is missing, decoding says so
#endif
#if MLC_HAS_SNDFILE
  [[maybe_unused]] const auto sndfile = sndfile_library();
#endif
}

Result<ImageInfo> image_info(Bytes file, const DecodeLimits& limits) {
  MLC_ASSIGN(Raster r, decode(file, limits, /*header_only=*/true));
  return ImageInfo{r.height, r.width, r.channels, r.orientation};
}

Result<HostTensor> decode_image(Bytes file, const ImageOptions& options, const DecodeLimits& limits) {
  MLC_ASSIGN(Raster picture, decode(file, limits, /*header_only=*/false));
  if (options.orient == Orient::Exif) {
    MLC_ASSIGN(picture, upright(std::move(picture), limits));
  }
  return convert(std::move(picture), options, limits);
}

}  // namespace mlc::io
