#include "runtime/pipeline/answer_budget.h"

#include "base/checked.h"

namespace mlc::pipeline {

Status AnswerBudget::take(uint64_t count, uint64_t each, std::string_view what) {
  if (bytes_ == UINT64_MAX) return ok();
  const uint64_t bytes = checked_mul(count, each).value_or(UINT64_MAX);
  if (bytes > left_)
    return Status(Code::Resource, 6006, "the answers take more than {} MiB, found at '{}'", bytes_ >> 20, what)
        .hint("--memory-limit allows more; or sign the file, or trust who has signed it: then there is no limit");
  left_ -= bytes;
  return ok();
}

Status AnswerBudget::look_at(uint64_t elements, std::string_view what) {
  if (elements_ == UINT64_MAX) return ok();
  if (elements > elements_)
    return Status(Code::Resource, 6006, "the answers are made of more than {} elements, found at '{}'", kUntrustedElements, what)
        .hint("--memory-limit allows more; or sign the file, or trust who has signed it: then there is no limit");
  elements_ -= elements;
  return ok();
}

}  // namespace mlc::pipeline
