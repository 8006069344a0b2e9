// PNG files, with the rules about longjmp of jpeg.cpp: nothing that has a destructor lives where it may jump, and nothing is thrown
// through libpng, so that memory comes from malloc. One filter and one level
// of compression, and no chunk that says when or by what: the same pixels are the same bytes wherever libpng and zlib are the same.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/io/picture/image.h"

namespace mlc::io {
namespace {

constexpr int kLevel = 1;  // of zlib: 4 % more bytes than at its usual 6, in a quarter of the time (a photograph)

struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::byte* data = nullptr;
  size_t size = 0, capacity = 0;
  const std::function<Status(uint64_t)>& allow;
  Status refused;
  char message[256] = {};

  explicit Writer(const std::function<Status(uint64_t)>& a) : allow(a) {}
  ~Writer() {
    png_destroy_write_struct(&png, &info);
    std::free(data);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

[[noreturn]] void on_write_error(png_structp png, png_const_charp message) {
  auto* writer = static_cast<Writer*>(png_get_error_ptr(png));
  std::snprintf(writer->message, sizeof writer->message, "%s", message);
  png_longjmp(png, 1);
}

void on_write_warning(png_structp, png_const_charp) {}

bool append(Writer& writer, png_bytep data, size_t length) {
  writer.refused = writer.allow(length);
  if (!writer.refused.ok()) return false;
  if (length > writer.capacity - writer.size) {
    const size_t wanted = std::max(writer.size + length, 2 * writer.capacity);
    void* const grown = std::realloc(writer.data, wanted);
    if (!grown) return false;
    writer.data = static_cast<std::byte*>(grown), writer.capacity = wanted;
  }
  std::memcpy(writer.data + writer.size, data, length);
  writer.size += length;
  return true;
}

void on_write(png_structp png, png_bytep data, size_t length) {
  if (!append(*static_cast<Writer*>(png_get_io_ptr(png)), data, length)) png_error(png, "out of memory");
}

void on_flush(png_structp) {}

int color_type(int64_t channels) {
  static constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  return kTypes[channels - 1];
}

bool write_all(Writer& w, const std::byte* pixels, png_uint_32 height, png_uint_32 width, int64_t channels) {
  if (setjmp(png_jmpbuf(w.png))) return false;
  png_set_write_fn(w.png, &w, on_write, on_flush);
  png_set_user_limits(w.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_level(w.png, kLevel);
  png_set_filter(w.png, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
  png_set_IHDR(w.png, w.info, width, height, 8, color_type(channels), PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
  png_write_info(w.png, w.info);
  const size_t stride = size_t{width} * static_cast<size_t>(channels);
  for (png_uint_32 y = 0; y < height; ++y) png_write_row(w.png, reinterpret_cast<png_const_bytep>(pixels + stride * y));
  png_write_end(w.png, w.info);
  return true;
}

}  // namespace

Result<std::vector<std::byte>> encode_png(const HostTensor& picture, const std::function<Status(uint64_t bytes)>& allow) {
  assert(picture.dtype == DType::U8 && picture.shape.size() == 3 && picture.shape[2] >= 1 && picture.shape[2] <= 4);
  if (picture.shape[0] > PNG_UINT_31_MAX || picture.shape[1] > PNG_UINT_31_MAX)
    return Status(Code::InputMismatch, "png: a picture of {} x {} pixels, sides have at most 2147483647", picture.shape[1], picture.shape[0]);
  Writer w(allow);
  w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, on_write_error, on_write_warning);
  if (w.png) w.info = png_create_info_struct(w.png);
  if (!w.info) return Status(Code::Resource, "png: out of memory");
  if (!write_all(w, picture.data.data(), static_cast<png_uint_32>(picture.shape[0]), static_cast<png_uint_32>(picture.shape[1]), picture.shape[2])) {
    if (!w.refused.ok()) return std::move(w.refused);
    return Status(Code::Resource, "png: {}", std::string(w.message));
  }
  return std::vector<std::byte>(w.data, w.data + w.size);
}

}  // namespace mlc::io
