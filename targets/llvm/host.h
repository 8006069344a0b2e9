// What the build machine is, for the target name "native".
#pragma once

#include <string>
#include <vector>

#include "targets/target.h"

namespace mlc::targets {

Family host_family();  // Portable if there is no emitter for this machine
// True if the operating system lets this machine use all of the given LLVM features ("+avx2").
bool host_has(const std::vector<std::string>& llvm_features);

}  // namespace mlc::targets
