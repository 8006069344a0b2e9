// A kernel on a device of NVIDIA: a block does one tile, each of its threads one lane of it. Arguments are parameters, in the
// order that schema/gpu_module.h gives; a fault is one compare-and-swap on the fault buffer, so that the first one stays.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "targets/gpu/facts.h"
#include "targets/llvm/frame.h"

namespace mlc::targets {

namespace {

constexpr unsigned kGlobal = 1, kShared = 3;         // address spaces
constexpr uint32_t kMostBlocksX = 65535;             // of a grid along x; the rest lies along y
constexpr uint64_t kMostPrivate = 4096;              // elements of a lane; they are registers in the end
constexpr unsigned kBufferAlign = 16, kSharedAlign = 16;  // bytes

class GpuFrame final : public Frame {
 public:
  Result<Arguments> open(llvm::IRBuilder<>& b, llvm::Module& module, const loop::Kernel& kernel, const std::string& name) override {
    facts_ = gpu::facts_of(kernel);
    MLC_RETURN_IF_ERROR(check(kernel));
    Arguments a;
    add_function(b, module, kernel, name, a);
    guard(b, a);
    MLC_RETURN_IF_ERROR(place_locals(b, module, kernel, name, a));
    return a;
  }

  void close(llvm::IRBuilder<>& b) override { b.CreateRetVoid(); }

  // A lane may not leave before a barrier at which others wait for it: there it goes on, and its addresses are clamped.
  void fault(llvm::IRBuilder<>& b, int32_t code, llvm::BasicBlock* next) override {
    if (code != 0) {
      llvm::Value* first = b.CreateOr(b.CreateShl(b.CreateZExt(launch_, b.getInt64Ty()), 32), b.getInt64(static_cast<uint32_t>(code)));
      b.CreateAtomicCmpXchg(fault_buffer_, b.getInt64(0), first, llvm::Align(8), llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
    }
    if (facts_.has_barriers) b.CreateBr(next);
    else b.CreateRetVoid();
  }

  llvm::Value* barrier(llvm::IRBuilder<>& b) override { return b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

  // What Loop has unrolled the assembler of the driver must not unroll again: it costs registers.
  void keep_rolled(llvm::BranchInst& back) override {
    llvm::LLVMContext& context = back.getContext();
    llvm::Metadata* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
    llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, disable});
    loop->replaceOperandWith(0, loop);
    back.setMetadata(llvm::LLVMContext::MD_loop, loop);
  }

  bool is_one_tile() const override { return true; }
  bool has_prefetch() const override { return false; }

 private:
  Status check(const loop::Kernel& kernel) const {
    const auto bad = [&](const std::string& what) { return Status(Code::Internal, "kernel " + kernel.name + " " + what); };
    if (kernel.lanes == 0 || kernel.lanes > loop::kMaxBlockLanes)
      return bad("has blocks of " + std::to_string(kernel.lanes) + " lanes, a device wants 1 to " + std::to_string(loop::kMaxBlockLanes));
    if (!kernel.cuts.empty()) return bad("has cuts, which devices do not have");
    if (facts_.has_barriers && facts_.may_return) return bad("returns early although lanes wait for each other");
    return ok();
  }

  void add_function(llvm::IRBuilder<>& b, llvm::Module& module, const loop::Kernel& kernel, const std::string& name, Arguments& a) {
    llvm::LLVMContext& context = module.getContext();
    std::vector<llvm::Type*> types(kernel.params.size(), b.getPtrTy(kGlobal));
    types.insert(types.end(), 2, b.getInt32Ty());
    types.insert(types.end(), kernel.scalars.size(), b.getInt64Ty());
    if (facts_.may_fault) types.push_back(b.getPtrTy(kGlobal));
    llvm::Function* f = a.function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false), llvm::GlobalValue::ExternalLinkage, name, module);
    for (unsigned k = 0; k < kernel.params.size(); ++k) {
      f->addParamAttr(k, llvm::Attribute::getWithAlignment(context, llvm::Align(kBufferAlign)));
      // `noalias` on a buffer that is written would mean that its memory does not change at a barrier.
      if (!kernel.params[k].written) {
        f->addParamAttr(k, llvm::Attribute::NoAlias);
        f->addParamAttr(k, llvm::Attribute::ReadOnly);
      }
      a.buffers.push_back(f->getArg(k));
    }
    const auto num_params = static_cast<unsigned>(kernel.params.size());
    tiles_ = f->getArg(num_params);
    launch_ = f->getArg(num_params + 1);
    for (unsigned k = 0; k < kernel.scalars.size(); ++k) a.scalars.push_back(f->getArg(num_params + 2 + k));
    if (facts_.may_fault) fault_buffer_ = f->getArg(static_cast<unsigned>(types.size()) - 1);
    const auto annotate = [&](const char* key, uint32_t value) {
      module.getOrInsertNamedMetadata("nvvm.annotations")
          ->addOperand(llvm::MDNode::get(context, {llvm::ConstantAsMetadata::get(f), llvm::MDString::get(context, key),
                                                   llvm::ConstantAsMetadata::get(b.getInt32(value))}));
    };
    annotate("kernel", 1);
    annotate("maxntidx", kernel.lanes);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  }

