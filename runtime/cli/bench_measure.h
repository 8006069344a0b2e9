// Runs of a program, timed: of one session, or of several side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cli/options.h"

namespace mlc::cli {

struct Measured {
  std::vector<uint64_t> samples;  // ns of each run, sorted; of all sessions
  double seconds = 0;             // from the first start to the last end
  uint64_t first_run_ns = 0;      // the longest of all sessions

  double mean_ns() const;
  double runs_per_second() const { return static_cast<double>(samples.size()) / seconds; }
  // The value that a share `q` of the samples does not exceed (nearest rank).
  uint64_t percentile(double q) const;
};

struct MeasureOptions {
  const char* program;
  std::vector<MlcTensor> inputs;  // lent to all sessions
  uint32_t num_outputs;
  uint64_t warmup_ns, duration_ns;
};

// Each session has a thread of its own, the first one this one; all begin to measure together. The first failure of any
// ends all.
Result<Measured> measure(const std::vector<OpenSession>& sessions, const MeasureOptions& options);

}  // namespace mlc::cli
