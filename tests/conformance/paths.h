// Paths by the names that people give them on a command line.
#pragma once

#include <string>

#include "base/status.h"
#include "tests/conformance/run/outcome.h"

namespace mlc::conformance {

// "interpreter", "native", a target; kernels of a device are interpreted, with ":code" behind the name executed as they were emitted
// (":code16": in subgroups of 16), with ":device" run by the first device of this machine. Otherwise a sentence of what there is.
Result<Path> path_named(std::string name);

}  // namespace mlc::conformance
