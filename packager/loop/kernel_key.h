// Networks repeat their blocks; equal kernels are emitted once.
#pragma once

#include <string>

#include "packager/loop/loop.h"

namespace mlc::loop {

// A text that is equal for two kernels exactly when they do the same to their parameters: names, sources and the numbers
// of variables and symbols do not enter it.
std::string kernel_key(const Kernel& kernel);

}  // namespace mlc::loop
