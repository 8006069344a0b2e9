// The operations of a Loop expression as LLVM IR. Two rules shape it: nothing that the code generator answers with a
// library call (rounding without SSE4.1, fmod, conversions of small floats), and nothing that is undefined for some
// operand (division by zero, wide shifts, floats that do not fit their integer).
#include <llvm/ADT/APFloat.h>

#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

using ir::Op;

namespace {

const llvm::fltSemantics& semantics_of(DType t) {
  switch (t) {
    case DType::F16: return llvm::APFloat::IEEEhalf();
    case DType::BF16: return llvm::APFloat::BFloat();
    case DType::F8E4M3: return llvm::APFloat::Float8E4M3FN();
    case DType::F8E5M2: return llvm::APFloat::Float8E5M2();
    case DType::F8E4M3FNUZ: return llvm::APFloat::Float8E4M3FNUZ();
    case DType::F8E5M2FNUZ: return llvm::APFloat::Float8E5M2FNUZ();
    case DType::F32: return llvm::APFloat::IEEEsingle();
    default: return llvm::APFloat::IEEEdouble();
  }
}

llvm::APFloat rounded(double value, DType t) {
  llvm::APFloat f(value);
  bool inexact = false;
  f.convert(semantics_of(t), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return f;
}

bool is_f64(llvm::Value* v) { return v->getType()->getScalarType()->isDoubleTy(); }

// Type of the same lanes with another element.
llvm::Type* like(llvm::Value* v, llvm::Type* scalar) { return v->getType()->getWithNewType(scalar); }

}  // namespace

llvm::Value* KernelEmitter::intrinsic(llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  return b_.CreateIntrinsic(id, {(*args.begin())->getType()}, std::vector<Value*>(args));
}

llvm::Value* KernelEmitter::splat_const(double value, llvm::Type* type) { return llvm::ConstantFP::get(type, value); }
llvm::Value* KernelEmitter::splat_int(uint64_t value, llvm::Type* type) { return llvm::ConstantInt::get(type, value); }

llvm::Value* KernelEmitter::constant(const Expr& e) {
  llvm::Type* type = reg_type(e.type);
  const DType t = e.type.dtype;
  if (t == DType::F64 || t == DType::F32)
    return llvm::ConstantFP::get(type, rounded(e.f, t));
  if (t == DType::F4E2M1 || t == DType::F6E2M3 || t == DType::F6E3M2 || t == DType::F8E8M0)  // no APFloat; the instructions fold
    return f64_to_small(splat_const(e.f, with_lanes(b_.getDoubleTy(), e.type.lanes)), t);
  if (is_small(t)) return llvm::ConstantInt::get(type, rounded(e.f, t).bitcastToAPInt());
  return llvm::ConstantInt::get(type, llvm::APInt(64, static_cast<uint64_t>(e.i)).trunc(type->getScalarSizeInBits()));
}

llvm::Value* KernelEmitter::unary(const Expr& e, Value* a) {
  const DType t = e.args[0]->type.dtype;
  if (is_float(t)) {
    if (!is_small(t)) return float_unary(e.op, a);
    const unsigned bits = bits_of(t);
    const bool sign_bit = t != DType::F8E4M3FNUZ && t != DType::F8E5M2FNUZ && t != DType::F8E8M0;
    if (sign_bit && e.op == Op::Neg) return b_.CreateXor(a, splat_int(uint64_t{1} << (bits - 1), a->getType()));
    if (sign_bit && e.op == Op::Abs) return b_.CreateAnd(a, splat_int((uint64_t{1} << (bits - 1)) - 1, a->getType()));
    Value* v = float_unary(e.op, to_f32(a, t));
    return e.type.dtype == DType::Bool || !v ? v : from_f32(v, t);
  }
  switch (e.op) {
    case Op::Neg: return b_.CreateNeg(a);
    case Op::Not: case Op::BitNot: return b_.CreateNot(a);
    case Op::Abs: return is_signed_int(t) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b_.getInt1(false)) : a;
    case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: return a;
    case Op::IsNan: case Op::IsInf: return llvm::ConstantInt::getFalse(like(a, b_.getInt1Ty()));
    default: return nullptr;
  }
}

