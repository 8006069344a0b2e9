// Golden vectors: recorded inputs and what the reference interpreter answered, compared with what a variant answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/checked.h"
#include "base/dtype.h"
#include "runtime/api/session/program_sessions.h"

namespace mlc::api {

struct Difference {
  double max_abs = 0;        // largest |found - expected|
  double max_rel = 0;        // max_abs / largest |expected| (or max_abs itself if that is 0)
  double largest = 0;        // largest |expected|
  uint64_t worst = 0;        // the element with the largest difference
  double found = 0, expected = 0;  // there
  double cosine = 1;
  uint64_t max_ulp = 0;      // f32 only
  bool not_a_number = false; // one of the two is NaN where the other is not, or infinite differently
};

// Both arrays have the same type and length (asserted).
Difference compare_arrays(DType dtype, Bytes found, Bytes expected);
// Whether a difference is within a tolerance; integers and booleans with metric None must be equal.
bool within(const Difference& d, const format::Tolerance& tolerance);

struct GoldenReport {
  uint32_t vectors = 0, failures = 0;
  double max_abs = 0, max_rel = 0;
  std::string text;  // the first failure: "vector 2 of main: output[0,281] is 15.93, expected 16.16 (rel 1e-3)"
};

// Runs every golden vector of the container, or the one of this name (null: all; NotFound if there is none). The status is
// about running; differences are in the report.
Result<GoldenReport> run_golden(ProgramSessions& sessions, const char* name = nullptr);

}  // namespace mlc::api
