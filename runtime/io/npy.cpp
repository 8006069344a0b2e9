#include "runtime/io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/byte_cursor.h"
#include "base/text/text.h"

namespace mlc::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = 1 << 16;
constexpr uint64_t kMaxCharacters = 1 << 28;  // of one string

struct NpyHeader {
  DType dtype = DType::None;
  bool big_endian = false;
  bool fortran_order = false;
  bool wide = false;        // strings: of code points, 4 bytes each
  uint64_t characters = 0;  // of a string
  std::vector<int64_t> shape;
};

Status bad_npy(std::string what) { return Status(Code::Malformed, "npy: " + std::move(what)); }

// The header is a Python dict of three known keys; this reads that much of Python and no more.
class DictCursor {
 public:
  explicit DictCursor(std::string_view text) : rest_(text) {}

  void blanks() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.front()) != std::string_view::npos)
      rest_.remove_prefix(1);
  }
  bool eat(char c) {
    blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    blanks();
    if (!rest_.starts_with(w)) return false;
    rest_.remove_prefix(w.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    blanks();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view s = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return s;
  }
  std::optional<int64_t> number() {
    blanks();
    int64_t v = 0;
    auto [p, e] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), v);
    if (e != std::errc() || v < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(p - rest_.data()));
    if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);  // Python 2 wrote long integers
    return v;
  }
  bool at_end() {
    blanks();
    return rest_.empty();
  }

 private:
  std::string_view rest_;
};

Result<DType> dtype_of(std::string_view descr, NpyHeader& h) {
  bool& big_endian = h.big_endian;
  struct Known { std::string_view code; DType dtype; };
  static constexpr Known known[] = {
      {"f8", DType::F64}, {"f4", DType::F32}, {"f2", DType::F16}, {"V2", DType::BF16}, {"i8", DType::I64},
      {"i4", DType::I32}, {"i2", DType::I16}, {"i1", DType::I8},  {"u8", DType::U64},  {"u4", DType::U32},
      {"u2", DType::U16}, {"u1", DType::U8},  {"b1", DType::Bool}};
  if (!descr.empty() && std::string_view("<>|=").find(descr.front()) != std::string_view::npos) {
    big_endian = descr.front() == '>';
    for (const auto& k : known)
      if (k.code == descr.substr(1)) return k.dtype;
    if (descr.size() > 2 && (descr[1] == 'U' || descr[1] == 'S')) {
      h.wide = descr[1] == 'U';
      const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), h.characters);
      if (error == std::errc() && end == descr.data() + descr.size() && h.characters <= kMaxCharacters) return DType::Str;
    }
  }
  std::string found = "'" + std::string(descr.substr(0, 40)) + "'";
  if (descr.find('O') != std::string_view::npos)
    return Status(Code::InputMismatch, "npy: an array of Python objects (" + found + "), which would need pickle");
  return Status(Code::InputMismatch, "npy: elements of type " + found + ", expected a number, bool or string");
}

Status parse_shape(DictCursor& c, std::vector<int64_t>& shape) {
  if (!c.eat('(')) return bad_npy("'shape' is not a tuple");
  while (!c.eat(')')) {
    auto n = c.number();
    if (!n) return bad_npy("'shape' holds something that is not a whole number");
    if (shape.size() == kMaxRank) return bad_npy("rank above " + std::to_string(kMaxRank));
    shape.push_back(*n);
    if (!c.eat(',')) {
      if (!c.eat(')') || shape.size() == 1) return bad_npy("'shape' is not a tuple");  // "(3)" is a number in Python
      return ok();
    }
  }
  return ok();
}

Status parse_dict(std::string_view text, NpyHeader& h) {
  DictCursor c(text);
  bool seen[3] = {};
  auto once = [&](int i) { return !std::exchange(seen[i], true); };
  if (!c.eat('{')) return bad_npy("the header is not a Python dict");
  while (!c.eat('}')) {
    auto key = c.quoted();
    if (!key || !c.eat(':')) return bad_npy("the header is not a Python dict");
    if (*key == "descr" && once(0)) {
      auto descr = c.quoted();
      if (!descr) return Status(Code::InputMismatch, "npy: a structured array, expected plain numbers");
      MLC_ASSIGN(h.dtype, dtype_of(*descr, h));
    } else if (*key == "fortran_order" && once(1)) {
      h.fortran_order = c.word("True");
      if (!h.fortran_order && !c.word("False")) return bad_npy("'fortran_order' is neither True nor False");
    } else if (*key == "shape" && once(2)) {
      MLC_RETURN_IF_ERROR(parse_shape(c, h.shape));
    } else {
      return bad_npy("unexpected or repeated header key '" + std::string(key->substr(0, 40)) + "'");
    }
    if (!c.eat(',')) {
      if (!c.eat('}')) return bad_npy("the header is not a Python dict");
      break;
    }
  }
  if (!c.at_end()) return bad_npy("bytes after the header's dict");
  if (!seen[0] || !seen[1] || !seen[2]) return bad_npy("the header lacks descr, fortran_order or shape");
  return ok();
}

