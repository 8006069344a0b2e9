// A kernel as it is compiled, for people.
#pragma once

#include <string>

#include "packager/loop/loop.h"
#include "targets/target.h"

namespace mlc::targets {

// LLVM IR behind the last pass, and assembly. Equal input gives equal texts. Empty for `portable`, which has neither.
struct KernelText {
  std::string llvm, assembly;
};
Result<KernelText> print_kernel(const Target& target, const loop::Kernel& kernel);

}  // namespace mlc::targets
