#include "runtime/threads/affinity.h"

#include <sched.h>
#include <sys/resource.h>

namespace mlc {

void stay_on(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  // Of thread 0, the calling one: all that an isolated process may ask.
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

uint64_t times_pushed_off() {
  rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<uint64_t>(usage.ru_nivcsw) : 0;
}

}  // namespace mlc
