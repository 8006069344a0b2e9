// Networks repeat their blocks; equal kernels are emitted once.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "packager/loop/loop.h"

namespace mlc::loop {

// A text that is equal for two kernels exactly when they do the same to their parameters: names, sources and the numbers
// of variables and symbols do not enter it.
std::string kernel_key(const Kernel& kernel);
// What a statement is beside its expressions and blocks, each of which a key has to hold.
std::array<int64_t, 16> words_of(const Stmt& s);

}  // namespace mlc::loop
