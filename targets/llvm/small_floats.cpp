// Conversions between f32 and f16, bf16 and the floats of 8 and 4 bits in integer arithmetic, because the code generator
// would call __extendhfsf2 and its relatives. Rounding is to nearest, ties to even, on every target; where f16 and bf16 have
// instructions they are used.
//
// Decoding moves exponent and mantissa to the places they have in an f32 and multiplies by the power of two between the
// two biases, which is exact and takes care of subnormals. Encoding a normal number adds half a unit (a unit less if the
// result would be even) to the bits; a subnormal one is added to the number whose last mantissa bit has the weight of
// the smallest subnormal, so that the addition rounds.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

namespace {

struct Format {
  unsigned bits, mantissa;
  int bias;
  uint32_t top;    // largest magnitude that rounding may produce: infinity, or the pattern that stands for overflow
  uint32_t nan;    // magnitude of NaN
  bool infinity;   // exponent all ones means infinity and NaN
  bool fnuz;       // no negative zero, its pattern is NaN
};

Format format_of(DType t) {
  switch (t) {
    case DType::F16: return {16, 10, 15, 0x7c00, 0x7e00, true, false};
    case DType::F8E4M3: return {8, 3, 7, 0x7f, 0x7f, false, false};
    case DType::F8E5M2: return {8, 2, 15, 0x7c, 0x7e, true, false};
    case DType::F8E4M3FNUZ: return {8, 3, 8, 0x80, 0x80, false, true};
    case DType::F8E5M2FNUZ: return {8, 2, 16, 0x80, 0x80, false, true};
    case DType::F4E2M1: return {4, 1, 1, 7, 8, false, false};  // no NaN: -0 stands for it, here and below
    case DType::F6E2M3: return {6, 3, 1, 31, 32, false, false};
    case DType::F6E3M2: return {6, 2, 3, 31, 32, false, false};
    default: return {16, 7, 127, 0x7f80, 0x7fc0, true, false};  // bf16
  }
}

// An instruction that knows no vectors.
template <class Convert>
llvm::Value* each_lane(llvm::IRBuilder<>& b, llvm::Value* v, llvm::Type* to, Convert convert) {
  if (!v->getType()->isVectorTy()) return convert(v);
  llvm::Value* all = llvm::PoisonValue::get(to);
  for (unsigned k = 0; k < lanes_of(v); ++k) all = b.CreateInsertElement(all, convert(b.CreateExtractElement(v, uint64_t{k})), uint64_t{k});
  return all;
}

}  // namespace

llvm::Value* KernelEmitter::to_f32(Value* v, DType t) {
  if (!is_small(t)) return v;
  llvm::Type* i32 = v->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Type* f32 = v->getType()->getWithNewType(b_.getFloatTy());
  if (t == DType::F16 && can_.ptx_convert)
    return each_lane(b_, v, f32, [&](Value* one) { return b_.CreateIntrinsic(llvm::Intrinsic::convert_from_fp16, {b_.getFloatTy()}, {one}); });
  if (t == DType::F16 && can_.f16_convert) {
    Value* wide = b_.CreateFPExt(b_.CreateBitCast(v, v->getType()->getWithNewType(b_.getHalfTy())), f32);
    // LLVM would take a comparison of what was converted back to halves, and compare these one by one where vectors of them have
    // no instructions.
    return llvm::isa<llvm::Constant>(wide) ? wide : intrinsic(llvm::Intrinsic::arithmetic_fence, {wide});
  }
  Value* bits = b_.CreateZExt(v, i32);
  auto u32 = [&](uint32_t c) { return splat_int(c, i32); };
  if (t == DType::BF16) return b_.CreateBitCast(b_.CreateShl(bits, u32(16)), f32);
  if (t == DType::F8E8M0) {
    Value* v32 = b_.CreateSelect(b_.CreateICmpEQ(bits, u32(0)), u32(0x00400000), b_.CreateShl(bits, u32(23)));
    return b_.CreateBitCast(b_.CreateSelect(b_.CreateICmpEQ(bits, u32(255)), u32(0x7fc00000), v32), f32);
  }
  const Format f = format_of(t);
  Value* magnitude = b_.CreateAnd(bits, u32((1u << (f.bits - 1)) - 1));
  Value* sign = b_.CreateShl(b_.CreateXor(bits, magnitude), u32(32 - f.bits));
  Value* moved = b_.CreateBitCast(b_.CreateShl(magnitude, u32(23 - f.mantissa)), f32);
  Value* value = b_.CreateBitCast(b_.CreateFMul(moved, splat_const(__builtin_ldexp(1, 127 - f.bias), f32)), i32);
  if (f.infinity)
    value = b_.CreateSelect(b_.CreateICmpUGE(magnitude, u32(f.top)), b_.CreateOr(value, u32(0x7f800000)), value);
  else if (f.fnuz)
    value = b_.CreateSelect(b_.CreateICmpEQ(bits, u32(0x80)), u32(0x7fc00000), value);
  else if (f.bits == 8)
    value = b_.CreateSelect(b_.CreateICmpEQ(magnitude, u32(f.nan)), u32(0x7fc00000), value);
  return b_.CreateBitCast(b_.CreateOr(value, sign), f32);
}

llvm::Value* KernelEmitter::to_tf32(Value* v) {
  return each_lane(b_, v, v->getType(), [&](Value* one) { return b_.CreateBitCast(b_.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {one}), one->getType()); });
}

