// Pages: RFC 3533, section 6. Headers and books: the Vorbis I specification, sections 4.2 and 3.2.1. The first packet tells channels, the third has
// the books: what libvorbis 1.3 makes of one takes memory for each entry and, where it has vectors, for each of their elements.
#include <array>
#include <cmath>

#include "base/byte_cursor.h"
#include "runtime/io/limits.h"
#include "runtime/io/sound/sound_headers.h"

namespace mlc::io {
namespace {

constexpr uint64_t kVorbisMemory = 16 << 20;              // floors, mappings, modes, windows of 8192 samples and their transforms for 8 channels
constexpr uint64_t kPerEntry = 48, kPerElement = 8;      // lengths, codes, tables to find them; vectors, once packed and once not
constexpr uint64_t kResidues = 64, kPerResidueEntry = 16, kPerResidueElement = 4;  // each residue may unfold the same book

Status bad_vorbis(std::string what) { return Status(Code::Malformed, "ogg: " + std::move(what)); }

// The checksum of a page, of which the field itself counts as zeros.
uint32_t checksum(Bytes page) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i << 24;
      for (int bit = 0; bit < 8; ++bit) c = c << 1 ^ (c >> 31 ? 0x04C11DB7 : 0);
      made[i] = c;
    }
    return made;
  }();
  uint32_t c = 0;
  for (size_t i = 0; i < page.size(); ++i) c = c << 8 ^ table[c >> 24 ^ (i >= 22 && i < 26 ? 0 : static_cast<uint32_t>(page[i]))];
  return c;
}

// The first packets of the one stream of a file.
class Packets {
 public:
  static constexpr size_t kCount = 3;

  Status read(Bytes file) {
    ByteCursor in(file);
    for (uint32_t number = 0; in.left() > 0; ++number) MLC_RETURN_IF_ERROR(page(file, in, number));
    if (at_ < kCount) return bad_vorbis("the file ends within its headers");
    return ok();
  }
  Bytes operator[](size_t i) const { return packets_[i]; }

 private:
  Status page(Bytes file, ByteCursor& in, uint32_t number) {
    const size_t begin = file.size() - in.left();
    if (in.text(4) != "OggS" || in.take<uint8_t>() != 0) return bad_vorbis("what is at byte " + std::to_string(begin) + " is no page");
    const auto flags = in.take<uint8_t>();
    in.skip(8);
    const auto stream = in.take<uint32_t>(), sequence = in.take<uint32_t>(), sum = in.take<uint32_t>();
    const Bytes lacing = in.bytes(in.take<uint8_t>());
    size_t size = 0;
    for (const std::byte b : lacing) size += static_cast<size_t>(b);
    const Bytes body = in.bytes(size);
    if (in.failed()) return bad_vorbis("truncated within a page");
    if (sum != checksum(file.subspan(begin, file.size() - in.left() - begin))) return bad_vorbis("the page at byte " + std::to_string(begin) + " has another checksum than its bytes");
    if (number == 0) stream_ = stream;
    if (stream != stream_ || ((flags & 2) != 0) != (number == 0))
      return Status(Code::Unsupported, "ogg: more than one stream, expected one of Vorbis");
    if (at_ == kCount) return ok();
    if (sequence != number || ((flags & 1) != 0) != is_open_) return bad_vorbis("a page of the headers is missing");
    add(lacing, body);
    return ok();
  }

  void add(Bytes lacing, Bytes body) {
    for (const std::byte b : lacing) {
      const auto length = static_cast<size_t>(b);
      packets_[at_].insert(packets_[at_].end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(length));
      body = body.subspan(length);
      is_open_ = length == 255;
      if (!is_open_ && ++at_ == kCount) return;
    }
  }

  std::array<std::vector<std::byte>, kCount> packets_;
  size_t at_ = 0;         // the packet that is read
  bool is_open_ = false;  // it goes on in the next page
  uint32_t stream_ = 0;
};

