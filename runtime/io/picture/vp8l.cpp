#include "runtime/io/picture/vp8l.h"

#include <algorithm>
#include <array>

namespace mlc::io {
namespace {

constexpr uint32_t kLiterals = 256, kLengths = 24, kDistances = 40, kMaxCacheBits = 11, kMaxLength = 15;
constexpr uint32_t kMaxAlphabet = kLiterals + kLengths + (1u << kMaxCacheBits);
// libwebp 1.2.4, vp8l_dec.c: entries of 4 bytes in the tables of the five codes of a group without a colour cache, and an
// HTreeGroup. The cache adds the green code's entries, 2050 for 2048 colours.
constexpr uint64_t kTableEntries = 630 * 3 + 410 + 654, kGroupBytes = 640;

// Bits from the lowest of each byte on. What lies behind the end reads as 0 and is remembered.
class BitReader {
 public:
  explicit BitReader(Bytes bytes) : bytes_(bytes) {}
  bool failed() const { return at_ > bytes_.size() * 8; }
  uint32_t bit() {
    const uint64_t at = at_++;
    return at / 8 < bytes_.size() ? std::to_integer<uint32_t>(bytes_[at / 8]) >> at % 8 & 1 : 0;
  }
  uint32_t bits(uint32_t count) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; ++i) value |= bit() << i;
    return value;
  }

 private:
  Bytes bytes_;
  uint64_t at_ = 0;
};

// A canonical prefix code: symbols in the order of their lengths, then of their numbers.
class PrefixCode {
 public:
  // False: no code, or an incomplete one. A single symbol takes no bits.
  bool make(std::span<const uint8_t> lengths) {
    count_ = {};
    for (const uint8_t length : lengths) ++count_[length];
    count_[0] = 0;
    std::array<uint16_t, kMaxLength + 2> next = {};
    int64_t open = 1;
    uint32_t symbols = 0;
    for (uint32_t l = 1; l <= kMaxLength; ++l) {
      open = 2 * open - count_[l];
      if (open < 0) return false;
      next[l + 1] = static_cast<uint16_t>(next[l] + count_[l]);
      symbols += count_[l];
    }
    for (uint32_t s = 0; s < lengths.size(); ++s)
      if (lengths[s]) symbols_[next[lengths[s]]++] = static_cast<uint16_t>(s);
    single_ = symbols == 1;
    return single_ || (open == 0 && symbols > 0);
  }
  uint32_t read(BitReader& in) const {
    if (single_) return symbols_[0];
    uint32_t code = 0, first = 0, index = 0;
    for (uint32_t l = 1; l <= kMaxLength; ++l) {
      code |= in.bit();
      if (code - first < count_[l]) return symbols_[index + code - first];
      index += count_[l];
      first = (first + count_[l]) << 1;
      code <<= 1;
    }
    return 0;  // not reached: the code is complete
  }

 private:
  std::array<uint16_t, kMaxLength + 1> count_ = {};
  std::array<uint16_t, kMaxAlphabet> symbols_ = {};
  bool single_ = false;
};

class Stream {
 public:
  explicit Stream(Bytes bytes) : in_(bytes) {}

  // Up to the groups of codes of the picture itself. False: damaged.
  bool read(uint32_t width, uint32_t height, uint64_t& table_bytes) {
    uint32_t seen = 0;
    while (in_.bit()) {
      const uint32_t kind = in_.bits(2);
      if (seen >> kind & 1) return false;
      seen |= 1u << kind;
      if (!transform(kind, width, height)) return false;
    }
    uint32_t cache_bits = 0;
    if (!read_cache_bits(cache_bits)) return false;
    uint64_t groups = 1;
    if (in_.bit()) {
      // One group for each block of pixels, or up to 1000 of which some are unused.
      const uint32_t scale = in_.bits(3) + 2;
      const uint64_t blocks = uint64_t{parts(width, scale)} * parts(height, scale);
      groups = std::min<uint64_t>(std::max<uint64_t>(blocks, 1000), 1 << 16);
    }
    table_bytes = groups * ((kTableEntries + (cache_bits ? (1u << cache_bits) + 2 : 0)) * 4 + kGroupBytes);
    return !in_.failed();
  }

 private:
  enum : uint32_t { kPredictor = 0, kColour = 1, kPalette = 3 };
  static uint32_t parts(uint32_t size, uint32_t scale) { return (size + (1u << scale) - 1) >> scale; }

