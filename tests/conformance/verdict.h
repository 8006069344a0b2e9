// Whether what a case answers is right, or wrong in the way that is known.
#pragma once

#include <string>

#include "tests/conformance/case.h"
#include "tests/conformance/known_differences.h"
#include "tests/conformance/run/outcome.h"

namespace mlc::conformance {

// Null: the case has no entry.
const KnownDifference* known_difference(std::string_view set, std::string_view test);

struct Verdict {
  Kind kind = Kind::Pass;
  std::string reason;  // empty: it passes
};

// `difference`: of all outputs. Known: within the bounds of the entry. A case that does not differ though it has an entry fails.
Verdict judge_difference(const Difference& difference, const KnownDifference* known);

}  // namespace mlc::conformance