llvm::Value* KernelEmitter::float_unary(Op op, Value* a) {
  switch (op) {
    case Op::Neg: return b_.CreateFNeg(a);
    case Op::Abs: return intrinsic(llvm::Intrinsic::fabs, {a});
    case Op::Sqrt: return intrinsic(llvm::Intrinsic::sqrt, {a});
    case Op::IsNan: return b_.CreateFCmpUNO(a, a);
    case Op::IsInf:
      return b_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs, {a}), llvm::ConstantFP::getInfinity(a->getType()));
    case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: return round_to_integral(op, a);
    case Op::Tf32:
      return can_.target->has_mma ? to_tf32(a) : nullptr;
    case Op::Exp2:
      return can_.target->has_exp2 ? exp2(a) : nullptr;
    default: return nullptr;
  }
}

// Without an instruction: adding and subtracting 2^23 (2^52) rounds to the nearest integer, ties to even; floor, ceil
// and trunc correct that by one. The sign is copied, so that -0.3 gives -0. Larger values are integers already.
llvm::Value* KernelEmitter::round_to_integral(Op op, Value* a) {
  using namespace llvm;
  if (can_.round)
    return intrinsic(op == Op::Floor  ? Intrinsic::floor
                     : op == Op::Ceil ? Intrinsic::ceil
                     : op == Op::Trunc ? Intrinsic::trunc
                                       : Intrinsic::rint, {a});
  llvm::Type* type = a->getType();
  llvm::Value* big = splat_const(is_f64(a) ? 0x1p52 : 0x1p23, type);
  llvm::Value* one = splat_const(1, type);
  llvm::Value* zero = splat_const(0, type);
  llvm::Value* magnitude = intrinsic(Intrinsic::fabs, {a});
  llvm::Value* nearest = b_.CreateFSub(b_.CreateFAdd(magnitude, big), big);
  llvm::Value* r = nullptr;
  if (op == Op::Rint) {
    r = nearest;
  } else if (op == Op::Trunc) {
    r = b_.CreateFSub(nearest, b_.CreateSelect(b_.CreateFCmpOGT(nearest, magnitude), one, zero));
  } else {
    llvm::Value* with_sign = intrinsic(Intrinsic::copysign, {nearest, a});
    r = op == Op::Floor
            ? b_.CreateFSub(with_sign, b_.CreateSelect(b_.CreateFCmpOGT(with_sign, a), one, zero))
            : b_.CreateFAdd(with_sign, b_.CreateSelect(b_.CreateFCmpOLT(with_sign, a), one, zero));
  }
  r = intrinsic(Intrinsic::copysign, {r, a});
  return b_.CreateSelect(b_.CreateFCmpOLT(magnitude, big), r, a);
}

llvm::Value* KernelEmitter::min_max(bool is_min, Value* a, Value* b) {
  if (is_f64(a) ? can_.ieee_minmax_f64 : can_.ieee_minmax) return intrinsic(is_min ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, {a, b});
  // "c < x ? c : x" is one instruction on x86 and gives x if either is NaN: enough when c is a number. In general a
  // NaN on the left has to win as well.
  auto is_number = [](Value* v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && v->getType()->isVectorTy()) c = c->getSplatValue();
    auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    return f && !f->isNaN();
  };
  if (is_number(b)) std::swap(a, b);
  Value* r = is_number(a) ? nullptr : x86_min_max(is_min, a, b);
  if (!r) r = b_.CreateSelect(is_min ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b), a, b);
  return is_number(a) ? r : b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, r);
}

