#include "runtime/io/picture/image.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

// Copies pixels of `kChannels` bytes, row by row of the result, in tiles: where rows become columns a line of the cache serves a tile's width.
template <int kChannels>
void copy_turned(const std::byte* from, ptrdiff_t row_step, ptrdiff_t column_step, std::byte* to, int64_t height, int64_t width) {
  constexpr int64_t kTile = 64;
  for (int64_t y0 = 0; y0 < height; y0 += kTile)
    for (int64_t x0 = 0; x0 < width; x0 += kTile)
      for (int64_t y = y0; y < std::min(y0 + kTile, height); ++y) {
        const std::byte* pixel = from + y * row_step + x0 * column_step;
        std::byte* out = to + (y * width + x0) * kChannels;
        for (int64_t x = x0; x < std::min(x0 + kTile, width); ++x, pixel += column_step, out += kChannels) std::memcpy(out, pixel, kChannels);
      }
}

// Orientations 5..8 swap rows and columns; flips are those of the stored picture.
Result<Raster> upright(Raster in, const DecodeLimits& limits) {
  if (in.orientation == 1) return in;
  const int o = in.orientation;
  const bool swap = o >= 5;
  const bool flip_rows = o == 3 || o == 4 || o == 6 || o == 7, flip_columns = o == 2 || o == 3 || o == 7 || o == 8;
  Raster out;
  out.height = swap ? in.width : in.height;
  out.width = swap ? in.height : in.width;
  out.channels = in.channels;
  MLC_RETURN_IF_ERROR(MemoryNeed().add(in.num_bytes(), 2).check(limits, in.describe("turning")));
  MLC_ASSIGN(out.pixels, HostBuffer::unwritten(in.pixels.size()));
  // A step to the next row and column of the file, and where the first pixel of the result stands there.
  ptrdiff_t down = in.width * in.channels, right = in.channels;
  const std::byte* from = in.pixels.data();
  if (flip_rows) from += (in.height - 1) * down, down = -down;
  if (flip_columns) from += (in.width - 1) * right, right = -right;
  if (swap) std::swap(down, right);
  switch (in.channels) {
    case 1: copy_turned<1>(from, down, right, out.pixels.data(), out.height, out.width); break;
    case 2: copy_turned<2>(from, down, right, out.pixels.data(), out.height, out.width); break;
    case 3: copy_turned<3>(from, down, right, out.pixels.data(), out.height, out.width); break;
    default: copy_turned<4>(from, down, right, out.pixels.data(), out.height, out.width); break;
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

// Alpha, then colour, pixel by pixel: `put(to, r, g, b)` writes the colours.
template <class Put>
void convert_pixels(const uint8_t* from, int in_channels, uint8_t* to, int channels, uint64_t pixels, const ImageOptions& o, const Put& put) {
  const bool is_grey = in_channels <= 2, has_alpha = in_channels % 2 == 0;
  const int green = is_grey ? 0 : 1, blue = is_grey ? 0 : 2, colours = o.color == Color::Gray ? 1 : 3;
  if (o.alpha == Alpha::Drop || (!has_alpha && o.alpha == Alpha::Over)) {
    for (uint64_t i = 0; i < pixels; ++i, from += in_channels, to += channels) put(to, from[0], from[green], from[blue]);
    return;
  }
  for (uint64_t i = 0; i < pixels; ++i, from += in_channels, to += channels) {
    uint8_t rgb[3] = {from[0], from[green], from[blue]};
    const uint8_t alpha = has_alpha ? from[in_channels - 1] : 255;
    if (o.alpha == Alpha::Over)
      for (int c = 0; c < 3; ++c) rgb[c] = over(rgb[c], o.background[c], alpha);
    put(to, rgb[0], rgb[1], rgb[2]);
    if (o.alpha == Alpha::Keep) to[colours] = alpha;
  }
}

// In place where the answer has no more channels than the file.
Result<HostTensor> convert(Raster in, const ImageOptions& o, const DecodeLimits& limits) {
  const int channels = (o.color == Color::Gray ? 1 : 3) + (o.alpha == Alpha::Keep ? 1 : 0);
  const uint64_t pixels = in.num_pixels(), size = pixels * static_cast<uint64_t>(channels);
  const bool in_place = channels <= in.channels;
  HostTensor out;
  out.dtype = DType::U8;
  out.shape = {in.height, in.width, channels};
  if (in.channels == 3 && channels == 3 && o.color == Color::Rgb) {  // as they are
    out.data = std::move(in.pixels);
    return out;
  }
  if (!in_place) {
    MLC_RETURN_IF_ERROR(MemoryNeed().add(in.num_bytes()).add(size).check(limits, in.describe("converting")));
    MLC_ASSIGN(out.data, HostBuffer::unwritten(size));
  }
  auto* from = reinterpret_cast<const uint8_t*>(in.pixels.data());
  auto* to = reinterpret_cast<uint8_t*>((in_place ? in.pixels : out.data).data());
  const auto all = [&](const auto& put) { convert_pixels(from, in.channels, to, channels, pixels, o, put); };
  switch (o.color) {
    case Color::Rgb: all([](uint8_t* p, uint8_t r, uint8_t g, uint8_t b) { p[0] = r, p[1] = g, p[2] = b; }); break;
    case Color::Bgr: all([](uint8_t* p, uint8_t r, uint8_t g, uint8_t b) { p[0] = b, p[1] = g, p[2] = r; }); break;
    case Color::Gray: all([&](uint8_t* p, uint8_t r, uint8_t g, uint8_t b) { p[0] = grey_of(r, g, b, o.gray); }); break;
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
