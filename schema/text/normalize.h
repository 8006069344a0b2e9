// The steps before a text is split: code points become others and keep where they came from.
#pragma once

#include <array>

#include "schema/text/chars.h"
#include "schema/text/pattern.h"

namespace mlc::text {

// What a normaliser's first steps make of ASCII, as far as each looks at one code point alone: one table for all of them. A
// text that has nothing else, most are that, goes through it instead of through the steps.
class AsciiSteps {
 public:
  explicit AsciiSteps(const Compiled& tokenizer);
  // Answers how many steps are done: all of those first ones, or none.
  uint32_t run(Chars& chars) const;

 private:
  static constexpr uint8_t kRemoved = 254, kOther = 255;  // kOther: the steps themselves say it
  uint8_t follow(const Compiled& tokenizer, uint32_t code_point) const;
  uint32_t count_ = 0;
  bool changes_ = false;
  std::array<uint8_t, 128> becomes_;
};

// Texts of steps as code points, by step.
using StepTexts = std::vector<std::vector<uint32_t>>;
StepTexts step_texts(const Compiled& tokenizer, const Table<Step>& steps);

// What normalising needs, kept from text to text of one tokenizer.
struct NormalizerSpace {
  explicit NormalizerSpace(const Compiled& tokenizer) : ascii(tokenizer), texts(step_texts(tokenizer, tokenizer.normalizer())) {}
  AsciiSteps ascii;
  StepTexts texts;
  Chars scratch;
  PatternSpace pattern;
};

// Applies all steps to `chars`. The space's scratch and it have equal bounds; what exceeds them is told by `overflowed`.
void normalize(const Compiled& tokenizer, Chars& chars, NormalizerSpace& space);

// The code points of a text.
std::vector<uint32_t> code_points(std::string_view text);
// Puts a text behind `out`, all of it at that place.
void add_text(std::string_view text, const Char& place, Chars& out);
// Each `what`, from the left, by a text.
void replace(std::span<const uint32_t> what, std::string_view by, std::span<const Char> in, Chars& out);
// Each match of the step's pattern by its text.
void replace_pattern(const Compiled& tokenizer, const Step& step, std::span<const Char> in, Chars& out, PatternSpace& space);
inline bool begins_with(std::span<const Char> in, std::span<const uint32_t> what) {
  if (in.size() < what.size()) return false;
  for (size_t i = 0; i < what.size(); ++i)
    if (in[i].code_point != what[i]) return false;
  return true;
}

// Every byte of the UTF-8 becomes the code point that stands for it.
void spell_bytes(std::span<const Char> in, Chars& out);

}  // namespace mlc::text
