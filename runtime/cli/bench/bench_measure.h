// Runs of a program or of a whole pipeline, timed: of one session, or of several side by side.
#pragma once

#include <cstdint>
#include <functional>
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
  uint64_t warmup_ns = 0, duration_ns = 0;
};

// The runs of one session. One output array for all of them: the loop allocates nothing.
class SessionRuns {
 public:
  SessionRuns(const OpenSession& session, const MeasureOptions& options)
      : session_(session), options_(options), outputs_(options.num_outputs) {
    how_.program = options.program;
  }
  Status once();

 private:
  const OpenSession& session_;
  const MeasureOptions& options_;
  MlcRunOptions how_ = sized<MlcRunOptions>();
  std::vector<MlcTensor> outputs_;
};

// What is timed: one run of a session.
using Run = std::function<Status()>;

// Each of `runs` has a thread of its own, the first one this one; all begin to measure together. The first failure of any
// ends all.
Result<Measured> measure(const std::vector<Run>& runs, uint64_t warmup_ns, uint64_t duration_ns);

}  // namespace mlc::cli