// From the lowest bit of each byte on. Past the end all is zero, and `failed` says so.
class Bits {
 public:
  explicit Bits(Bytes bytes) : bytes_(bytes) {}
  uint32_t take(unsigned count) {
    uint32_t v = 0;
    for (unsigned i = 0; i < count && !failed(); ++i, ++at_)
      if (at_ / 8 < bytes_.size()) v |= (static_cast<uint32_t>(bytes_[at_ / 8]) >> at_ % 8 & 1) << i;
    return v;
  }
  void skip(uint64_t count) { at_ = count > bytes_.size() * 8 ? bytes_.size() * 8 + 1 : at_ + count; }
  bool failed() const { return at_ > bytes_.size() * 8; }

 private:
  Bytes bytes_;
  uint64_t at_ = 0;
};

unsigned bits_of(uint32_t v) {
  unsigned n = 0;
  for (; v > 0; v >>= 1) ++n;
  return n;
}

// The largest number whose power `dim` is at most `entries`.
uint32_t values_of_lattice(uint32_t entries, uint32_t dim) {
  const auto fits = [&](uint64_t v) {
    uint64_t power = 1;
    for (uint32_t i = 0; i < dim && power <= entries && v > 1; ++i) power *= v;
    return power <= entries;
  };
  auto v = static_cast<uint32_t>(std::floor(std::pow(static_cast<double>(entries), 1.0 / dim)));
  while (v > 1 && !fits(v)) --v;
  while (fits(uint64_t{v} + 1)) ++v;
  return v;
}

struct Book {
  uint64_t entries = 0, elements = 0;
};

Status skip_lengths(Bits& in, uint32_t entries) {
  if (in.take(1) == 0) {
    const bool has_gaps = in.take(1) != 0;
    for (uint32_t i = 0; i < entries && !in.failed(); ++i)
      if (!has_gaps || in.take(1) != 0) in.take(5);
    return ok();
  }
  uint32_t length = in.take(5) + 1;
  for (uint32_t i = 0; i < entries; ++length) {
    const uint32_t count = in.take(bits_of(entries - i));
    if (length > 32 || count > entries - i || in.failed()) return bad_vorbis("a book of codes has lengths that do not add up");
    i += count;
  }
  return ok();
}

Result<Book> read_book(Bits& in) {
  if (in.take(24) != 0x564342) return bad_vorbis("a book of codes does not begin as one");
  const uint32_t dim = in.take(16), entries = in.take(24);
  if (dim == 0 || entries == 0 || bits_of(dim) + bits_of(entries) > 24) return bad_vorbis("a book of codes has " + std::to_string(entries) + " entries of " + std::to_string(dim));
  MLC_RETURN_IF_ERROR(skip_lengths(in, entries));
  const uint32_t kind = in.take(4);
  if (kind > 2) return bad_vorbis("a book of codes is of kind " + std::to_string(kind));
  if (kind > 0) {
    in.skip(64);
    const uint64_t width = in.take(4) + 1;
    in.skip(1);
    in.skip(width * (kind == 1 ? uint64_t{values_of_lattice(entries, dim)} : uint64_t{entries} * dim));
  }
  if (in.failed()) return bad_vorbis("truncated in the books of codes");
  return Book{entries, uint64_t{entries} * dim};
}

}  // namespace

Result<SoundHeader> vorbis_header(Bytes file) {
  Packets packets;
  MLC_RETURN_IF_ERROR(packets.read(file));
  constexpr std::string_view kStarts[] = {"\x01vorbis", "\x03vorbis", "\x05vorbis"};
  for (size_t i = 0; i < Packets::kCount; ++i)
    if (ByteCursor in(packets[i]); in.text(7) != kStarts[i] || (i == 0 && packets[i].size() != 30))
      return Status(Code::Unsupported, "ogg: the stream is not Vorbis").hint("convert the sound to Vorbis, FLAC or WAV");
  SoundHeader header;
  header.channels = static_cast<uint32_t>(packets[0][11]);
  Bits in(packets[2].subspan(7));
  uint64_t largest = 0;
  MemoryNeed need;
  need.add(kVorbisMemory).add(packets[1].size(), 12);
  for (uint32_t left = in.take(8) + 1; left > 0; --left) {
    MLC_ASSIGN(const Book book, read_book(in));
    need.add(book.entries, kPerEntry).add(book.elements, kPerElement);
    largest = std::max(largest, book.entries * kPerResidueEntry + book.elements * kPerResidueElement);
  }
  header.memory = need.add(largest, kResidues).bytes;
  return header;
}

}  // namespace mlc::io
