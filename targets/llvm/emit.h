// Kernels to a linked ELF module, through LLVM and lld. No LLVM type here.
#pragma once

#include "targets/print_kernel.h"
#include "targets/target.h"

namespace mlc::targets {

// `large`: kernels whose frames are too large, in order; then the module is empty.
Result<Module> emit_elf(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large, const EmitOptions& options);

Result<KernelText> print_elf_kernel(const Target& target, const loop::Kernel& kernel);

}  // namespace mlc::targets
