#include <windows.h>

#include <psapi.h>

#include "runtime/cli/system.h"

namespace mlc::cli {

uint64_t most_memory_bytes() {
  PROCESS_MEMORY_COUNTERS counters{};
  return K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters) ? counters.PeakWorkingSetSize : 0;
}

double load_of_minute() { return -1; }

uint64_t descriptors_allowed(uint64_t) { return 2048; }  // of msvcrt

}  // namespace mlc::cli
