// OpenJPEG: JP2 files and bare codestreams, grey or RGB with or without alpha, components of one size. Components of
// more than 8 bits lose the low ones. The headers are read before OpenJPEG sees a byte (codestream.h), because it allocates
// as they say.
#include <openjpeg.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/byte_cursor.h"
#include "runtime/io/picture/codestream.h"
#include "runtime/io/picture/raster.h"

namespace mlc::io {
namespace {

constexpr uint64_t kJpeg2000Memory = 1 << 20;
// Packets that a file may have, and samples times coding passes: each costs time and hardly a byte.
constexpr uint64_t kMaxPackets = 1 << 22;
constexpr uint64_t kMaxSamplePasses = uint64_t{3} << 28;  // 8 million pixels of RGB, lossless

Status bad_jpeg2000(std::string what) { return Status(Code::Malformed, "jpeg2000: " + what); }

bool is_codestream(Bytes file) { return file.size() > 4 && std::memcmp(file.data(), "\xff\x4f\xff\x51", 4) == 0; }

// Where the codestream begins: boxes of u32 length, type, bytes; length 1: u64 behind the type, 0: up to the end.
uint64_t find_codestream(Bytes file) {
  if (is_codestream(file)) return 0;
  ByteCursor in(file, std::endian::big);
  while (in.left() >= 8) {
    const uint64_t begin = in.offset();
    uint64_t length = in.take<uint32_t>();
    const auto type = in.take<uint32_t>();
    if (length == 1) length = in.take<uint64_t>();
    const uint64_t header = in.offset() - begin;
    if (type == 0x6A703263) return in.offset();  // "jp2c"
    if (length < header) break;
    in.skip(length - header);
  }
  return file.size();
}

// Channels that the palette of a JP2 file makes of one component (the box "pclr", I.5.3.4); 0 without one. OpenJPEG has
// them all as components of their own before they can be counted.
uint32_t palette_channels(Bytes boxes) {
  static constexpr char kName[] = {'p', 'c', 'l', 'r'};
  const auto same = [](std::byte b, char c) { return b == static_cast<std::byte>(c); };
  uint32_t most = 0;
  for (auto at = boxes.begin(); (at = std::search(at, boxes.end(), kName, kName + 4, same)) != boxes.end(); ++at) {
    ByteCursor in = ByteCursor(boxes).at(static_cast<uint64_t>(at - boxes.begin()) + 6);  // behind the number of entries
    most = std::max<uint32_t>(most, in.take<uint8_t>());
  }
  return most;
}

// What OpenJPEG takes (2.5.0: j2k.c, opj_j2k_read_siz, opj_j2k_read_sot, opj_j2k_update_image_data; tcd.c,
// opj_tcd_init_tile; tgt.c; pi.c, opj_pi_create_decode; t2.c, opj_t2_read_packet_data), and the pixels made of it.
MemoryNeed memory_of(const Codestream& c, uint64_t palette, uint64_t file_bytes) {
  const uint64_t pixels = c.width * c.height, tile_pixels = c.tile_width * c.tile_height;
  MemoryNeed need;
  need.add(kJpeg2000Memory).add(file_bytes, 2);
  // All tiles: opj_tcp_t of 5,696 bytes, opj_tccp_t of 1,080, 20 records of 32, 100 markers of 24; their indices.
  need.add(c.tiles, 9216 + 1152 * c.components).add(c.tile_parts, 255 * 24 + 64).add(c.markers, 64);
  // Samples of 4 bytes: of the image, borrowed from the tile if there is only one; then the palette's, then ours.
  need.add(pixels, uint64_t{5} * c.components).add(pixels, 5 * palette);
  if (c.tiles > 1) need.add(tile_pixels, uint64_t{4} * c.components);
  need.add(c.tile_width + c.tile_height, 64);  // rows of the wavelet transform
  // One tile: a code block of 80 bytes with 10 segments of 24 and nodes of 24 in two tag trees, a precinct of 56 with the
  // two trees of 32, a resolution of 192; each with what the allocator adds.
  need.add(c.components * c.blocks, 80 + 240 + 4 * 24 + 16).add(c.components * c.precincts, 56 + 2 * 64 + 16);
  need.add(c.components * c.resolutions, 1024);
  // Which packets have been seen, 2 bytes each.
  need.add(checked_product(std::array{c.layers + 1, c.resolutions, c.most_precincts, uint64_t{2} * c.components})
               .value_or(UINT64_MAX));
  // Further segments, which cost bits of packet headers: at most 150 bytes of memory for a byte of the file.
  const MemoryNeed segments = MemoryNeed().add(c.components * c.blocks * c.layers, (c.short_segments ? 164 : 2) * 80);
  return need.add(std::min(segments.bytes, MemoryNeed().add(file_bytes, 150).bytes));
}

Status check_work(const Codestream& c) {
  const auto packets = checked_product(std::array{c.tiles, c.packets, c.layers, uint64_t{c.components}});
  if (!packets || *packets > kMaxPackets)
    return Status(Code::Resource, "jpeg2000: more than " + std::to_string(kMaxPackets) + " packets: " +
                                      std::to_string(c.tiles) + " tiles, " + std::to_string(c.layers) + " layers, " +
                                      std::to_string(c.packets) + " precincts");
  // The first plane has one pass, each other three (D.3).
  const uint64_t passes = 3 * std::clamp<uint64_t>(c.bit_planes, 1, 31);
  if (c.width * c.height * c.components > kMaxSamplePasses / passes)
    return Status(Code::Resource, "jpeg2000: " + std::to_string(c.width) + " x " + std::to_string(c.height) + " pixels, " +
                                      std::to_string(c.components) + " components, " + std::to_string(c.bit_planes) +
                                      " bit planes: more than " + std::to_string(kMaxSamplePasses) +
                                      " samples of coding passes");
  return ok();
}

struct Jpeg2000Source {
  Bytes file;
  uint64_t at = 0;
};
OPJ_SIZE_T on_read(void* to, OPJ_SIZE_T bytes, void* user) {
  auto& s = *static_cast<Jpeg2000Source*>(user);
  if (s.at >= s.file.size()) return static_cast<OPJ_SIZE_T>(-1);
  const uint64_t count = std::min<uint64_t>(bytes, s.file.size() - s.at);
  std::memcpy(to, s.file.data() + s.at, count);
  s.at += count;
  return count;
}
OPJ_OFF_T on_skip(OPJ_OFF_T bytes, void* user) {
  auto& s = *static_cast<Jpeg2000Source*>(user);
  if (bytes < 0 || !range_within(s.at, static_cast<uint64_t>(bytes), s.file.size())) return -1;
  s.at += static_cast<uint64_t>(bytes);
  return bytes;
}
OPJ_BOOL on_seek(OPJ_OFF_T to, void* user) {
  auto& s = *static_cast<Jpeg2000Source*>(user);
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
  Jpeg2000Source source{file};
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
  return good ? ok() : bad_jpeg2000(message.text[0] ? message.text : "the file is damaged");
}

uint8_t to_byte(const opj_image_comp_t& c, OPJ_INT32 value) {
  const int64_t unsigned_value = int64_t{value} + (c.sgnd ? int64_t{1} << (c.prec - 1) : 0),
                most = (int64_t{1} << c.prec) - 1;
  const int64_t v = std::clamp<int64_t>(unsigned_value, 0, most);
  return static_cast<uint8_t>(c.prec > 8 ? v >> (c.prec - 8) : c.prec == 8 ? v : v * 255 / most);
}

}  // namespace

Result<Raster> decode_jpeg2000(Bytes file, const DecodeLimits& limits, bool header_only) {
  const uint64_t start = find_codestream(file);
  MLC_ASSIGN(const Codestream stream, read_codestream(file.subspan(start), limits));
  Raster r;
  r.width = static_cast<int64_t>(stream.width);
  r.height = static_cast<int64_t>(stream.height);
  r.channels = static_cast<int>(stream.components);
  if (header_only) return r;
  const uint32_t palette = palette_channels(file.first(start));
  if (palette > 4) return Status(Code::Unsupported, "jpeg2000: a palette of " + std::to_string(palette) + " channels");
  MLC_RETURN_IF_ERROR(check_work(stream));
  MLC_RETURN_IF_ERROR(memory_of(stream, palette, file.size()).check(limits, r.describe("jpeg2000")));
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
  const uint64_t pixels = r.num_pixels();
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(r.num_bytes()));
  auto* to = reinterpret_cast<uint8_t*>(r.pixels.data());
  for (uint64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < r.channels; ++c) *to++ = to_byte(image->comps[c], image->comps[c].data[i]);
  return r;
}

}  // namespace mlc::io
