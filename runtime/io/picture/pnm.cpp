// PBM, PGM and PPM, as text and as bytes: P1 to P6 of Netpbm. Values are scaled to 255, rounded to nearest; of several
// pictures in a file the first counts. https://netpbm.sourceforge.net/doc/#formats
#include "runtime/io/picture/raster.h"

namespace mlc::io {
namespace {

Status bad_pnm(const char* what) { return Status(Code::Malformed, std::string("pnm: ") + what); }

class Reader {
 public:
  explicit Reader(Bytes file) : file_(file) {}

  uint64_t left() const { return file_.size() - at_; }
  const std::byte* here() const { return file_.data() + at_; }
  void skip(uint64_t bytes) { at_ += bytes; }
  int next() { return at_ < file_.size() ? std::to_integer<int>(file_[at_++]) : -1; }
  static bool is_blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  // Of the header, or of text: behind blanks and comments. At most `most`; false if there is none.
  bool number(uint32_t most, uint32_t& out) {
    int c = next();
    for (bool comment = c == '#'; comment || is_blank(c);
         comment = c == '#' || (comment && c >= 0 && c != '\n' && c != '\r'))
      c = next();
    if (c < '0' || c > '9') return false;
    uint64_t value = 0;
    for (; c >= '0' && c <= '9'; c = next()) {
      value = 10 * value + static_cast<uint64_t>(c - '0');
      if (value > most) return false;
    }
    if (c >= 0) --at_;
    out = static_cast<uint32_t>(value);
    return true;
  }
  // P1: one digit, blanks between them or not.
  bool bit(uint32_t& out) {
    int c = next();
    while (is_blank(c)) c = next();
    out = static_cast<uint32_t>(c - '0');
    return c == '0' || c == '1';
  }

 private:
  Bytes file_;
  uint64_t at_ = 0;
};

}  // namespace

Result<Raster> decode_pnm(Bytes file, const DecodeLimits& limits, bool header_only) {
  Reader in(file);
  in.next();  // 'P', and a digit: media_of has seen them
  const int kind = in.next() - '0';
  const bool is_text = kind <= 3, is_bits = kind == 1 || kind == 4;
  uint32_t width = 0, height = 0, most = 1;
  if (!in.number(UINT32_MAX, width) || !in.number(UINT32_MAX, height)) return bad_pnm("no size");
  if (!is_bits && (!in.number(65535, most) || most == 0)) return bad_pnm("no largest value from 1 to 65535");
  if (!Reader::is_blank(in.next())) return bad_pnm("the header is truncated");
  MLC_RETURN_IF_ERROR(check_dims(width, height, limits).note("pnm"));
  Raster r;
  r.width = width;
  r.height = height;
  r.channels = kind == 3 || kind == 6 ? 3 : 1;
  if (header_only) return r;

  const uint64_t samples = uint64_t{width} * height * static_cast<uint64_t>(r.channels);
  const uint64_t row_bytes = (uint64_t{width} + 7) / 8, sample_bytes = most > 255 ? 2 : 1;
  const uint64_t least = is_text ? samples : is_bits ? row_bytes * height : samples * sample_bytes;
  if (in.left() < least) return bad_pnm("the pixels are truncated");
  MLC_RETURN_IF_ERROR(MemoryNeed().add(samples).check(limits, r.describe("pnm")));
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(samples));
  auto* to = reinterpret_cast<uint8_t*>(r.pixels.data());
  const auto* const from = reinterpret_cast<const uint8_t*>(in.here());
  for (uint64_t i = 0; i < samples; ++i) {
    uint32_t value = 0;
    if (kind == 1) {
      if (!in.bit(value)) return bad_pnm("a pixel that is neither 0 nor 1");
    } else if (is_text) {
      if (!in.number(most, value)) return bad_pnm("a value that is missing or too large");
    } else if (is_bits) {
      value = from[i / width * row_bytes + i % width / 8] >> (7 - i % width % 8) & 1;
    } else {
      value = sample_bytes == 1 ? from[i] : uint32_t{from[2 * i]} << 8 | from[2 * i + 1];
      if (value > most) return bad_pnm("a value that is too large");
    }
    to[i] = static_cast<uint8_t>(is_bits ? 255 * (1 - value) : (value * 255 + most / 2) / most);
  }
  return r;
}

}  // namespace mlc::io