llvm::Value* KernelEmitter::binary(const Expr& e, Value* a, Value* b) {
  const DType t = e.args[0]->type.dtype;
  if (Value* v = narrow_binary(e, a, b)) return v;
  switch (e.op) {
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne:
      if (is_small(t)) return compare(e.op, DType::F32, to_f32(a, t), to_f32(b, t));
      return compare(e.op, t, a, b);
    case Op::And: return b_.CreateAnd(a, b);
    case Op::Or: return b_.CreateOr(a, b);
    default: break;
  }
  if (!is_float(t)) return int_binary(e.op, t, a, b, e);
  if (!is_small(t)) return float_binary(e.op, a, b);
  Value* v = float_binary(e.op, to_f32(a, t), to_f32(b, t));
  return v ? from_f32(v, t) : nullptr;
}

// Devices emulate 64 bits: numbers that fit in 32 are computed there. Null: these are others. The conversions around it meet each
// other in LLVM and vanish.
llvm::Value* KernelEmitter::narrow_binary(const Expr& e, Value* a, Value* b) {
  if (!kernel_->lanes || e.args[0]->type.dtype != DType::I64 || !ranges_.fits(e.args[0]) || !ranges_.fits(e.args[1])) return nullptr;
  llvm::Type* half = like(a, b_.getInt32Ty());
  const auto low = [&](Value* v) { return b_.CreateTrunc(v, half); };
  switch (e.op) {
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: return compare(e.op, DType::I32, low(a), low(b));
    // Sums and products stay as wide as the addresses they end in: both widths at once would take registers from a tile.
    case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod: case Op::Min: case Op::Max: {
      if (!ranges_.fits(&e)) return nullptr;
      Value* v = int_binary(e.op, DType::I32, low(a), low(b), e);
      return v ? b_.CreateSExt(v, a->getType()) : nullptr;
    }
    default: return nullptr;
  }
}

llvm::Value* KernelEmitter::compare(Op op, DType t, Value* a, Value* b) {
  if (is_float(t)) {
    switch (op) {
      case Op::Lt: return b_.CreateFCmpOLT(a, b);
      case Op::Le: return b_.CreateFCmpOLE(a, b);
      case Op::Eq: return b_.CreateFCmpOEQ(a, b);
      default: return b_.CreateFCmpUNE(a, b);
    }
  }
  const bool is_signed = is_signed_int(t);
  switch (op) {
    case Op::Lt: return is_signed ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    case Op::Le: return is_signed ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
    case Op::Eq: return b_.CreateICmpEQ(a, b);
    default: return b_.CreateICmpNE(a, b);
  }
}

llvm::Value* KernelEmitter::float_binary(Op op, Value* a, Value* b) {
  switch (op) {
    case Op::Add: return b_.CreateFAdd(a, b);
    case Op::Sub: return b_.CreateFSub(a, b);
    case Op::Mul: {
      Value* scaled = x86_scaled(a, b);
      return scaled ? scaled : b_.CreateFMul(a, b);
    }
    case Op::Div: return b_.CreateFDiv(a, b);
    case Op::FloorDiv: return round_to_integral(Op::Floor, b_.CreateFDiv(a, b));
    case Op::FloorMod:
      return b_.CreateFSub(a, b_.CreateFMul(b, round_to_integral(Op::Floor, b_.CreateFDiv(a, b))));
    case Op::TruncDiv: return round_to_integral(Op::Trunc, b_.CreateFDiv(a, b));
    case Op::TruncMod: return per_lane(fmod_function(module_, is_f64(a), can_.calls), a, b);
    case Op::Min: return min_max(true, a, b);
    case Op::Max: return min_max(false, a, b);
    default: return nullptr;
  }
}

llvm::Value* KernelEmitter::per_lane(llvm::Function* f, Value* a, Value* b) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  if (!vector) return b_.CreateCall(f, {a, b});
  Value* r = llvm::PoisonValue::get(vector);
  for (unsigned k = 0; k < vector->getNumElements(); ++k)
    r = b_.CreateInsertElement(r, b_.CreateCall(f, {b_.CreateExtractElement(a, k), b_.CreateExtractElement(b, k)}), k);
  return r;
}

