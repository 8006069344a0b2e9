// A kernel on a device of NVIDIA: a block does one tile, each of its threads one lane of it. Arguments are parameters, in the
// order that schema/gpu_module.h gives; a fault is one compare-and-swap on the fault buffer, so that the first one stays. Below, what lanes
// of a block tell each other.
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <bit>

#include "targets/gpu/facts.h"
#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

namespace {

constexpr unsigned kGlobal = 1, kShared = 3;         // address spaces
constexpr uint32_t kMostBlocksX = 65535;             // of a grid along x; the rest lies along y
constexpr uint64_t kMostPrivate = 4096;              // elements of a lane; they are registers in the end
constexpr unsigned kBufferAlign = 16;                // bytes
constexpr uint32_t kAllLanes = ~0u, kWithinWarp = 31;            // of a shuffle

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

  // What products of groups of lanes read comes another way than loads and stores: each lane says that what it stored is there for it, too.
  llvm::Value* barrier(llvm::IRBuilder<>& b) override {
    if (facts_.has_groups)
      b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(b.getVoidTy(), false), "fence.proxy.async.shared::cta;", "~{memory}", /*hasSideEffects=*/true));
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
  }
  // Arriving releases what was stored, waiting acquires what others stored.
  llvm::Value* cluster_barrier(llvm::IRBuilder<>& b) override {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned, {}, {});
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {}, {});
  }

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
    if (kernel.resident) annotate("minctasm", kernel.resident);
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
      array->setAlignment(llvm::Align(shared.alignment));
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

// Folds over the lanes of a block (loop::StmtKind::FoldLanes) on devices of NVIDIA, in the order that Loop promises: a lane with its
// neighbour, pairs with pairs, and so on. The last five levels of a tree of shared memory are its first five here: lanes of a warp tell
// each other what they have by shuffles, without memory and without a barrier. What more warps than one have goes through memory of the
// block once, a number for each; every lane folds these, so that no second turn is needed to tell the result.

llvm::Value* KernelEmitter::joined_lanes(const loop::Stmt& s, Value* left, Value* right) {
  const DType t = s.var->type.dtype;
  if (t == DType::Bool) return s.combine == ir::Op::And || s.combine == ir::Op::Mul || s.combine == ir::Op::Min ? b_.CreateAnd(left, right) : b_.CreateOr(left, right);
  if (is_small(t)) {
    Value* v = float_binary(s.combine, to_f32(left, t), to_f32(right, t));
    return v ? from_f32(v, t) : nullptr;
  }
  if (is_float(t)) return float_binary(s.combine, left, right);
  Expr none;  // its operands, which sums, products, minima and maxima do not ask for
  return int_binary(s.combine, t, left, right, none);
}

// What the lane has whose number differs in this bit. Registers that travel have 32 bits.
llvm::Value* KernelEmitter::of_partner(Value* v, uint32_t distance) {
  const auto swap = [&](Value* word) -> Value* {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {}, {b_.getInt32(kAllLanes), word, b_.getInt32(distance), b_.getInt32(kWithinWarp)});
  };
  llvm::Type* type = v->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  Value* raw = b_.CreateBitCast(v, b_.getIntNTy(bits));
  if (bits <= 32) return b_.CreateBitCast(b_.CreateTrunc(swap(b_.CreateZExt(raw, b_.getInt32Ty())), b_.getIntNTy(bits)), type);
  Value* low = swap(b_.CreateTrunc(raw, b_.getInt32Ty()));
  Value* high = swap(b_.CreateTrunc(b_.CreateLShr(raw, 32), b_.getInt32Ty()));
  return b_.CreateBitCast(b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()), b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), 32)), type);
}

llvm::Value* KernelEmitter::fold_warp(const loop::Stmt& s, Value* v, uint32_t width) {
  const bool is_ordered = is_float(s.var->type.dtype) && (s.combine == ir::Op::Min || s.combine == ir::Op::Max);
  for (uint32_t distance = 1; v && distance < width; distance *= 2) {
    Value* other = of_partner(v, distance);
    if (!is_ordered) {
      v = joined_lanes(s, v, other);
      continue;
    }
    // Which of two zeros is the smaller one may depend on which comes first.
    Value* is_left = b_.CreateICmpEQ(b_.CreateAnd(b_.CreateTrunc(lane_, b_.getInt32Ty()), distance), b_.getInt32(0));
    v = joined_lanes(s, b_.CreateSelect(is_left, v, other), b_.CreateSelect(is_left, other, v));
  }
  return v;
}

