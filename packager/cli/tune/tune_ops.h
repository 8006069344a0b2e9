// `mlpack tune`: builds a model with each alternative that its nests have, runs what was built, and keeps what each took.
#pragma once

#include <map>
#include <string>

#include "packager/compile/build.h"
#include "packager/tune/records.h"

namespace mlc::cli {

struct TuneOptions {
  compile::BuildOptions build;              // as the build that will follow the records; its output is where files may lie meanwhile
  const targets::Target* target = nullptr;  // runs on this machine
  std::map<std::string, int64_t> extents;   // of the inputs' free ones
  unsigned threads = 1;
  double seconds = 2;                       // of runs, for each alternative
};

struct TuneReport {
  tune::Records records;   // one for each nest with alternatives that the run reached
  size_t nests = 0, gaining = 0;  // of these, and those for which another schedule than the compiler's is best
  uint64_t before_ns = 0, after_ns = 0;  // of a run: launches as the compiler schedules them, and with the best of each nest
  std::vector<std::string> warnings;
};

// An alternative is compared with the compiler's own schedule in runs that take turns, so that both meet the same machine; of what it
// took the ratio to the other's counts. One whose answers differ is left out, with a warning.
Result<TuneReport> tune_model(const TuneOptions& options);

// How a build follows records: for BuildOptions::choose and BuildOptions::followed. `records` must outlive the build.
void follow(const tune::Records& records, compile::BuildOptions& build);

// What this mlpack is called in records.
std::string compiler_name();

}  // namespace mlc::cli
