// The steps before a text is split: code points become others and keep where they came from.
#pragma once

#include "runtime/text/chars.h"

namespace mlc::text {

// Applies all steps to `chars`. `scratch` and it have equal bounds; what exceeds them is told by `overflowed`.
void normalize(const Compiled& tokenizer, Chars& chars, Chars& scratch);

// The code points of a text.
std::vector<uint32_t> code_points(std::string_view text);
// Puts a text behind `out`, all of it at that place.
void add_text(std::string_view text, const Char& place, Chars& out);
// Each `what`, from the left, by a text.
void replace(std::span<const uint32_t> what, std::string_view by, std::span<const Char> in, Chars& out);
// Each match of the step's pattern by its text.
void replace_pattern(const Compiled& tokenizer, const Step& step, std::span<const Char> in, Chars& out);
inline bool begins_with(std::span<const Char> in, std::span<const uint32_t> what) {
  if (in.size() < what.size()) return false;
  for (size_t i = 0; i < what.size(); ++i)
    if (in[i].code_point != what[i]) return false;
  return true;
}

// Every byte of the UTF-8 becomes the code point that stands for it.
void spell_bytes(std::span<const Char> in, Chars& out);

// The UTF-8 of a code point: how many bytes.
inline uint32_t encode_utf8(uint32_t c, uint8_t (&out)[4]) {
  if (c < 0x80) return out[0] = static_cast<uint8_t>(c), 1;
  const auto tail = [c](int shift) { return static_cast<uint8_t>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x800) return out[0] = static_cast<uint8_t>(0xC0 | c >> 6), out[1] = tail(0), 2;
  if (c < 0x10000) return out[0] = static_cast<uint8_t>(0xE0 | c >> 12), out[1] = tail(6), out[2] = tail(0), 3;
  return out[0] = static_cast<uint8_t>(0xF0 | c >> 18), out[1] = tail(12), out[2] = tail(6), out[3] = tail(0), 4;
}

}  // namespace mlc::text