// Of `width` lanes side by side, whose warps have theirs.
llvm::Value* KernelEmitter::fold_warps(const loop::Stmt& s, Value* v, uint32_t width) {
  const uint32_t warps = width / gpu::kWarp;
  const ir::Type type{s.var->type.dtype, 1};
  llvm::Type* in_memory = mem_scalar(type.dtype);
  Value* stored = to_memory(v, type);
  Value* lane = b_.CreateTrunc(lane_, b_.getInt32Ty());
  const auto place = [&](Value* warp) { return b_.CreateInBoundsGEP(in_memory, partials_, warp); };
  llvm::BasicBlock* first = new_block("first.of.warp");
  llvm::BasicBlock* together = new_block("together");
  b_.CreateCondBr(b_.CreateICmpEQ(b_.CreateAnd(lane, gpu::kWarp - 1), b_.getInt32(0)), first, together);
  b_.SetInsertPoint(first);
  b_.CreateAlignedStore(stored, place(b_.CreateLShr(lane, std::countr_zero(gpu::kWarp))), llvm::Align(bytes_of(type.dtype)));
  b_.CreateBr(together);
  b_.SetInsertPoint(together);
  frame_.barrier(b_);
  Value* begin = width == kernel_->lanes ? b_.getInt32(0) : b_.CreateMul(b_.CreateUDiv(lane, b_.getInt32(width)), b_.getInt32(warps));
  std::vector<Value*> all;
  for (uint32_t k = 0; k < warps; ++k)
    all.push_back(from_memory(b_.CreateAlignedLoad(in_memory, place(b_.CreateAdd(begin, b_.getInt32(k))), llvm::Align(bytes_of(type.dtype))), type));
  frame_.barrier(b_);  // before the next fold writes there
  for (; all.size() > 1; all.resize(all.size() / 2))
    for (size_t k = 0; k < all.size() / 2; ++k)
      if (!(all[k] = joined_lanes(s, all[2 * k], all[2 * k + 1]))) return nullptr;
  return all[0];
}

void KernelEmitter::fold_lanes(const loop::Stmt& s) {
  const uint32_t width = s.step == 1 ? kernel_->lanes : static_cast<uint32_t>(s.step);
  if (!lane_ || kernel_->lanes % gpu::kWarp != 0) return fail("folds over lanes of blocks that are no whole warps");
  Value* v = eval(s.value);
  if (!v) return;
  end_statement();
  v = fold_warp(s, v, std::min(width, gpu::kWarp));
  if (v && width > gpu::kWarp) {
    if (!partials_) return fail("folds over more lanes than a warp has, without memory for it");
    v = fold_warps(s, v, width);
  }
  if (!v) return fail("folds over lanes what is no number");
  vars_[s.var->i] = v;
}

// Matrices that a warp loads together (loop::StmtKind::LoadMatrices).
void KernelEmitter::load_matrices(const loop::Stmt& s) {
  if (!can_.target->has_mma) return fail("loads of matrices, which this target does not have");
  const Expr& row = *s.value;
  if (row.array >= buffers_.size()) return fail("loads from an unknown buffer");
  Value* index = eval(row.args[0]);
  if (!index) return;
  Value* at = element_pointer(row.array, row.type.dtype, index);
  llvm::CallInst* call = b_.CreateIntrinsic(s.transposed ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16 : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16, {at->getType()}, {at});
  call->setConvergent();  // all lanes of a warp come here: it may not move under a condition
  Value* cells = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt32Ty(), 4));
  for (unsigned k = 0; k < 4; ++k) cells = b_.CreateInsertElement(cells, b_.CreateExtractValue(call, k), k);
  vars_[s.var->i] = cells;
}

