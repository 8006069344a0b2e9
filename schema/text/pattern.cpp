#include "schema/text/pattern.h"

#include <algorithm>

namespace mlc::text {
namespace {

constexpr uint32_t kFarBehind = 32;  // a match: what was passed in vain is worth to be remembered

}  // namespace

void PatternMatcher::begin(std::span<const Char> text) {
  space_.classes.resize(text.size());
  for (size_t i = 0; i < text.size(); ++i) space_.classes[i] = static_cast<uint8_t>(tokenizer_.pattern_class(text[i].code_point));
  at_ = 0;
  steps_left_ += 64 * uint64_t{text.size()};
  remembers_ = false;
  space_.passed.resize(std::max(space_.passed.size(), text.size()));
}

// Where the match ends that begins there; there itself if none does.
uint32_t PatternMatcher::match_at(uint32_t begin) {
  const auto size = static_cast<uint32_t>(space_.classes.size());
  uint32_t state = table_.start(begin == 0 ? edge_ : space_.classes[begin - 1]), end = begin, i = begin;
  for (; state != 0; ++i) {
    if (remembers_ && i < size && space_.vain[i] == state) break;
    if (i < size) space_.passed[i] = static_cast<uint16_t>(state);
    const uint32_t next = table_.next(state, i < size ? space_.classes[i] : edge_);
    if (next & kPatternMatch) end = i;
    if (i == size) break;
    state = next & (kPatternMatch - 1u);
  }
  const uint64_t steps = i - begin + 1;
  if (steps > steps_left_) gave_up_ = true;
  else steps_left_ -= steps;
  if (i - end > kFarBehind) remember(end + 1, i);
  return end;
}

// A text through which a state goes in vain again and again is gone through once.
void PatternMatcher::remember(uint32_t begin, uint32_t end) {
  if (!remembers_) space_.vain.assign(space_.classes.size(), 0);
  remembers_ = true;
  for (uint32_t i = begin; i < end; ++i) space_.vain[i] = space_.passed[i];
}

bool PatternMatcher::next(uint32_t& begin, uint32_t& end) {
  for (const auto size = static_cast<uint32_t>(space_.classes.size()); at_ < size && !gave_up_; ++at_) {
    // Most places begin no match, which the first code point shows.
    if (table_.next(table_.start(at_ == 0 ? edge_ : space_.classes[at_ - 1]), space_.classes[at_]) == 0) continue;
    const uint32_t behind = match_at(at_);
    if (behind == at_ || gave_up_) continue;
    begin = at_, end = at_ = behind;
    return true;
  }
  return false;
}

}  // namespace mlc::text
