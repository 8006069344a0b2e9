// The limits of the control groups we run in: v1, v2 and both at once, the least of all ancestors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/probe/sources.h"

namespace mlc::probe {

struct CgroupLimits {
  std::optional<double> quota_cpus;             // run time per period; none: no limit anywhere
  std::vector<int> cpus;                        // effective cpuset; empty: not known
  std::optional<uint64_t> memory_limit_bytes;   // least limit
  std::optional<uint64_t> memory_free_bytes;    // least of limit - current
};

CgroupLimits read_cgroup_limits(const Sources& sources);

}  // namespace mlc::probe