  // Grids are rectangles: some of their blocks are behind the last tile.
  void guard(llvm::IRBuilder<>& b, Arguments& a) {
    using namespace llvm::Intrinsic;
    const auto special = [&](ID id) -> llvm::Value* { return b.CreateIntrinsic(id, {}, {}); };
    llvm::Value* block = b.CreateAdd(special(nvvm_read_ptx_sreg_ctaid_x), b.CreateMul(special(nvvm_read_ptx_sreg_ctaid_y), b.getInt32(kMostBlocksX)));
    a.lane = b.CreateZExt(special(nvvm_read_ptx_sreg_tid_x), b.getInt64Ty());
    llvm::BasicBlock* done = llvm::BasicBlock::Create(b.getContext(), "no.tile", a.function);
    llvm::BasicBlock* tile = llvm::BasicBlock::Create(b.getContext(), "tile", a.function);
    b.CreateCondBr(b.CreateICmpULT(block, tiles_), tile, done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
    b.SetInsertPoint(tile);
    a.tile_begin = b.CreateZExt(block, b.getInt64Ty());
    a.tile_end = b.CreateNSWAdd(a.tile_begin, b.getInt64(1));
  }

  // Those of a block are one array, at offsets of ours; those of a lane become registers.
  Status place_locals(llvm::IRBuilder<>& b, llvm::Module& module, const loop::Kernel& kernel, const std::string& name, Arguments& a) {
    MLC_ASSIGN(const gpu::SharedLayout shared, gpu::layout_shared(kernel));
    llvm::Value* base = nullptr;
    if (shared.bytes > 0) {
      const bool is_dynamic = shared.bytes > gpu::kMostStaticShared;
      auto* type = llvm::ArrayType::get(b.getInt8Ty(), is_dynamic ? 0 : shared.bytes);
      auto* array = new llvm::GlobalVariable(module, type, false, is_dynamic ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage,
                                             is_dynamic ? nullptr : llvm::UndefValue::get(type), name + "_shared", nullptr,
                                             llvm::GlobalValue::NotThreadLocal, kShared);
      array->setAlignment(llvm::Align(kSharedAlign));
      base = array;
    }
    if (facts_.folds_warps) a.partials = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, shared.partials);
    for (size_t k = 0; k < kernel.locals.size(); ++k) {
      const loop::LocalArray& local = kernel.locals[k];
      if (local.space == loop::Space::Shared) {
        a.buffers.push_back(b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, shared.offsets[k]));
        continue;
      }
      if (local.space != loop::Space::Private || !local.count || !local.count->is_const() || local.count->i < 0 ||
          static_cast<uint64_t>(local.count->i) > kMostPrivate)
        return Status(Code::Internal, "local array " + local.name + " of kernel " + kernel.name + " is none of a block or a lane");
      llvm::IRBuilder<> entry(&a.function->getEntryBlock(), a.function->getEntryBlock().begin());
      auto* type = llvm::ArrayType::get(b.getIntNTy(8 * bytes_of(local.dtype)), static_cast<uint64_t>(local.count->i));
      a.buffers.push_back(entry.CreateAlloca(type));
    }
    return ok();
  }

  gpu::KernelFacts facts_;
  llvm::Value *tiles_ = nullptr, *launch_ = nullptr, *fault_buffer_ = nullptr;
};

}  // namespace

std::unique_ptr<Frame> make_gpu_frame() { return std::make_unique<GpuFrame>(); }

}  // namespace mlc::targets
