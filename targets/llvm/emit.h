// Kernels to a linked ELF module, through LLVM and lld, or to PTX, through LLVM. No LLVM type here.
#pragma once

#include "packager/loop/loop.h"
#include "targets/print_kernel.h"
#include "targets/target.h"

namespace mlc::targets {

// `large`: kernels whose frames are too large, in order; then the module is empty.
Result<Module> emit_elf(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large, const EmitOptions& options);

// Names of the kernels' functions.
std::vector<std::string> kernel_symbols(size_t count, const EmitOptions& options);

// PTX: the whole text of each kernel, as LLVM writes it.
Result<std::vector<std::string>> emit_texts(const Target& target, std::span<const loop::Kernel> kernels, const std::vector<std::string>& symbols,
                                            const EmitOptions& options);

Result<KernelText> print_compiled(const Target& target, const loop::Kernel& kernel);

}  // namespace mlc::targets