// Two numbers, rounded to f16 or bf16, as halves of a word: one instruction. Null: it is something else.
llvm::Value* KernelEmitter::pair_of_rounded(const Expr& e) {
  if (!can_.ptx_convert_pairs || e.op != Op::BitOr || e.type != ir::Type{DType::U32, 1}) return nullptr;
  const auto rounded = [](const Expr* word) -> const Expr* {  // that the low half has
    const Expr* half = word->op == Op::Cast ? word->args[0] : nullptr;
    const Expr* cast = half && half->op == Op::Bitcast && half->type.dtype == DType::U16 ? half->args[0] : nullptr;
    return cast && cast->op == Op::Cast && cast->args[0]->type.dtype == DType::F32 ? cast : nullptr;
  };
  const bool swapped = e.args[0]->op == Op::Shl;
  const Expr *shifted = e.args[swapped ? 0 : 1], *low = rounded(e.args[swapped ? 1 : 0]);
  const Expr* high = shifted->op == Op::Shl && shifted->args[1]->is_int(16) ? rounded(shifted->args[0]) : nullptr;
  if (!low || !high || low->type != high->type || (low->type.dtype != DType::F16 && low->type.dtype != DType::BF16)) return nullptr;
  const auto id = low->type.dtype == DType::F16 ? llvm::Intrinsic::nvvm_ff2f16x2_rn : llvm::Intrinsic::nvvm_ff2bf16x2_rn;
  return b_.CreateBitCast(b_.CreateIntrinsic(id, {}, {value_of(high->args[0]), value_of(low->args[0])}), b_.getInt32Ty());
}

llvm::Value* KernelEmitter::exp2(Value* v) {
  return each_lane(b_, v, v->getType(), [&](Value* one) { return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {}, {one}); });
}

llvm::Value* KernelEmitter::from_f32(Value* v, DType t) {
  if (!is_small(t)) return v;
  llvm::Type* i32 = v->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Type* out = v->getType()->getWithNewType(b_.getIntNTy(bits_of(t)));
  if (t == DType::F16 && can_.ptx_convert)
    return each_lane(b_, v, out, [&](Value* one) { return b_.CreateIntrinsic(llvm::Intrinsic::convert_to_fp16, {b_.getFloatTy()}, {one}); });
  if (t == DType::BF16 && can_.ptx_convert_bf16)
    return each_lane(b_, v, out, [&](Value* one) { return b_.CreateBitCast(b_.CreateIntrinsic(llvm::Intrinsic::nvvm_f2bf16_rn, {}, {one}), b_.getInt16Ty()); });
  if (t == DType::F16 && can_.f16_convert)
    return b_.CreateBitCast(b_.CreateFPTrunc(v, v->getType()->getWithNewType(b_.getHalfTy())), out);
  const Format f = format_of(t);
  auto u32 = [&](uint32_t c) { return splat_int(c, i32); };
  Value* bits = b_.CreateBitCast(v, i32);
  Value* magnitude = b_.CreateAnd(bits, u32(0x7fffffff));
  if (t == DType::F8E8M0) {  // a tie goes up; the least is 2^-127, which is subnormal in an f32
    Value* exponent = b_.CreateLShr(b_.CreateAdd(magnitude, u32(0x400000)), u32(23));
    exponent = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, exponent, u32(255));
    return b_.CreateTrunc(b_.CreateSelect(b_.CreateICmpULT(magnitude, u32(0x600000)), u32(0), exponent), out);
  }
  Value* is_nan = b_.CreateFCmpUNO(v, v);
  const unsigned drop = 23 - f.mantissa;
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, u32(drop)), u32(1));
  const uint32_t rebias = static_cast<uint32_t>(f.bias - 127) << 23;
  Value* rounded = b_.CreateLShr(
      b_.CreateAdd(b_.CreateAdd(magnitude, u32(rebias + (1u << (drop - 1)) - 1)), odd), u32(drop));
  if (t != DType::BF16) {
    // Below the smallest normal number.
    const uint32_t magic = static_cast<uint32_t>(127 - f.bias + static_cast<int>(drop) + 1) << 23;
    Value* sum = b_.CreateFAdd(b_.CreateBitCast(magnitude, v->getType()), b_.CreateBitCast(u32(magic), v->getType()));
    Value* subnormal = b_.CreateSub(b_.CreateBitCast(sum, i32), u32(magic));
    rounded = b_.CreateSelect(b_.CreateICmpULT(magnitude, u32(static_cast<uint32_t>(128 - f.bias) << 23)), subnormal,
                              rounded);
  }
  rounded = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rounded, u32(f.top));
  rounded = b_.CreateSelect(is_nan, u32(f.nan), rounded);
  Value* sign = b_.CreateLShr(b_.CreateXor(bits, magnitude), u32(32 - f.bits));
  Value* result = b_.CreateOr(rounded, sign);
  if (f.fnuz) result = b_.CreateSelect(b_.CreateICmpEQ(rounded, u32(0)), u32(0), result);
  return b_.CreateTrunc(result, out);
}

// Rounding twice would be wrong near ties, so the first step rounds to odd: the f32 below in magnitude, with its last
// bit set if anything was lost. The second step then sees on which side of a tie the value lies.
llvm::Value* KernelEmitter::f64_to_small(Value* v, DType t) {
  llvm::Type* i32 = v->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Type* f32 = v->getType()->getWithNewType(b_.getFloatTy());
  Value* nearest = b_.CreateFPTrunc(v, f32);
  Value* back = b_.CreateFPExt(nearest, v->getType());
  Value* away = b_.CreateFCmpOGT(intrinsic(llvm::Intrinsic::fabs, {back}), intrinsic(llvm::Intrinsic::fabs, {v}));
  Value* bits = b_.CreateSub(b_.CreateBitCast(nearest, i32), b_.CreateZExt(away, i32));
  bits = b_.CreateOr(bits, b_.CreateZExt(b_.CreateFCmpONE(back, v), i32));
  return from_f32(b_.CreateBitCast(bits, f32), t);
}

}  // namespace mlc::targets