void swap_bytes(HostTensor& t) {
  size_t n = bytes_of(t.dtype);
  if (n > 1)
    for (std::byte *p = t.data.data(), *end = p + t.data.size(); p != end; p += n) std::reverse(p, p + n);
}

// `data` has its first index fastest; the tensor its last.
void copy_fortran(Bytes data, HostTensor& t) {
  size_t size = bytes_of(t.dtype), rank = t.shape.size();
  std::vector<int64_t> index(rank, 0);
  std::vector<size_t> stride(rank, size);
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * static_cast<size_t>(t.shape[d - 1]);
  size_t from = 0;
  for (std::byte *to = t.data.data(), *end = to + t.data.size(); to != end; to += size) {
    std::memcpy(to, data.data() + from, size);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < t.shape[d]) break;
      from -= stride[d] * static_cast<size_t>(t.shape[d]);
      index[d] = 0;
    }
  }
}

// Elements are filled up with zeros.
Result<HostTensor> read_strings(const NpyHeader& h, Bytes data, const DecodeLimits& limits) {
  const uint64_t width = h.characters * (h.wide ? 4 : 1);
  uint64_t count = 1;
  for (int64_t extent : h.shape) {
    const auto next = checked_mul(count, static_cast<uint64_t>(extent));
    if (!next) return bad_npy("the shape is too large");
    count = *next;
  }
  const auto size = checked_mul(count, width);
  if (!size || *size != data.size()) return bad_npy("another number of bytes than the strings take");
  if (width == 0 && count > data.size() + (uint64_t{1} << 20)) return bad_npy("too many empty strings");
  if (h.fortran_order && h.shape.size() > 1) return Status(Code::InputMismatch, "npy: strings in Fortran order");
  // Each may have a block of its own, which grows by doubling.
  const MemoryNeed need = MemoryNeed().add(count, sizeof(std::string) + 32).add(data.size(), 2);
  MLC_RETURN_IF_ERROR(need.check(limits, "npy: " + std::to_string(count) + " strings"));
  std::vector<std::string> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const Bytes element = data.subspan(i * width, width);
    std::string text;
    if (h.wide) {
      const auto last = std::find_if(element.rbegin(), element.rend(), [](std::byte b) { return b != std::byte{0}; });
      const uint64_t characters = (static_cast<uint64_t>(element.rend() - last) + 3) / 4;  // zeros fill what is left
      for (uint64_t k = 0; k < characters; ++k) {
        const auto c = static_cast<uint32_t>(
            load_uint(element.subspan(k * 4, 4), h.big_endian ? std::endian::big : std::endian::little));
        if (c > 0x10FFFF) return bad_npy("a string holds what is no code point");
        append_utf8(text, c);
      }
    } else {
      text.assign(reinterpret_cast<const char*>(element.data()), element.size());
      while (!text.empty() && text.back() == '\0') text.pop_back();
    }
    strings.push_back(std::move(text));
  }
  return HostTensor::of_strings(h.shape, std::move(strings));
}

// Calls `take` with each code point. Bytes that are no UTF-8 become U+FFFD.
template <class Take>
void for_code_points(std::string_view s, Take&& take) {
  for (size_t at = 0; at < s.size();) {
    uint32_t c = 0;
    const unsigned length = decode_utf8(s, at, c);
    take(length > 0 ? c : 0xFFFDu);
    at += std::max(length, 1u);
  }
}

// Every string of an array takes as much as the longest one. More than this is refused where it is many times what the strings are.
constexpr uint64_t kMostPadded = uint64_t{64} << 20;
constexpr uint64_t kMostPadding = 8;

Result<uint64_t> padded_bytes(const HostTensor& t, uint64_t& longest) {
  uint64_t all = 0;
  longest = 1;
  for (const std::string& s : t.strings) {
    uint64_t characters = 0;
    for_code_points(s, [&](uint32_t) { ++characters; });
    longest = std::max(longest, characters);
    all += characters;
  }
  const auto padded = checked_mul(longest * 4, t.strings.size());
  if (!padded || (*padded > kMostPadded && *padded / 4 / kMostPadding > all))
    return Status(Code::Resource, "npy: " + std::to_string(t.strings.size()) + " strings, each of which takes as much as the longest one, " +
                                      std::to_string(longest) + " characters").hint("-o FILE.json has them as they are");
  return *padded;
}

