#include "base/text/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/text/real.h"
#include "base/work_meter.h"

namespace mlc {
namespace {

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view without_blanks(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);  // from_chars knows no plus
  return s;
}

}  // namespace

bool read_real(std::string_view text, double& out) {
  text = without_blanks(text);
  const auto [end, error] = real_from_chars(text.data(), text.data() + text.size(), out);
  if (end != text.data() + text.size() || text.empty()) return false;
  if (error == std::errc::result_out_of_range) {  // it says nothing about which end
    const size_t e = text.find_first_of("eE");
    const bool tiny = e != text.npos ? text.substr(e).find('-') != text.npos : text.find_first_of("123456789") > text.find('.');
    out = std::copysign(tiny ? 0.0 : HUGE_VAL, text[0] == '-' ? -1.0 : 1.0);
    return true;
  }
  return error == std::errc();
}

bool read_integer(std::string_view text, int64_t& out) {
  text = without_blanks(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

unsigned write_real(double value, bool single, char* out) {
  const auto put = [&](const char* s) {
    const size_t n = std::strlen(s);
    std::memcpy(out, s, n);
    return static_cast<unsigned>(n);
  };
  if (std::isnan(value)) return put("nan");
  if (std::isinf(value)) return put(value < 0 ? "-inf" : "inf");
  const double magnitude = std::fabs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto made = single ? std::to_chars(out, out + kNumberChars, static_cast<float>(value), format)
                           : std::to_chars(out, out + kNumberChars, value, format);
  char* end = made.ptr;
  if (plain && std::memchr(out, '.', static_cast<size_t>(end - out)) == nullptr) *end++ = '.', *end++ = '0';
  return static_cast<unsigned>(end - out);
}

uint32_t in_case(uint32_t c, bool upper) {
  struct Range {
    uint16_t first, last;  // capitals
    uint8_t to_small;      // 1: capitals and small letters take turns, the capital being even; 2: odd
  };
  static constexpr Range kRanges[] = {
      {'A', 'Z', 32},        {0xC0, 0xD6, 32},      {0xD8, 0xDE, 32},      {0x100, 0x12E, 1},     {0x132, 0x136, 1},
      {0x139, 0x147, 2},     {0x14A, 0x176, 1},     {0x179, 0x17D, 2},     {0x386, 0x386, 38},    {0x388, 0x38A, 37},
      {0x38C, 0x38C, 64},    {0x38E, 0x38F, 63},    {0x391, 0x3A1, 32},    {0x3A3, 0x3AB, 32},    {0x400, 0x40F, 80},
      {0x410, 0x42F, 32},    {0x460, 0x480, 1},     {0x48A, 0x4BE, 1},     {0x4D0, 0x52E, 1}};
  for (const Range& r : kRanges) {
    if (r.to_small <= 2) {
      if (c < r.first || c > r.last + 1u) continue;
      const bool capital = (c & 1) == (r.to_small == 2 ? 1u : 0u);
      return c + (capital && !upper ? 1 : 0) - (!capital && upper ? 1 : 0);
    }
    if (!upper && c >= r.first && c <= r.last) return c + r.to_small;
    if (upper && c >= r.first + uint32_t{r.to_small} && c <= r.last + uint32_t{r.to_small}) return c - r.to_small;
  }
  if (upper && c == 0x3C2) return 0x3A3;  // the sigma at the end of a word
  if (upper && c == 0xFF) return 0x178;
  if (!upper && c == 0x178) return 0xFF;
  return c;
}

unsigned next_in_case(std::string_view text, size_t& at, bool upper, char* out) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[at + k]); };
  // All letters above are of one or two bytes.
  if (byte(0) < 0x80 || (byte(0) & 0xE0) != 0xC0 || at + 1 >= text.size() || (byte(1) & 0xC0) != 0x80) {
    out[0] = byte(0) < 0x80 ? static_cast<char>(in_case(byte(0), upper)) : text[at];
    ++at;
    return 1;
  }
  const uint32_t c = in_case((byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu), upper);
  out[0] = static_cast<char>(0xC0 | c >> 6);
  out[1] = static_cast<char>(0x80 | (c & 0x3F));
  at += 2;
  return 2;
}

