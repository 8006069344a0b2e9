// Where something was measured: what a figure is worth nothing without.
#pragma once

#include "base/cli/report.h"

namespace mlc::cli {

// Read before a container is opened: a process that opens a stranger's may read nothing else.
struct HostState {
  std::string governor;       // of the first CPU that this process may use; empty: not told
  double load_1m = -1;        // of the last minute; negative: not told
};
HostState host_state();

Json environment(const HostState& host);
// A line: "AMD EPYC ..., 2 CPUs, governor performance, load 0.4, 6.1.0, mlrun 1.0.0"
std::string environment_text(const Json& env);

}  // namespace mlc::cli
