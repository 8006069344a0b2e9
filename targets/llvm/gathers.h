// Gathers and scatters that a processor has no instruction for. Internal to targets/llvm.
#pragma once

#include <llvm/IR/PassManager.h>

namespace mlc::targets {

// Where the code generator would make a branch for each lane (bytes everywhere, floats before AVX-512), lanes that are masked off
// read zeros from, and write to, a place on the stack instead. A kernel with windows of bytes had ten thousands of blocks otherwise,
// and passes over them that take the square of that.
struct ExpandGathers : llvm::PassInfoMixin<ExpandGathers> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace mlc::targets
