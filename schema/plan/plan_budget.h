// What of a plan may be copied out of its bytes.
#pragma once

#include <cstdint>

namespace mlc::exec {

// FlatBuffers may share parts: a million launches can name one list of operands, which would become a million copies.
// The writer shares nothing, so everything that is copied out must fit into the length of the plan.
class Budget {
 public:
  explicit Budget(uint64_t bytes) : left_(bytes) {}
  bool afford(uint64_t items, uint64_t bytes_each) {
    const uint64_t cost = items * bytes_each;  // 32 bits times a small constant
    if (cost > left_) left_ = 0, exhausted_ = true;
    else left_ -= cost;
    return !exhausted_;
  }

 private:
  uint64_t left_;
  bool exhausted_ = false;
};
// An item of a list of tables takes at least its offset and the table's own.
constexpr uint64_t kTable = 8;
// A step says at least what it does and what it reads or writes, and is large once it is read.
constexpr uint64_t kStep = 16;

}  // namespace mlc::exec
