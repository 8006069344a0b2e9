// The committed lists of what each case does on each path (results/SET.txt): a case that does worse fails the run.
//
//   # comment
//   paths interpreter portable x86-64-v4            that were run when the list was written
//   test_abs                                        passes on every path
//   test_adagrad unsupported                        on every path
//   test_x pass armv8-a:unsupported rv64gc:known    on every path but these two
//
// One line for each case of the set, sorted, so that a case that vanishes is seen. From best to worst: pass; shapes, sizes,
// vectors, inputs (passes when told so much of its inputs, see Given); host (of a device, but no kernel of it is launched);
// known; unsupported. What fails has no line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/conformance/run/outcome.h"

namespace mlc::conformance {

// Positions in the order from best to worst.
using Standing = uint8_t;
inline constexpr std::string_view kStandings[] = {"pass", "shapes", "sizes", "vectors", "inputs", "host", "known", "unsupported", "fails"};
Standing standing_of(const Outcome& outcome);

struct ExpectedCase {
  Standing usual = 0;                     // on all paths
  std::map<std::string, Standing> other;  // but these

  Standing on(const std::string& path) const;
};

struct ExpectedSet {
  std::vector<std::string> paths;
  std::map<std::string, ExpectedCase> cases;
};

Result<ExpectedSet> parse_expected(const std::string& text);
std::string text_of(const ExpectedSet& expected);

// A sentence for each case and path that does not do as expected, worse or better. All outcomes are of one set. `complete`:
// every case of the set was run, so that one without an outcome has vanished.
std::vector<std::string> changes(const ExpectedSet& expected, const std::vector<Outcome>& outcomes, bool complete);

// The list with these outcomes. Paths that were not run, and cases that fail, keep what they had; with `complete`, cases
// without an outcome go.
ExpectedSet updated(const ExpectedSet& expected, const std::vector<Outcome>& outcomes, bool complete);

// The lists FOLDER/SET.txt of all sets among the outcomes: sentences as above, a set without a list being one of them; or
// with `update` the lists are written anew.
Result<std::vector<std::string>> check_expected(const std::string& folder, const std::vector<Outcome>& outcomes, bool complete, bool update);

}  // namespace mlc::conformance
