#include "schema/steps.h"

namespace mlc {

std::string text_of(const StepSettings& set) {
  std::string text;
  const auto number = [&](const char* word, uint32_t value) {
    if (value) text += std::string(" ") + word + " " + std::to_string(value);
  };
  const auto flag = [&](const char* word, bool value) {
    if (value) text += std::string(" ") + word;
  };
  number("axis", set.axis);
  flag("new", set.new_axis);
  flag("drop", set.drop_axis);
  number("cuts", set.max_cuts);
  number("letters", set.min_letters);
  flag("between", set.between);
  flag("lower", set.case_change == CaseChange::Lower);
  flag("upper", set.case_change == CaseChange::Upper);
  flag("match_case", set.match_case);
  flag("integers", set.integers);
  return text;
}

}  // namespace mlc
