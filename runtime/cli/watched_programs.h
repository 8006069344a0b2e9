// The programs of a session as pipelines run them, with their variants named to the handlers of crashes: each may have its own.
#pragma once

#include "runtime/cli/options.h"
#include "runtime/mlio/runner.h"

namespace mlc::cli {

// As mlio::programs_of. `model`, `session` and what is given by reference outlive the programs.
pipeline::Programs watched_programs(const OpenModel& model, MlcSession* session, pipeline::AnswerBudget& budget, uint64_t& run_ns);

}  // namespace mlc::cli
