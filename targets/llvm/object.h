// LLVM IR to a relocatable object for one target. Internal to targets/llvm.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <vector>

#include "targets/print_kernel.h"
#include "targets/target.h"

namespace mlc::targets {

// Registers the families with LLVM, once.
void initialize_llvm();

class ObjectCompiler {
 public:
  static Result<std::unique_ptr<ObjectCompiler>> create(const Target& target);
  // Sets triple, data layout and module flags of an empty module.
  void prepare(llvm::Module& module) const;
  struct Object {
    std::vector<char> bytes;
    uint64_t large_frame = 0;  // bytes of the largest frame above kMaxFrame, if there is one
  };
  // Attributes of every function, simplification, code generation. Equal IR gives equal bytes. What a device's driver assembles
  // is the assembly.
  Result<Object> compile(llvm::Module& module);
  // The same, as texts.
  Result<KernelText> print(llvm::Module& module);

 private:
  ObjectCompiler() = default;
  Status optimise(llvm::Module& module) const;
  Status generate(llvm::Module& module, llvm::CodeGenFileType kind, llvm::SmallVectorImpl<char>& out, uint64_t& large_frame);
  Target target_;
  std::string features_, cpu_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace mlc::targets
