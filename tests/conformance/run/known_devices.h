// The devices of this machine, asked once for all cases. The runtime asks a program of the application's what devices there are, for every
// file that it opens (runtime/api/mlc.h, probe_program); that program is this one, and it repeats what the first of them was told.
#pragma once

#include <string>

#include "base/status.h"

namespace mlc::conformance {

// Of api::DeviceChoice: the first device of the interface that a container has kernels for, be it software, and the program to ask.
inline constexpr char kFirstDevice[] = "gpu0", kAsksDrivers[] = "/proc/self/exe";

// Asks the drivers of an interface ("vulkan", "cuda") and remembers the answer for all processes started from now on. The device's
// name and driver; NotFound if there is none.
Result<std::string> learn_devices(const std::string& api);

// What `probe-child API` does: writes what was learnt, or else what drivers say. The exit code.
int answer_probe(const std::string& api);

}  // namespace mlc::conformance
