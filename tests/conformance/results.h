// Outcomes of many cases: the text form in which they are kept and passed on, and what is printed of them.
#pragma once

#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/conformance/run/outcome.h"

namespace mlc::conformance {

// One line with tabs, without its end.
std::string line_of(const Outcome& outcome);
Result<Outcome> outcome_of(const std::string& line);

Status save(const std::string& path, const std::vector<Outcome>& outcomes);
Result<std::vector<Outcome>> load_outcomes(const std::string& path);

struct Count {
  size_t of[kKinds] = {};     // by Kind
  size_t given[kGivens] = {};  // by Given, of those that pass
  size_t total() const { return std::accumulate(std::begin(of), std::end(of), size_t{0}); }
  void add(const Outcome& outcome) {
    ++of[static_cast<size_t>(outcome.kind)];
    if (outcome.kind == Kind::Pass) ++given[static_cast<size_t>(outcome.given)];
  }
};

// Per set and path: counts, then whatever does not pass, grouped by reason.
std::string summary(const std::vector<Outcome>& outcomes);

// The generated part of README.md: totals, one row per operator, everything that does not pass with its reason.
std::string table(const std::vector<Outcome>& outcomes);
// Replaces what stands between the two marks in `path` by the table.
Status write_table(const std::string& path, const std::vector<Outcome>& outcomes);

}  // namespace mlc::conformance