unsigned decode_utf8(std::string_view text, size_t at, uint32_t& out) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t lead = byte(at);
  unsigned len = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (len == 0 || text.size() - at < len) return 0;
  out = len == 1 ? lead : lead & (0x7Fu >> len);
  for (unsigned i = 1; i < len; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
    out = out << 6 | (byte(at + i) & 0x3Fu);
  }
  constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (out < smallest[len] || out > 0x10FFFF || (out >= 0xD800 && out <= 0xDFFF)) return 0;
  return len;
}

bool is_unseen(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F || c == 0xFEFF;
}

void append_utf8(std::string& out, uint32_t c) {
  const unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;  // bytes behind the first
  const unsigned mark = more == 0 ? 0 : 0xFF00u >> (more + 1) & 0xFF;
  out += static_cast<char>(mark | c >> (6 * more));
  for (unsigned k = more; k-- > 0;) out += static_cast<char>(0x80 | (c >> (6 * k) & 0x3F));
}

bool find_twice(std::vector<std::string_view>& texts, std::string_view& which) {
  std::sort(texts.begin(), texts.end());
  const auto twice = std::adjacent_find(texts.begin(), texts.end());
  if (twice == texts.end()) return false;
  which = *twice;
  return true;
}

bool is_word_of(std::string_view list, std::string_view word) {
  if (word.empty() || word.find(' ') != word.npos) return false;
  for (size_t at = 0; (at = list.find(word, at)) != list.npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

namespace {

// Bytes that an automaton looks at for a unit of work, and how many it looks at between two charges.
constexpr size_t kBytesPerUnit = 4, kBytesPerCharge = 4096;

// How much of the text from its start is accepted at most; -1: not even nothing, or `work` ended the run.
int64_t accepted(const int32_t* table, uint64_t length, std::string_view text, WorkAccount* work) {
  if (length < 258 || table[0] < 2 || table[1] < 1) return -1;
  const auto states = static_cast<uint64_t>(table[0]), classes = static_cast<uint64_t>(table[1]);
  if (states > length || classes > 256 || length != 258 + states + states * classes) return -1;
  const int32_t *class_of = table + 2, *ends = class_of + 256, *next = ends + states;
  int64_t most = -1;
  uint64_t state = 1;
  size_t at = 0;
  for (; state > 0 && state < states; ++at) {
    if (ends[state] != 0) most = static_cast<int64_t>(at);
    if (at == text.size()) break;
    if (work && at % kBytesPerCharge == kBytesPerCharge - 1 && !work->spend(kBytesPerCharge / kBytesPerUnit)) return -1;
    const auto k = static_cast<uint64_t>(class_of[static_cast<uint8_t>(text[at])]);
    if (k >= classes) break;
    state = static_cast<uint64_t>(next[state * classes + k]);
  }
  return work && !work->spend(1 + at % kBytesPerCharge / kBytesPerUnit) ? -1 : most;
}

}  // namespace

bool accepts(const int32_t* table, uint64_t length, std::string_view text, WorkAccount* work) {
  return accepted(table, length, text, work) == static_cast<int64_t>(text.size());
}

bool next_token(std::string_view& rest, const int32_t* table, uint64_t length, bool between, uint64_t letters,
                std::string_view& token, WorkAccount* work) {
  while (!rest.empty()) {
    size_t at = 0, bytes = 0;
    for (; at < rest.size(); ++at) {
      const int64_t n = accepted(table, length, rest.substr(at), work);
      bytes = n > 0 ? static_cast<size_t>(n) : 0;
      if (bytes > 0) break;
      if (n < 0 && work && !work->spend(1)) return false;
    }
    token = between ? rest.substr(0, at) : rest.substr(at, bytes);
    rest.remove_prefix(at + bytes);
    uint64_t count = 0;
    for (const char c : token) count += (c & 0xC0) != 0x80;
    if (count > 0 && count >= letters) return true;
  }
  return false;
}

}  // namespace mlc
