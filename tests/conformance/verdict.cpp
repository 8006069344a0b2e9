#include "tests/conformance/verdict.h"

#include <cstdio>

namespace mlc::conformance {

const KnownDifference* known_difference(std::string_view set, std::string_view test) {
  for (const KnownDifference& known : kKnownDifferences)
    if (known.test == test && (known.set.empty() || known.set == set)) return &known;
  return nullptr;
}

Verdict judge_difference(const Difference& difference, const KnownDifference* known) {
  if (difference.text.empty()) {
    if (!known) return {};
    return {Kind::Fail, "does not differ: its entry in known_differences.h is not needed"};
  }
  if (!known || !difference.same_form) return {Kind::Fail, difference.text};
  const Bound& bound = known->bound;
  if (difference.elements <= bound.elements && difference.largest <= bound.largest && difference.not_finite <= bound.not_finite &&
      (!bound.one_is_zero || difference.unlike_zero == 0))
    return {Kind::Known, std::string(known->reason)};
  char text[320];
  std::snprintf(text, sizeof text, "; %lld elements differ, by %.4g at most, %lld from NaN or infinity, in %lld neither is zero; its entry in known_differences.h allows %lld, %.4g, %lld%s",
                static_cast<long long>(difference.elements), difference.largest, static_cast<long long>(difference.not_finite),
                static_cast<long long>(difference.unlike_zero), static_cast<long long>(bound.elements), bound.largest, static_cast<long long>(bound.not_finite),
                bound.one_is_zero ? ", 0" : "");
  return {Kind::Fail, difference.text + text};
}

}  // namespace mlc::conformance