  bool transform(uint32_t kind, uint32_t& width, uint32_t height) {
    if (kind == kPredictor || kind == kColour) {
      const uint32_t scale = in_.bits(3) + 2;
      return image(uint64_t{parts(width, scale)} * parts(height, scale));
    }
    if (kind == kPalette) {
      const uint32_t colours = in_.bits(8) + 1;
      width = parts(width, colours > 16 ? 0 : colours > 4 ? 1 : colours > 2 ? 2 : 3);
      return image(colours);
    }
    return true;  // green is subtracted
  }

  bool read_cache_bits(uint32_t& bits) {
    if (!in_.bit()) return true;
    bits = in_.bits(4);
    return bits >= 1 && bits <= kMaxCacheBits;
  }

  // The pixels of a picture that belongs to a transform: how many the symbols stand for, not which.
  bool image(uint64_t pixels) {
    uint32_t cache_bits = 0;
    if (!read_cache_bits(cache_bits)) return false;
    const uint32_t green = kLiterals + kLengths + (cache_bits ? 1u << cache_bits : 0);
    const uint32_t alphabets[] = {green, kLiterals, kLiterals, kLiterals, kDistances};
    for (uint32_t k = 0; k < 5; ++k)
      if (!code(alphabets[k], codes_[k])) return false;
    for (uint64_t done = 0; done < pixels;) {
      if (in_.failed()) return false;
      const uint32_t symbol = codes_[0].read(in_);
      if (symbol < kLiterals) {
        for (uint32_t k = 1; k < 4; ++k) codes_[k].read(in_);
        ++done;
      } else if (symbol < kLiterals + kLengths) {
        done += number(symbol - kLiterals);
        number(codes_[4].read(in_));
        if (done > pixels) return false;
      } else {
        ++done;
      }
    }
    return true;
  }

  // A length or distance: a symbol for its size, then its lower bits.
  uint32_t number(uint32_t symbol) {
    if (symbol < 4) return symbol + 1;
    const uint32_t extra = (symbol - 2) >> 1;
    return ((2 + (symbol & 1)) << extra) + in_.bits(extra) + 1;
  }

  bool code(uint32_t alphabet, PrefixCode& out) {
    lengths_.fill(0);
    const std::span<uint8_t> lengths = std::span(lengths_).first(alphabet);
    if (in_.bit()) {
      const bool two = in_.bit(), wide = in_.bit();
      const uint32_t first = in_.bits(wide ? 8 : 1);
      lengths_[first] = 1;
      if (two) lengths_[in_.bits(8)] = 1;
      return !in_.failed() && out.make(lengths);
    }
    static constexpr uint8_t kOrder[] = {17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    std::array<uint8_t, std::size(kOrder)> of_lengths = {};
    const uint32_t stated = in_.bits(4) + 4;
    if (stated > of_lengths.size()) return false;
    for (uint32_t k = 0; k < stated; ++k) of_lengths[kOrder[k]] = static_cast<uint8_t>(in_.bits(3));
    if (!out.make(of_lengths)) return false;
    uint32_t symbols = alphabet;
    if (in_.bit()) {
      const uint32_t size = in_.bits(3);
      symbols = 2 + in_.bits(2 + 2 * size);
      if (symbols > alphabet) return false;
    }
    uint8_t previous = 8;
    for (uint32_t at = 0; at < alphabet && symbols-- > 0;) {
      const uint32_t length = out.read(in_);
      if (length < 16) {
        lengths[at++] = static_cast<uint8_t>(length);
        if (length) previous = static_cast<uint8_t>(length);
        continue;
      }
      const uint32_t repeat = length == 16 ? 3 + in_.bits(2) : length == 17 ? 3 + in_.bits(3) : 11 + in_.bits(7);
      if (repeat > alphabet - at) return false;
      std::fill_n(lengths.begin() + at, repeat, length == 16 ? previous : uint8_t{0});
      at += repeat;
    }
    return !in_.failed() && out.make(lengths);
  }

  BitReader in_;
  std::array<PrefixCode, 5> codes_;
  std::array<uint8_t, kMaxAlphabet> lengths_ = {};
};

}  // namespace

Result<uint64_t> vp8l_table_memory(Bytes stream, uint32_t width, uint32_t height) {
  uint64_t bytes = 0;
  if (!Stream(stream).read(width, height, bytes)) return Status(Code::Malformed, "webp: the lossless stream is damaged");
  return bytes;
}

}  // namespace mlc::io
