// Kernels to a linked ELF module, through LLVM and lld. No LLVM type here.
#pragma once

#include "targets/target.h"

namespace mlc::targets {

Result<Module> emit_elf(const Target& target, std::span<const loop::Kernel> kernels);

}  // namespace mlc::targets
