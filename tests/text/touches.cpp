#include "tests/text/touches.h"

#include <algorithm>

namespace mlc::loop {

bool Touches::Touch::meets(const LaneAt& who) const {
  if (by.block == kNobody) return false;
  return by.block != who.block || (by.phase == who.phase && by.lane != who.lane);
}

void Touches::Touch::add(const LaneAt& who) {
  if (by.block != kNobody && by.block != who.block) by.block = kSeveral;
  else if (by.block == who.block && by.phase == who.phase && by.lane != who.lane) by.lane = kSeveral;
  else by = who;
}

bool Touches::read(size_t element, const LaneAt& who) {
  Element& e = elements_[element];
  e.read.add(who);
  return !e.wrote.meets(who);
}

bool Touches::write(size_t element, const LaneAt& who) {
  Element& e = elements_[element];
  const bool alone = !e.wrote.meets(who) && !e.read.meets(who);
  e.wrote.add(who);
  return alone;
}

void Touches::forget() { std::fill(elements_.begin(), elements_.end(), Element{}); }

}  // namespace mlc::loop
