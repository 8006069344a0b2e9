// Matches of a pattern in a text, one after the other.
#pragma once

#include "schema/text/chars.h"

namespace mlc::text {

// What a search needs, kept from text to text.
struct PatternSpace {
  std::vector<uint8_t> classes;
  // The states that were passed on the way, and those of which it is known that no match comes any more.
  std::vector<uint16_t> passed, vain;
};

class PatternMatcher {
 public:
  // A pattern that a step names. One search at a time has the space.
  PatternMatcher(const Compiled& tokenizer, uint32_t pattern, PatternSpace& space)
      : tokenizer_(tokenizer), table_(tokenizer.pattern(pattern)), edge_(tokenizer.num_pattern_classes()), space_(space) {}

  // Begins with another text.
  void begin(std::span<const Char> text);
  // The next match, never an empty one; false if there is none any more.
  bool next(uint32_t& begin, uint32_t& end);
  // Whether the search was given up, for it took too many steps: 64 for each code point, with 65,536 to begin with.
  bool gave_up() const { return gave_up_; }

 private:
  uint32_t match_at(uint32_t begin);
  void remember(uint32_t begin, uint32_t end);

  const Compiled& tokenizer_;
  const PatternTable table_;
  uint32_t edge_;
  uint32_t at_ = 0;
  uint64_t steps_left_ = 65'536;
  bool gave_up_ = false, remembers_ = false;
  PatternSpace& space_;
};

}  // namespace mlc::text