llvm::Value* KernelEmitter::int_binary(Op op, DType t, Value* a, Value* b, const Expr& e) {
  const bool is_signed = is_signed_int(t);
  const bool is_bool = t == DType::Bool;
  switch (op) {
    case Op::Add: return is_bool ? b_.CreateOr(a, b) : b_.CreateAdd(a, b);
    case Op::Sub: return b_.CreateSub(a, b);
    case Op::Mul: return b_.CreateMul(a, b);
    case Op::BitAnd: return b_.CreateAnd(a, b);
    case Op::BitOr: return b_.CreateOr(a, b);
    case Op::BitXor: return b_.CreateXor(a, b);
    case Op::Shl: case Op::Shr: return shift(op == Op::Shl, is_signed, a, b);
    case Op::Min:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case Op::Max:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    case Op::FloorDiv: case Op::FloorMod: {
      // A power of two rounds down by itself.
      const Expr* d = e.args[1]->op == Op::Splat ? e.args[1]->args[0] : e.args[1];
      if (is_signed && d->is_const() && d->i > 0 && (d->i & (d->i - 1)) == 0) {
        if (op == Op::FloorMod) return b_.CreateAnd(a, splat_int(static_cast<uint64_t>(d->i - 1), a->getType()));
        return b_.CreateAShr(a, splat_int(static_cast<uint64_t>(__builtin_ctzll(static_cast<uint64_t>(d->i))), a->getType()));
      }
      return divide(op, is_signed, a, b);
    }
    case Op::TruncDiv: case Op::TruncMod: return divide(op, is_signed, a, b);
    case Op::Pow: {
      llvm::Type* wide = like(a, b_.getInt64Ty());
      Value* base = is_signed ? b_.CreateSExt(a, wide) : b_.CreateZExt(a, wide);
      Value* exponent = is_signed ? b_.CreateSExt(b, wide) : b_.CreateZExt(b, wide);
      // The helper reads the exponent as signed. Powers of odd numbers repeat every 2^62, those of even ones are 0 by
      // then: a huge unsigned exponent is taken modulo 2^62 and kept large.
      if (t == DType::U64) {
        Value* huge = b_.CreateICmpSLT(exponent, splat_int(0, wide));
        Value* reduced = b_.CreateOr(b_.CreateAnd(exponent, splat_int((uint64_t{1} << 62) - 1, wide)),
                                     splat_int(uint64_t{1} << 62, wide));
        exponent = b_.CreateSelect(huge, reduced, exponent);
      }
      return b_.CreateTrunc(per_lane(ipow_function(module_, can_.calls), base, exponent), a->getType());
    }
    default: return nullptr;
  }
}

// Total: a divisor of 0 counts as 1, the lowest value by -1 wraps.
llvm::Value* KernelEmitter::divide(Op op, bool is_signed, Value* a, Value* b) {
  llvm::Type* type = a->getType();
  Value* zero = splat_int(0, type);
  Value* one = splat_int(1, type);
  const bool mod = op == Op::TruncMod || op == Op::FloorMod;
  Value* bad = b_.CreateICmpEQ(b, zero);
  if (!is_signed) {
    Value* d = b_.CreateSelect(bad, one, b);
    return mod ? b_.CreateURem(a, d) : b_.CreateUDiv(a, d);
  }
  Value* minus_one = b_.CreateICmpEQ(b, llvm::ConstantInt::getAllOnesValue(type));
  Value* d = b_.CreateSelect(b_.CreateOr(bad, minus_one), one, b);
  Value* q = b_.CreateSDiv(a, d);
  Value* r = b_.CreateSub(a, b_.CreateMul(q, d));  // the remainder of d = 1 is 0, right for -1 too
  if (op == Op::TruncMod) return r;
  if (op == Op::TruncDiv) return b_.CreateSelect(minus_one, b_.CreateNeg(a), q);
  Value* differs = b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, d), zero));
  if (op == Op::FloorMod) return b_.CreateAdd(r, b_.CreateSelect(differs, d, zero));
  return b_.CreateSelect(minus_one, b_.CreateNeg(a), b_.CreateSub(q, b_.CreateZExt(differs, type)));
}

