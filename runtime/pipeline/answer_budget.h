// What the answers of a run may take together, beside the memory of its session: the texts and lists that are copied out of it, what
// host steps make of them, and the forms in which they are shown. One goes with a run, from its outputs to what is printed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace mlc::pipeline {

class AnswerBudget {
 public:
  AnswerBudget() = default;  // without a bound
  explicit AnswerBudget(uint64_t bytes, uint64_t elements = UINT64_MAX) : bytes_(bytes), left_(bytes), elements_(elements) {}
  // Of an untrusted file (spec/untrusted.md).
  static AnswerBudget of_untrusted() { return AnswerBudget(kUntrustedBytes, kUntrustedElements); }

  // Before `count` times `each` bytes are made for `what`, an output or a step. Resource (E6006) where there is no room for them.
  Status take(uint64_t count, uint64_t each, std::string_view what);
  Status take(uint64_t bytes, std::string_view what) { return take(bytes, 1, what); }
  // What was taken and is no longer there.
  void give_back(uint64_t bytes) {
    if (bytes_ != UINT64_MAX) left_ += bytes;
  }
  uint64_t left() const { return left_; }
  // Before so many elements of scores or arrays are looked at.
  Status look_at(uint64_t elements, std::string_view what);

 private:
  static constexpr uint64_t kUntrustedBytes = uint64_t{48} << 20;
  static constexpr uint64_t kUntrustedElements = uint64_t{1} << 28;  // a second

  uint64_t bytes_ = UINT64_MAX, left_ = UINT64_MAX, elements_ = UINT64_MAX;
};

}  // namespace mlc::pipeline
