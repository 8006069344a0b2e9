// OpenJPEG: JP2 files and bare codestreams, grey or RGB with or without alpha, components of one size. Components of
// more than 8 bits lose the low ones. The header is read here before OpenJPEG sees a byte, because it allocates by tile
// and by component as the file says.
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/io/byte_reader.h"
#include "runtime/io/image.h"
#include "runtime/io/raster.h"

namespace mlc::io {
namespace {

constexpr uint64_t kMaxTiles = 1 << 14;
constexpr uint64_t kMostPixels = kMaxPixels / 4;  // a component takes four bytes per pixel, twice

Status bad(std::string what) { return Status(Code::Malformed, "jpeg2000: " + what); }

bool is_codestream(Bytes file) { return file.size() > 4 && std::memcmp(file.data(), "\xff\x4f\xff\x51", 4) == 0; }

// Where the codestream begins: boxes of u32 length, type, bytes; length 1: u64 behind the type, 0: up to the end.
uint64_t find_codestream(Bytes file) {
  if (is_codestream(file)) return 0;
  ByteReader in{file};
  for (uint64_t at = 0; range_within(at, 8, file.size());) {
    uint64_t length = in.big(at, 4), header = 8;
    if (length == 1) {
      length = uint64_t{in.big(at + 8, 4)} << 32 | in.big(at + 12, 4);
      header = 16;
    }
    if (in.big(at + 4, 4) == 0x6A703263) return at + header;  // "jp2c"
    if (in.failed || length < header || !range_within(at, length, file.size())) break;
    at += length;
  }
  return file.size();
}

// Marker SIZ, ISO 15444-1 A.5.1.
Status read_size(Bytes file, const DecodeLimits& limits, Raster& r) {
  const uint64_t at = find_codestream(file);
  ByteReader in{file};
  const bool good = in.big(at, 4) == 0xFF4FFF51;
  const uint64_t x1 = in.big(at + 8, 4), y1 = in.big(at + 12, 4), x0 = in.big(at + 16, 4), y0 = in.big(at + 20, 4);
  const uint64_t tile_x = in.big(at + 24, 4), tile_y = in.big(at + 28, 4), from_x = in.big(at + 32, 4),
                 from_y = in.big(at + 36, 4);
  const uint32_t components = in.big(at + 40, 2);
  if (in.failed || !good || x0 >= x1 || y0 >= y1 || tile_x == 0 || tile_y == 0 || from_x > x0 || from_y > y0)
    return bad("no codestream with a valid size");
  MLC_RETURN_IF_ERROR(check_dims(x1 - x0, y1 - y0, limits).note("jpeg2000"));
  if ((x1 - x0) * (y1 - y0) > kMostPixels) return bad("more than " + std::to_string(kMostPixels) + " pixels");
  const uint64_t across = (x1 - from_x + tile_x - 1) / tile_x, down = (y1 - from_y + tile_y - 1) / tile_y;
  if (checked_mul(across, down).value_or(UINT64_MAX) > kMaxTiles)
    return bad("more than " + std::to_string(kMaxTiles) + " tiles");
  if (components == 0 || components > 4)
    return Status(Code::Unsupported, "jpeg2000: " + std::to_string(components) + " components");
  r.width = static_cast<int64_t>(x1 - x0);
  r.height = static_cast<int64_t>(y1 - y0);
  r.channels = static_cast<int>(components);
  return ok();
}

struct Source {
  Bytes file;
  uint64_t at = 0;
};
OPJ_SIZE_T on_read(void* to, OPJ_SIZE_T bytes, void* user) {
  auto& s = *static_cast<Source*>(user);
  if (s.at >= s.file.size()) return static_cast<OPJ_SIZE_T>(-1);
  const uint64_t count = std::min<uint64_t>(bytes, s.file.size() - s.at);
  std::memcpy(to, s.file.data() + s.at, count);
  s.at += count;
  return count;
}
OPJ_OFF_T on_skip(OPJ_OFF_T bytes, void* user) {
  auto& s = *static_cast<Source*>(user);
  if (bytes < 0 || !range_within(s.at, static_cast<uint64_t>(bytes), s.file.size())) return -1;
  s.at += static_cast<uint64_t>(bytes);
  return bytes;
}
OPJ_BOOL on_seek(OPJ_OFF_T to, void* user) {
  auto& s = *static_cast<Source*>(user);
  if (to < 0 || static_cast<uint64_t>(to) > s.file.size()) return OPJ_FALSE;
  s.at = static_cast<uint64_t>(to);
  return OPJ_TRUE;
}

struct Message {
  char text[256] = {};
};
void on_error(const char* text, void* user) {
  auto& m = *static_cast<Message*>(user);
  if (m.text[0]) return;  // the first is the cause
  const size_t length = std::min(std::strcspn(text, "\n"), sizeof m.text - 1);
  std::memcpy(m.text, text, length);
}

template <auto release>
struct Released {
  template <class T>
  void operator()(T* t) const {
    release(t);
  }
};
using Image = std::unique_ptr<opj_image_t, Released<opj_image_destroy>>;

Status decode(Bytes file, Image& out) {
  Source source{file};
  Message message;
  const std::unique_ptr<opj_codec_t, Released<opj_destroy_codec>> codec(
      opj_create_decompress(is_codestream(file) ? OPJ_CODEC_J2K : OPJ_CODEC_JP2));
  const std::unique_ptr<opj_stream_t, Released<opj_stream_destroy>> stream(
      opj_stream_create(size_t{1} << 16, OPJ_TRUE));
  if (!codec || !stream) return Status(Code::Resource, "jpeg2000: out of memory");
  opj_set_error_handler(codec.get(), on_error, &message);
  opj_stream_set_read_function(stream.get(), on_read);
  opj_stream_set_skip_function(stream.get(), on_skip);
  opj_stream_set_seek_function(stream.get(), on_seek);
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.size());
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* image = nullptr;
  bool good = opj_setup_decoder(codec.get(), &parameters) && opj_read_header(stream.get(), codec.get(), &image);
  out.reset(image);
  good = good && image && opj_decode(codec.get(), stream.get(), image) && opj_end_decompress(codec.get(), stream.get());
  return good ? ok() : bad(message.text[0] ? message.text : "the file is damaged");
}

uint8_t to_byte(const opj_image_comp_t& c, OPJ_INT32 value) {
  const int64_t unsigned_value = int64_t{value} + (c.sgnd ? int64_t{1} << (c.prec - 1) : 0),
                most = (int64_t{1} << c.prec) - 1;
  const int64_t v = std::clamp<int64_t>(unsigned_value, 0, most);
  return static_cast<uint8_t>(c.prec > 8 ? v >> (c.prec - 8) : c.prec == 8 ? v : v * 255 / most);
}

}  // namespace