// What another block of the cluster has (loop::StmtKind::Peer). A plain load of the address that `mapa` gives would be one of this block's memory: LLVM has no
// instruction for others'. Memory is clobbered, so that nothing passes the barriers around it.
void KernelEmitter::peer(const loop::Stmt& s) {
  if (!can_.target->most_cluster_blocks) return fail("a cluster of blocks, which this target does not have");
  const Expr& load = *s.value;
  if (load.array >= buffers_.size()) return fail("loads from an unknown buffer");
  Value* index = eval(load.args[0]);
  if (!index) return;
  Value* own = element_pointer(load.array, load.type.dtype, index);
  Value* at = b_.CreatePtrToInt(b_.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {}, {own, b_.getInt32(static_cast<uint32_t>(s.step))}), b_.getInt64Ty());
  const unsigned lanes = load.type.lanes;
  const bool is_real = load.type.dtype == DType::F32;
  llvm::Type* word = is_real ? b_.getFloatTy() : static_cast<llvm::Type*>(b_.getInt32Ty());
  std::string text = "ld.shared::cluster." + (lanes > 1 ? "v" + std::to_string(lanes) + "." : std::string()) + (is_real ? "f32 " : "u32 "), constraints, words;
  for (unsigned k = 0; k < lanes; ++k) words += (k ? ", $" : "$") + std::to_string(k), constraints += is_real ? "=f," : "=r,";
  text += (lanes > 1 ? "{" + words + "}" : words) + ", [$" + std::to_string(lanes) + "];";
  llvm::Type* type = lanes > 1 ? llvm::StructType::get(context_, std::vector<llvm::Type*>(lanes, word)) : word;
  llvm::InlineAsm* code = llvm::InlineAsm::get(llvm::FunctionType::get(type, {b_.getInt64Ty()}, false), text, constraints + "l,~{memory}", /*hasSideEffects=*/true);
  llvm::CallInst* loaded = b_.CreateCall(code, {at});
  Value* v = loaded;
  if (lanes > 1) {
    v = llvm::PoisonValue::get(llvm::FixedVectorType::get(word, lanes));
    for (unsigned k = 0; k < lanes; ++k) v = b_.CreateInsertElement(v, b_.CreateExtractValue(loaded, k), k);
  }
  vars_[s.var->i] = from_memory(v, load.type);
}

// Copies that go on beside their lane (loop::StmtKind::Copy), and the waits for them. What is zero has a source of no bytes, which is not read: a register
// says so, and no lane goes another way.
void KernelEmitter::copy(const loop::Stmt& s) {
  using namespace llvm::Intrinsic;
  if (!can_.target->copies_aside) return fail("a copy that goes on beside its lane, which this target does not have");
  if (s.kind == loop::StmtKind::CloseCopies) return (void)b_.CreateIntrinsic(nvvm_cp_async_commit_group, {}, {});
  if (s.kind == loop::StmtKind::WaitCopies) return (void)b_.CreateIntrinsic(nvvm_cp_async_wait_group, {}, {b_.getInt32(static_cast<uint32_t>(s.step))});
  if (s.array >= buffers_.size() || s.value->array >= buffers_.size()) return fail("copies between unknown buffers");
  Value *to = eval(s.index[0]), *from = to ? eval(s.value->args[0]) : nullptr, *needed = from && s.cond ? eval(s.cond) : nullptr;
  if (!from || (s.cond && !needed)) return;
  std::vector<Value*> operands{element_pointer(s.array, buffers_[s.array].dtype, to), element_pointer(s.value->array, s.value->type.dtype, from)};
  if (needed) operands.push_back(b_.CreateSelect(needed, b_.getInt32(static_cast<uint32_t>(s.step)), b_.getInt32(0)));
  const bool is_cell = s.step == 4;  // by way of the first cache, the others go around it
  if (needed) b_.CreateIntrinsic(is_cell ? nvvm_cp_async_ca_shared_global_4_s : nvvm_cp_async_cg_shared_global_16_s, {}, operands);
  else b_.CreateIntrinsic(is_cell ? nvvm_cp_async_ca_shared_global_4 : nvvm_cp_async_cg_shared_global_16, {}, operands);
}

}  // namespace mlc::targets
