// Folds over the lanes of a block (loop::StmtKind::FoldLanes) on devices of NVIDIA, in the order that Loop promises: a lane with its
// neighbour, pairs with pairs, and so on. The last five levels of a tree of shared memory are its first five here: lanes of a warp tell
// each other what they have by shuffles, without memory and without a barrier. What more warps than one have goes through memory of the
// block once, a number for each; every lane folds these, so that no second turn is needed to tell the result.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <bit>

#include "targets/gpu/facts.h"
#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

namespace {

constexpr uint32_t kAllLanes = ~0u, kWithinWarp = 31;

}  // namespace

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

}  // namespace mlc::targets
