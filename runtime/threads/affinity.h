// Where a thread runs.
#pragma once

#include <span>

namespace mlc {

// The calling thread runs on these CPUs from now on, if the system lets it and there are such.
void stay_on(std::span<const int> cpus);

}  // namespace mlc
