#include <windows.h>

#include "runtime/threads/affinity.h"

namespace mlc {

// CPUs of the process's own group, of at most 64: those that the probe names.
void stay_on(std::span<const int> cpus) {
  DWORD_PTR mask = 0;
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < 64) mask |= DWORD_PTR{1} << cpu;
  if (mask != 0) SetThreadAffinityMask(GetCurrentThread(), mask);
}

// Windows does not count it: a worker stays on its CPU.
uint64_t times_pushed_off() { return 0; }

}  // namespace mlc