std::string_view descr_of(DType t) {
  switch (t) {
    case DType::F64: return "<f8"; case DType::F32: return "<f4"; case DType::F16: return "<f2";
    case DType::BF16: return "|V2";
    case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ: case DType::F8E8M0: case DType::F4E2M1: case DType::F6E2M3: case DType::F6E3M2: return "|V1";
    case DType::I64: return "<i8"; case DType::I32: return "<i4"; case DType::I16: return "<i2";
    case DType::I8: case DType::I4: case DType::I2: return "|i1";
    case DType::U64: return "<u8"; case DType::U32: return "<u4"; case DType::U16: return "<u2";
    case DType::U8: case DType::U4: case DType::U2: return "|u1";
    case DType::Bool: return "|b1";
    case DType::None: case DType::Str: return "";
  }
  return "";
}

}  // namespace

Result<HostTensor> parse_npy(Bytes file, const DecodeLimits& limits) { return parse_npy_within(file, limits.beyond(file)); }

Result<HostTensor> parse_npy_within(Bytes file, const DecodeLimits& limits) {
  ByteCursor in(file);
  if (file.size() < 10 || in.text(kMagic.size()) != kMagic)
    return bad_npy("the file does not begin as one, or is shorter than 10 bytes");
  const auto major = in.take<uint8_t>();
  if (major < 1 || major > 3) return bad_npy("version " + std::to_string(major) + ", expected 1 to 3");
  in.skip(1);
  const uint64_t length = in.take_uint(major == 1 ? 2 : 4);
  if (length > kMaxHeader) return bad_npy("a header of " + std::to_string(length) + " bytes");
  const std::string_view dict = in.text(length);
  if (in.failed()) return bad_npy("truncated in the header");
  NpyHeader h;
  MLC_RETURN_IF_ERROR(parse_dict(dict, h));

  const Bytes data = in.rest();
  if (h.dtype == DType::Str) return read_strings(h, data, limits);
  auto size = tensor_size(h.dtype, h.shape);
  if (!size.ok()) return std::move(size).status().note("npy");
  if (data.size() != *size)
    return bad_npy(std::to_string(data.size()) + " bytes of data, " + type_text(h.dtype, h.shape) + " takes " +
               std::to_string(*size));
  MLC_RETURN_IF_ERROR(MemoryNeed().add(*size).check(limits, "npy: " + type_text(h.dtype, h.shape)));
  MLC_ASSIGN(HostTensor t, HostTensor::zeros(h.dtype, std::move(h.shape)));
  if (h.fortran_order)
    copy_fortran(data, t);
  else if (!data.empty())
    std::memcpy(t.data.data(), data.data(), data.size());
  if (h.big_endian) swap_bytes(t);
  if (h.dtype == DType::Bool)
    for (uint8_t& b : t.as<uint8_t>()) b = b != 0;
  return t;
}

Result<std::vector<std::byte>> npy_header(const HostTensor& t) {
  std::string descr(descr_of(t.dtype));
  uint64_t longest = 0, padded = 0;
  if (t.dtype == DType::Str) {
    MLC_ASSIGN(padded, padded_bytes(t, longest));
    descr = "<U" + std::to_string(longest);
  }
  if (descr.empty())
    return Status(Code::Unsupported, "npy: no form for elements of type " + std::string(name_of(t.dtype)));
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < t.shape.size(); ++i)
    dict += (i ? " " : "") + std::to_string(t.shape[i]) + (i + 1 < t.shape.size() || i == 0 ? "," : "");
  dict += "), }";
  size_t total = (kMagic.size() + 4 + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - kMagic.size() - 4 - dict.size() - 1, ' ');
  dict += '\n';
  std::string file(kMagic);
  file += {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  file += dict;
  file.reserve(file.size() + padded);
  for (const std::string& s : t.strings) {
    const size_t end = file.size() + longest * 4;
    for_code_points(s, [&](uint32_t c) { file += {static_cast<char>(c), static_cast<char>(c >> 8), static_cast<char>(c >> 16), '\0'}; });
    file.resize(end);
  }
  auto* p = reinterpret_cast<const std::byte*>(file.data());
  return std::vector<std::byte>(p, p + file.size());
}

}  // namespace mlc::io