Result<Raster> decode_jpeg2000(Bytes file, const DecodeLimits& limits, bool header_only) {
  Raster r;
  MLC_RETURN_IF_ERROR(read_size(file, limits, r));
  if (header_only) return r;
  Image image;
  MLC_RETURN_IF_ERROR(decode(file, image));
  const auto unsupported = [](const char* what) { return Status(Code::Unsupported, std::string("jpeg2000: ") + what); };
  if (image->color_space == OPJ_CLRSPC_SYCC || image->color_space == OPJ_CLRSPC_EYCC ||
      image->color_space == OPJ_CLRSPC_CMYK)
    return unsupported("colours that are neither grey nor RGB");
  if (image->numcomps == 0 || image->numcomps > 4) return unsupported("number of components");
  for (uint32_t k = 0; k < image->numcomps; ++k) {
    const opj_image_comp_t& c = image->comps[k];
    if (c.w != static_cast<uint64_t>(r.width) || c.h != static_cast<uint64_t>(r.height))
      return unsupported("components of several sizes");
    if (!c.data || c.prec == 0 || c.prec > 31) return unsupported("depth of a component");
  }
  r.channels = static_cast<int>(image->numcomps);  // a palette has made more of them
  const uint64_t pixels = static_cast<uint64_t>(r.width) * static_cast<uint64_t>(r.height);
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(pixels * static_cast<uint64_t>(r.channels)));
  auto* to = reinterpret_cast<uint8_t*>(r.pixels.data());
  for (uint64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < r.channels; ++c) *to++ = to_byte(image->comps[c], image->comps[c].data[i]);
  return r;
}

}  // namespace mlc::io
