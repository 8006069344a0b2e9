// What stands around the statements of a kernel: where its arguments come from, which tiles it does, what a fault does, how it
// ends. One for processors, one for devices; everything inside is the KernelEmitter's. Internal to targets/llvm.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::targets {

struct Target;

// Lays out the local arrays of constant size in a kernel's scratch memory: offset of each, and the total. 64-byte aligned. Others lie
// behind these, in order.
struct ScratchLayout {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;
};
Result<ScratchLayout> layout_scratch(const loop::Kernel& kernel);

class Frame {
 public:
  // What a kernel starts with: values in the function's entry block.
  struct Arguments {
    llvm::Function* function = nullptr;
    std::vector<llvm::Value*> buffers;  // the parameters' addresses, then those of local arrays of constant size; null: of the others
    std::vector<llvm::Value*> scalars;  // i64 each: the scalars, then the chunks of the cuts
    llvm::Value* tile_begin = nullptr;  // i64
    llvm::Value* tile_end = nullptr;
    llvm::Value* lane = nullptr;        // i64, devices: of the block
    llvm::Value* partials = nullptr;    // devices whose lanes fold more than a warp has: memory of the block, a number for each warp
    llvm::Value* scratch = nullptr;     // processors: of this worker, if the kernel uses any
    uint64_t scratch_bytes = 0;         // of local arrays of constant size
  };

  virtual ~Frame() = default;

  // Adds the function `name` to the module; `b` then stands where the first statement begins.
  virtual Result<Arguments> open(llvm::IRBuilder<>& b, llvm::Module& module, const loop::Kernel& kernel, const std::string& name) = 0;
  // Behind the last statement.
  virtual void close(llvm::IRBuilder<>& b) = 0;
  // `b` stands in a block of its own, reached where there is a fault (or, code 0, where the kernel is done). Ends that block: the
  // kernel returns, or goes on at `next`.
  virtual void fault(llvm::IRBuilder<>& b, int32_t code, llvm::BasicBlock* next) = 0;
  // Lanes of a block wait for each other. Null: there are no blocks.
  virtual llvm::Value* barrier(llvm::IRBuilder<>& b) = 0;
  // So do those of a cluster of blocks. Null: there are none.
  virtual llvm::Value* cluster_barrier(llvm::IRBuilder<>& b) { return (void)b, nullptr; }
  // The branch back to the head of a loop that shall stay as it is.
  virtual void keep_rolled(llvm::BranchInst& back) = 0;
  // One call does one tile.
  virtual bool is_one_tile() const = 0;
  virtual bool has_prefetch() const = 0;
};

// Contract of schema/module_abi.h.
std::unique_ptr<Frame> make_cpu_frame(const Target& target);
// Parameters as schema/gpu_module.h says for PTX.
std::unique_ptr<Frame> make_gpu_frame();

}  // namespace mlc::targets
