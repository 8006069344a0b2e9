#include "runtime/text/pattern.h"

#include <algorithm>

namespace mlc::text {
namespace {

constexpr uint32_t kFarBehind = 32;  // a match: what was passed in vain is worth to be remembered

}  // namespace

void PatternMatcher::begin(std::span<const Char> text) {
  classes_.resize(text.size());
  for (size_t i = 0; i < text.size(); ++i) classes_[i] = static_cast<uint8_t>(tokenizer_.pattern_class(text[i].code_point));
  at_ = 0;
  steps_left_ += 64 * uint64_t{text.size()};
  remembers_ = false;
  passed_.resize(std::max(passed_.size(), text.size()));
}

// Where the match ends that begins there; there itself if none does.
uint32_t PatternMatcher::match_at(uint32_t begin) {
  const auto size = static_cast<uint32_t>(classes_.size());
  uint32_t state = table_.start(begin == 0 ? edge_ : classes_[begin - 1]), end = begin, i = begin;
  for (; state != 0; ++i) {
    if (remembers_ && i < size && vain_[i] == state) break;
    if (i < size) passed_[i] = static_cast<uint16_t>(state);
    const uint32_t next = table_.next(state, i < size ? classes_[i] : edge_);
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
  if (!remembers_) vain_.assign(classes_.size(), 0);
  remembers_ = true;
  for (uint32_t i = begin; i < end; ++i) vain_[i] = passed_[i];
}

bool PatternMatcher::next(uint32_t& begin, uint32_t& end) {
  for (const auto size = static_cast<uint32_t>(classes_.size()); at_ < size && !gave_up_; ++at_) {
    const uint32_t behind = match_at(at_);
    if (behind == at_ || gave_up_) continue;
    begin = at_, end = at_ = behind;
    return true;
  }
  return false;
}

}  // namespace mlc::text