llvm::Value* KernelEmitter::shift(bool left, bool is_signed, Value* a, Value* b) {
  llvm::Type* type = a->getType();
  const unsigned bits = type->getScalarSizeInBits();
  // A negative amount reads as a huge unsigned one.
  Value* wide = b_.CreateICmpUGE(b, splat_int(bits, type));
  Value* amount = b_.CreateSelect(wide, splat_int(bits - 1, type), b);
  if (!left && is_signed) return b_.CreateAShr(a, amount);
  Value* r = left ? b_.CreateShl(a, amount) : b_.CreateLShr(a, amount);
  if (auto* never = llvm::dyn_cast<llvm::Constant>(wide); never && never->isNullValue()) return r;
  return b_.CreateSelect(wide, splat_int(0, type), r);
}

llvm::Value* KernelEmitter::cast(Value* a, DType from, DType to) {
  if (from == to) return a;
  if (is_small(from)) {
    a = to_f32(a, from);
    from = DType::F32;
    if (from == to) return a;
  }
  const bool from_float = is_float(from);
  if (to == DType::Bool)
    return from_float ? b_.CreateFCmpUNE(a, splat_const(0, a->getType()))
                      : b_.CreateICmpNE(a, splat_int(0, a->getType()));
  if (is_small(to)) {
    if (from == DType::F64) return f64_to_small(a, to);
    return from_f32(from_float ? a : cast(a, from, DType::F32), to);
  }
  llvm::Type* type = like(a, reg_scalar(to));
  if (from_float && is_float(to)) return b_.CreateFPCast(a, type);
  if (from_float) {
    // Narrow and unsigned results by way of a signed type that has room: -9 in 4 unsigned bits is 7, as in the other integer
    // conversions, while LLVM leaves it open and processors differ.
    const unsigned bits = bits_of(to);
    if (bits <= 16 || to == DType::U32) {
      llvm::Type* wide = like(a, bits <= 16 ? b_.getInt32Ty() : b_.getInt64Ty());
      return b_.CreateTrunc(b_.CreateFreeze(b_.CreateFPToSI(a, wide)), type);
    }
    return b_.CreateFreeze(is_signed_int(to) ? b_.CreateFPToSI(a, type) : b_.CreateFPToUI(a, type));
  }
  if (is_float(to)) return is_signed_int(from) ? b_.CreateSIToFP(a, type) : b_.CreateUIToFP(a, type);
  return b_.CreateIntCast(a, type, is_signed_int(from));
}

