// libpng, with the same three rules about longjmp as jpeg.cpp. Its warnings (a damaged colour profile, say) do not
// change pixels, so they are dropped.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "runtime/io/exif.h"
#include "runtime/io/image.h"
#include "runtime/io/raster.h"

namespace mlc::io {
namespace {

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  char message[256] = {};

  PngState() = default;
  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
  PngState(const PngState&) = delete;
  PngState& operator=(const PngState&) = delete;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  std::snprintf(state->message, sizeof state->message, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, size_t length) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (length > state->rest.size()) png_error(png, "the file is truncated");
  std::memcpy(out, state->rest.data(), length);
  state->rest = state->rest.subspan(length);
}

bool read_header(PngState& s) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_read_fn(s.png, &s, on_read);
  png_set_user_limits(s.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_dims bounds the product
  png_set_chunk_malloc_max(s.png, 16u << 20);
  png_read_info(s.png, s.info);
  return true;
}

// Grey, grey + alpha, RGB or RGBA of 8 bits. No gamma and no profile is ever applied, because none is asked for.
bool prepare(PngState& s, int& channels, int& passes) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_expand(s.png);    // palette to RGB, 1/2/4 bits to 8, tRNS to alpha
  png_set_strip_16(s.png);  // the high byte
  passes = png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  channels = png_get_channels(s.png, s.info);
  return true;
}

bool read_pixels(PngState& s, std::byte* pixels, size_t stride, int passes) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_uint_32 height = png_get_image_height(s.png, s.info);
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y)
      png_read_row(s.png, reinterpret_cast<png_bytep>(pixels + stride * y), nullptr);
  return true;
}

bool read_end(PngState& s) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_read_end(s.png, s.info);
  return true;
}

int stored_orientation(PngState& s) {
  png_bytep exif = nullptr;
  png_uint_32 length = 0;
  if (!(png_get_eXIf_1(s.png, s.info, &length, &exif) & PNG_INFO_eXIf)) return 1;
  return exif_orientation({reinterpret_cast<const std::byte*>(exif), length});
}

Status damaged(const PngState& s) { return Status(Code::Malformed, std::string("png: ") + s.message); }

}  // namespace

Result<Raster> decode_png(Bytes file, bool header_only) {
  PngState s;
  s.rest = file;
  s.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning);
  if (s.png) s.info = png_create_info_struct(s.png);
  if (!s.info) return Status(Code::Resource, "png: out of memory");
  if (!read_header(s)) return damaged(s);
  Raster r;
  r.height = png_get_image_height(s.png, s.info);
  r.width = png_get_image_width(s.png, s.info);
  MLC_RETURN_IF_ERROR(check_dims(r.width, r.height).note("png"));
  int passes = 1;
  if (!prepare(s, r.channels, passes)) return damaged(s);
  if (header_only) {
    r.orientation = stored_orientation(s);
    return r;
  }
  size_t stride = png_get_rowbytes(s.png, s.info);
  if (r.channels < 1 || r.channels > 4 || stride != static_cast<size_t>(r.width) * r.channels)
    return Status(Code::Internal, "png: libpng expands to rows of " + std::to_string(stride) + " bytes");
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(stride * r.height));
  if (!read_pixels(s, r.pixels.data(), stride, passes) || !read_end(s)) return damaged(s);
  r.orientation = stored_orientation(s);
  return r;
}

}  // namespace mlc::io
