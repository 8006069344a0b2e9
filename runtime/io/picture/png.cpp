// libpng, with the same three rules about longjmp as jpeg.cpp. Its warnings do not change pixels, so they are dropped, and
// so are the chunks that change none: texts and profiles are neither unpacked nor kept. Whatever libpng and its zlib
// allocate is counted.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/io/picture/exif.h"
#include "runtime/io/picture/image.h"
#include "runtime/io/picture/raster.h"

namespace mlc::io {
namespace {

// Compressed bytes that may follow those of the last row: libpng unpacks and drops them, a thousand bytes for each.
constexpr size_t kMaxTrailing = 64 << 10;

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  uint64_t memory_left;  // that libpng may take
  bool out_of_memory = false;
  bool row_arrived = false;  // the row that is being read has been unpacked
  size_t trailing = 0;       // bytes of the file read since then
  char message[256] = {};

  explicit PngState(Bytes file, const DecodeLimits& limits) : rest(file), memory_left(limits.memory) {}
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

// A block knows its size: it stands in front.
constexpr size_t kBlockHeader = alignof(std::max_align_t);

png_voidp on_allocate(png_structp png, png_alloc_size_t size) {
  auto* state = static_cast<PngState*>(png_get_mem_ptr(png));
  const uint64_t whole = uint64_t{size} + kBlockHeader;
  void* const block = whole <= state->memory_left ? std::malloc(whole) : nullptr;
  if (!block) {
    state->out_of_memory = true;
    return nullptr;
  }
  state->memory_left -= whole;
  std::memcpy(block, &whole, sizeof whole);
  return static_cast<std::byte*>(block) + kBlockHeader;
}

void on_release(png_structp png, png_voidp data) {
  if (!data) return;
  void* const block = static_cast<std::byte*>(data) - kBlockHeader;
  uint64_t whole = 0;
  std::memcpy(&whole, block, sizeof whole);
  static_cast<PngState*>(png_get_mem_ptr(png))->memory_left += whole;
  std::free(block);
}

// Called for each row between unpacking and what follows: at the end of the last one libpng reads all compressed bytes
// that are left.
void on_row(png_structp png, png_row_infop, png_bytep) {
  static_cast<PngState*>(png_get_user_transform_ptr(png))->row_arrived = true;
}

void on_read(png_structp png, png_bytep out, size_t length) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (state->row_arrived && (state->trailing += length) > kMaxTrailing)
    png_error(png, "more compressed data than the pixels take");
  if (length > state->rest.size()) png_error(png, "the file is truncated");
  std::memcpy(out, state->rest.data(), length);
  state->rest = state->rest.subspan(length);
}

bool read_header(PngState& s) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_read_fn(s.png, &s, on_read);
  png_set_user_limits(s.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_dims bounds the product
  png_set_keep_unknown_chunks(s.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(s.png, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);
  png_read_info(s.png, s.info);
  return true;
}

// Grey, grey + alpha, RGB or RGBA of 8 bits. No gamma and no profile is ever applied, because none is asked for.
bool prepare(PngState& s, int& channels, int& passes) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_expand(s.png);    // palette to RGB, 1/2/4 bits to 8, tRNS to alpha
  png_set_strip_16(s.png);  // the high byte
  png_set_read_user_transform_fn(s.png, on_row);
  png_set_user_transform_info(s.png, &s, 0, 0);
  passes = png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  channels = png_get_channels(s.png, s.info);
  return true;
}

bool read_pixels(PngState& s, std::byte* pixels, size_t stride, int passes) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_uint_32 height = png_get_image_height(s.png, s.info);
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y) {
      s.row_arrived = false;
      png_read_row(s.png, reinterpret_cast<png_bytep>(pixels + stride * y), nullptr);
    }
  s.row_arrived = false;
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

Status damaged(const PngState& s) {
  if (!s.out_of_memory) return Status(Code::Malformed, std::string("png: ") + s.message);
  return Status(Code::Resource, "png: its rows and chunks take more memory than is allowed for decoding");
}

}  // namespace

Result<Raster> decode_png(Bytes file, const DecodeLimits& limits, bool header_only) {
  PngState s(file, limits);
  s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, &s, on_allocate, on_release);
  if (s.png) s.info = png_create_info_struct(s.png);
  if (!s.info) return Status(Code::Resource, "png: out of memory");
  if (!read_header(s)) return damaged(s);
  Raster r;
  r.height = png_get_image_height(s.png, s.info);
  r.width = png_get_image_width(s.png, s.info);
  MLC_RETURN_IF_ERROR(check_dims(r.width, r.height, limits).note("png"));
  int passes = 1;
  if (!prepare(s, r.channels, passes)) return damaged(s);
  if (header_only) {
    r.orientation = stored_orientation(s);
    return r;
  }
  size_t stride = png_get_rowbytes(s.png, s.info);
  if (r.channels < 1 || r.channels > 4 || stride != static_cast<size_t>(r.width) * r.channels)
    return Status(Code::Internal, "png: libpng expands to rows of " + std::to_string(stride) + " bytes");
  const MemoryNeed need = MemoryNeed().add(r.num_bytes()).add(limits.memory - s.memory_left);
  MLC_RETURN_IF_ERROR(need.check(limits, r.describe("png")));
  s.memory_left -= r.num_bytes();
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(r.num_bytes()));
  if (!read_pixels(s, r.pixels.data(), stride, passes) || !read_end(s)) return damaged(s);
  r.orientation = stored_orientation(s);
  return r;
}

}  // namespace mlc::io