llvm::Value* KernelEmitter::sat_cast(Value* a, DType from, DType to) {
  if (to == DType::Bool) return cast(a, from, to);
  if (is_small(from)) {
    a = to_f32(a, from);
    from = DType::F32;
  }
  llvm::Type* type = like(a, reg_scalar(to));
  if (is_float(from) && is_float(to)) {
    if (!is_small(to)) return cast(a, from, to);
    // To a small float: clamped to its finite range; NaN stays.
    const double largest = to == DType::F4E2M1   ? 6
                           : to == DType::F6E2M3 ? 7.5
                           : to == DType::F6E3M2 ? 28
                           : to == DType::F8E8M0 ? 0x1p127
                                                 : llvm::APFloat::getLargest(semantics_of(to)).convertToDouble();
    llvm::Value* limit = splat_const(largest, a->getType());
    return cast(min_max(false, b_.CreateFNeg(limit), min_max(true, limit, a)), from, to);
  }
  const unsigned bits = bits_of(to);
  if (is_float(from)) {
    if (bits > 16)
      return b_.CreateIntrinsic(is_signed_int(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                                {type, a->getType()}, {a});
    // Narrow results: clamp as floats, where both limits are exact, and go through i32. NaN becomes 0 first.
    const bool is_signed = is_signed_int(to);
    const double hi = static_cast<double>((int64_t{1} << (bits - is_signed)) - 1);
    llvm::Type* ft = a->getType();
    Value* v = b_.CreateSelect(b_.CreateFCmpORD(a, a), a, splat_const(0, ft));
    Value* low = splat_const(is_signed ? -hi - 1 : 0, ft);
    v = b_.CreateSelect(b_.CreateFCmpOGT(v, low), v, low);
    Value* high = splat_const(hi, ft);
    v = b_.CreateSelect(b_.CreateFCmpOLT(v, high), v, high);
    return b_.CreateTrunc(b_.CreateFPToSI(v, like(a, b_.getInt32Ty())), type);
  }
  if (!is_int(from)) return cast(a, from, to);  // a truth value fits everywhere
  if (is_float(to)) return cast(a, from, to);
  // Integer to integer: clamp in the source type where the target is narrower on that side.
  const bool from_signed = is_signed_int(from), to_signed = is_signed_int(to);
  const unsigned from_bits = bits_of(from);
  const unsigned from_value_bits = from_bits - from_signed, to_value_bits = bits - to_signed;
  if (from_value_bits > to_value_bits) {
    Value* high = splat_int((uint64_t{1} << to_value_bits) - 1, a->getType());
    a = b_.CreateBinaryIntrinsic(from_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, high);
  }
  if (from_signed && (!to_signed || from_bits > bits)) {
    const uint64_t lowest = to_signed ? ~uint64_t{0} << to_value_bits : 0;
    Value* low = llvm::ConstantInt::get(a->getType(), llvm::APInt(64, lowest).trunc(from_bits));
    a = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, low);
  }
  return b_.CreateIntCast(a, type, from_signed);
}

llvm::Value* KernelEmitter::bitcast(Value* a, ir::Type from, ir::Type to) {
  if (from.dtype == to.dtype) return a;
  if (from.lanes != to.lanes) return b_.CreateBitCast(a, reg_type(to));  // words as codes, or codes as words: memory is little-endian
  if (bits_of(from.dtype) != bits_of(to.dtype)) return fail("a bit cast that changes the width"), nullptr;
  if (to.dtype == DType::Bool) return b_.CreateICmpNE(a, splat_int(0, a->getType()));
  if (from.dtype == DType::Bool) return b_.CreateZExt(a, reg_type(to));
  return b_.CreateBitCast(a, reg_type(to));
}

// Halves are combined until one lane is left: the order is part of the meaning of float sums.
llvm::Value* KernelEmitter::reduce(const Expr& e, Value* a) {
  const DType t = e.type.dtype;
  const bool small = is_small(t);
  if (small) a = to_f32(a, t);
  const DType element = small ? DType::F32 : t;
  auto combine = [&](Value* x, Value* y) -> Value* {
    const bool f = is_float(element);
    switch (e.op) {
      case Op::SumLanes: return f ? b_.CreateFAdd(x, y) : t == DType::Bool ? b_.CreateOr(x, y) : b_.CreateAdd(x, y);
      case Op::ProdLanes: return f ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
      default: break;
    }
    const bool is_min = e.op == Op::MinLanes;
    if (f) return min_max(is_min, x, y);
    const bool s = is_signed_int(t);
    return b_.CreateBinaryIntrinsic(is_min ? (s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin)
                                           : (s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax), x, y);
  };
  unsigned lanes = e.args[0]->type.lanes;
  if (lanes & (lanes - 1)) return fail("a reduction of lanes that are no power of two"), nullptr;
  while (lanes > 1) {
    lanes /= 2;
    if (lanes == 1) {
      a = combine(b_.CreateExtractElement(a, uint64_t{0}), b_.CreateExtractElement(a, uint64_t{1}));
      break;
    }
    std::vector<int> low, high;
    for (unsigned k = 0; k < lanes; ++k) low.push_back(static_cast<int>(k)), high.push_back(static_cast<int>(k + lanes));
    a = combine(b_.CreateShuffleVector(a, low), b_.CreateShuffleVector(a, high));
  }
  return small ? from_f32(a, t) : a;
}

}  // namespace mlc::targets
