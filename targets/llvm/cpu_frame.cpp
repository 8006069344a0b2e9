// A kernel on a processor: a function that does a range of tiles and returns its fault (schema/module_abi.h).
#include <llvm/IR/IntrinsicsAArch64.h>

#include "base/checked.h"
#include "schema/module_abi.h"
#include "targets/families.h"
#include "targets/llvm/frame.h"

namespace mlc::targets {
namespace {

constexpr uint64_t kMostStackBytes = 128;  // of a local array that may lie there

// Small arrays are on the stack, where LLVM makes registers of them if it unrolls the loops over them. Not in kernels whose frames
// are too large as it is.
bool on_stack(const loop::Kernel& kernel, const loop::LocalArray& local) {
  return kernel.hoisting == loop::Hoisting::All && local.count->is_const() &&
         static_cast<uint64_t>(local.count->i) <= kMostStackBytes / bytes_of(local.dtype);
}

}  // namespace

Result<ScratchLayout> layout_scratch(const loop::Kernel& kernel) {
  ScratchLayout layout;
  for (const loop::LocalArray& local : kernel.locals) {
    if (!local.count || (local.count->is_const() && local.count->i < 0))
      return Status(Code::Internal, "local array " + local.name + " of kernel " + kernel.name + " has no size");
    layout.offsets.push_back(layout.bytes);
    if (!local.count->is_const() || on_stack(kernel, local)) continue;
    auto bytes = checked_mul(static_cast<uint64_t>(local.count->i), bytes_of(local.dtype));
    if (bytes) bytes = checked_add(*bytes, layout.bytes);
    if (bytes) bytes = checked_align(*bytes, 64);
    if (!bytes || *bytes > (uint64_t{1} << 32))
      return Status(Code::Internal, "local arrays of kernel " + kernel.name + " are larger than 4 GiB");
    layout.bytes = *bytes;
  }
  return layout;
}

namespace {

class CpuFrame final : public Frame {
 public:
  // `sve_bytes`: the least length of SVE's registers that the code is right for; 0: it has none.
  explicit CpuFrame(unsigned sve_bytes) : sve_bytes_(sve_bytes) {}

  Result<Arguments> open(llvm::IRBuilder<>& b, llvm::Module& module, const loop::Kernel& kernel, const std::string& name) override {
    if (kernel.lanes > 0) return Status(Code::Internal, "kernel " + kernel.name + " has lanes: it is for devices");
    MLC_ASSIGN(const ScratchLayout layout, layout_scratch(kernel));
    llvm::LLVMContext& context = module.getContext();
    llvm::Type* ptr = b.getPtrTy();
    Arguments a;
    a.function = llvm::Function::Create(llvm::FunctionType::get(b.getInt32Ty(), {ptr, b.getInt32Ty(), b.getInt32Ty()}, false),
                                        llvm::GlobalValue::ExternalLinkage, name, module);
    a.function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    a.function->setDSOLocal(true);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", a.function));

    if (sve_bytes_ > 0) check_vectors(b, a.function);
    // MlrunLaunch: buffers, lengths, scalars, scratch, ...
    llvm::Value* launch = a.function->getArg(0);
    const auto constant = [&](llvm::Type* type, llvm::Value* base, llvm::Type* element, uint64_t index) {
      auto* load = b.CreateAlignedLoad(type, b.CreateConstInBoundsGEP1_64(element, base, index), llvm::Align(8));
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
      return load;
    };
    const auto field = [&](unsigned offset) { return constant(ptr, launch, b.getInt8Ty(), offset); };
    llvm::MDNode* aligned64 = llvm::MDNode::get(context, llvm::ConstantAsMetadata::get(b.getInt64(64)));
    llvm::Value* bases = kernel.params.empty() ? nullptr : field(offsetof(MlrunLaunch, buffers));
    if (!kernel.locals.empty() || kernel.hoisting == loop::Hoisting::None) {
      llvm::LoadInst* scratch = field(offsetof(MlrunLaunch, scratch));
      scratch->setMetadata(llvm::LLVMContext::MD_align, aligned64);
      a.scratch = scratch;
    }
    for (size_t k = 0; k < kernel.params.size(); ++k) {
      llvm::LoadInst* base = constant(ptr, bases, ptr, k);
      base->setMetadata(llvm::LLVMContext::MD_align, aligned64);
      a.buffers.push_back(base);
    }
    for (size_t k = 0; k < kernel.locals.size(); ++k) a.buffers.push_back(place_local(b, kernel, k, layout, a.scratch));
    const size_t num_scalars = kernel.scalars.size() + kernel.cuts.size();
    llvm::Value* scalars = num_scalars == 0 ? nullptr : field(offsetof(MlrunLaunch, scalars));
    for (size_t k = 0; k < num_scalars; ++k) a.scalars.push_back(constant(b.getInt64Ty(), scalars, b.getInt64Ty(), k));
    a.tile_begin = b.CreateZExt(a.function->getArg(1), b.getInt64Ty());
    a.tile_end = b.CreateZExt(a.function->getArg(2), b.getInt64Ty());
    a.scratch_bytes = layout.bytes;
    return a;
  }

