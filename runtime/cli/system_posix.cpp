#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/cli/system.h"

namespace mlc::cli {

uint64_t most_memory_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) << 10 : 0;
}

double load_of_minute() {
  double loads[1];
  return getloadavg(loads, 1) == 1 ? loads[0] : -1;
}

// A process has some thousand by default, and may have more.
uint64_t descriptors_allowed(uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : wanted;
}

}  // namespace mlc::cli