  // Memory of the stack holds zeros at first: what is read before it is written is some number everywhere it is used, as in scratch memory.
  static llvm::Value* place_local(llvm::IRBuilder<>& b, const loop::Kernel& kernel, size_t k, const ScratchLayout& layout, llvm::Value* scratch) {
    const loop::LocalArray& local = kernel.locals[k];
    if (!local.count->is_const()) return nullptr;
    if (!on_stack(kernel, local)) return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), scratch, layout.offsets[k]);
    const uint64_t bytes = std::max<uint64_t>(1, static_cast<uint64_t>(local.count->i) * bytes_of(local.dtype));
    llvm::AllocaInst* place = b.CreateAlloca(llvm::ArrayType::get(b.getInt8Ty(), bytes));
    place->setAlignment(llvm::Align(64));
    b.CreateMemSetInline(place, llvm::Align(64), b.getInt8(0), b.getInt64(bytes));  // no call: there is no library beside a kernel
    return place;
  }

  void close(llvm::IRBuilder<>& b) override { b.CreateRet(b.getInt32(MLRUN_FAULT_NONE)); }
  void fault(llvm::IRBuilder<>& b, int32_t code, llvm::BasicBlock*) override { b.CreateRet(b.getInt32(static_cast<uint32_t>(code))); }
  llvm::Value* barrier(llvm::IRBuilder<>&) override { return nullptr; }
  void keep_rolled(llvm::BranchInst&) override {}
  bool is_one_tile() const override { return false; }
  bool has_prefetch() const override { return true; }

 private:
  // The length belongs to a thread, and the variant was chosen by what another one has. On shorter registers the upper lanes would be
  // lost without a fault; longer ones would not fit on the stack. "cntb pow2" is the largest power of two in the length: LLVM takes the answer of "cntb all" for known.
  void check_vectors(llvm::IRBuilder<>& b, llvm::Function* function) {
    constexpr uint32_t kPow2 = 0;
    llvm::Value* bytes = b.CreateIntrinsic(llvm::Intrinsic::aarch64_sve_cntb, {}, {b.getInt32(kPow2)});
    llvm::BasicBlock* refused = llvm::BasicBlock::Create(b.getContext(), "refused", function);
    llvm::BasicBlock* body = llvm::BasicBlock::Create(b.getContext(), "body", function);
    llvm::Value* above_least = b.CreateSub(bytes, b.getInt64(sve_bytes_));
    b.CreateCondBr(b.CreateICmpUGT(above_least, b.getInt64(aarch64::kMostSveBytes - sve_bytes_)), refused, body);
    b.SetInsertPoint(refused);
    b.CreateRet(b.getInt32(MLRUN_FAULT_VECTORS));
    b.SetInsertPoint(body);
  }

  const unsigned sve_bytes_;
};

}  // namespace

std::unique_ptr<Frame> make_cpu_frame(const Target& target) {
  return std::make_unique<CpuFrame>(has_feature(target, "a64.sve") ? target.vector_bytes : 0);
}

}  // namespace mlc::targets
