#include "targets/spirv/numbers.h"

#include <bit>

#include "packager/ir/numeric.h"

namespace mlc::targets::spirv {

using IrOp = ir::Op;

Reg reg_of(DType t) {
  switch (t) {
    case DType::Bool: return Reg::Bool;
    case DType::F32: return Reg::F32;
    case DType::F64: return Reg::F64;
    case DType::I64: case DType::U64: return Reg::U64;
    default: return Reg::U32;
  }
}

namespace {
Reg int_of(Reg real) { return real == Reg::F64 ? Reg::U64 : Reg::U32; }
}  // namespace

Id Numbers::constant(DType t, int64_t i, double f) {
  if (t == DType::Bool) return c_.boolean(i != 0);
  if (t == DType::F32 || t == DType::F64) return c_.real(reg_of(t), f);
  if (!is_float(t)) return c_.integer(reg_of(t), static_cast<uint64_t>(i));
  uint32_t raw = 0;
  ir::store_element(t, &raw, 0, {0, f});
  return c_.u32(raw);
}

Id Numbers::narrow(DType t, Id wide) {
  const unsigned width = bits_of(t);
  if (width >= 32) return wide;
  if (!is_signed_int(t)) return c_.op(Op::BitwiseAnd, Reg::U32, {wide, c_.u32((1u << width) - 1)});
  const Id amount = c_.u32(32 - width);
  return c_.op(Op::ShiftRightArithmetic, Reg::U32, {c_.op(Op::ShiftLeftLogical, Reg::U32, {wide, amount}), amount});
}

Id Numbers::from_raw(DType t, Id raw) {
  if (t == DType::Bool) return c_.test(Op::INotEqual, raw, c_.u32(0));
  if (t == DType::F32 || t == DType::F64) return c_.op(Op::Bitcast, reg_of(t), {raw});
  return is_signed_int(t) || bits_of(t) < 8 ? narrow(t, raw) : raw;
}

Id Numbers::to_raw(DType t, Id value) {
  if (t == DType::Bool) return c_.select(Reg::U32, value, c_.u32(1), c_.u32(0));
  if (t == DType::F32 || t == DType::F64) return c_.op(Op::Bitcast, int_of(reg_of(t)), {value});
  return value;
}

Id Numbers::bits(Reg reg, Id a) { return c_.op(Op::Bitcast, int_of(reg), {a}); }

// By its bits: what a driver thinks of NaN does not matter.
Id Numbers::is_nan(Reg reg, Id a) {
  const Reg ints = int_of(reg);
  const Id magnitude = c_.op(Op::BitwiseAnd, ints, {bits(reg, a), c_.integer(ints, reg == Reg::F64 ? ~uint64_t{0} >> 1 : 0x7fffffff)});
  return c_.test(Op::UGreaterThan, magnitude, c_.integer(ints, reg == Reg::F64 ? uint64_t{0x7ff} << 52 : 0x7f800000));
}

Id Numbers::unary(IrOp op, DType t, Id a) {
  const Reg reg = reg_of(t);
  if (is_small(t)) {
    const unsigned width = bits_of(t);
    const bool sign_bit = t != DType::F8E4M3FNUZ && t != DType::F8E5M2FNUZ && t != DType::F8E8M0;
    if (sign_bit && op == IrOp::Neg) return c_.op(Op::BitwiseXor, Reg::U32, {a, c_.u32(1u << (width - 1))});
    if (sign_bit && op == IrOp::Abs) return c_.op(Op::BitwiseAnd, Reg::U32, {a, c_.u32((1u << (width - 1)) - 1)});
    const Id v = float_unary(op, Reg::F32, to_f32(t, a));
    return v == 0 || op == IrOp::IsNan || op == IrOp::IsInf ? v : from_f32(t, v);
  }
  if (is_float(t)) return float_unary(op, reg, a);
  if (t == DType::Bool) return op == IrOp::Not || op == IrOp::BitNot ? c_.negate(a) : op == IrOp::Abs ? a : 0;
  switch (op) {
    case IrOp::Neg: return narrow(t, c_.op(Op::SNegate, reg, {a}));
    case IrOp::BitNot: return narrow(t, c_.op(Op::Not, reg, {a}));
    case IrOp::Abs: {
      if (!is_signed_int(t)) return a;
      const Id negative = c_.test(Op::SLessThan, a, c_.integer(reg, 0));
      return narrow(t, c_.select(reg, negative, c_.op(Op::SNegate, reg, {a}), a));
    }
    case IrOp::Floor: case IrOp::Ceil: case IrOp::Trunc: case IrOp::Rint: return a;
    case IrOp::IsNan: case IrOp::IsInf: return c_.boolean(false);
    default: return 0;
  }
}

Id Numbers::float_unary(IrOp op, Reg reg, Id a) {
  switch (op) {
    case IrOp::Neg: return c_.op(Op::FNegate, reg, {a});
    case IrOp::Abs: return c_.glsl(Glsl::FAbs, reg, {a});
    case IrOp::Sqrt: return square_root(reg, a);
    case IrOp::Floor: return c_.glsl(Glsl::Floor, reg, {a});
    case IrOp::Ceil: return c_.glsl(Glsl::Ceil, reg, {a});
    case IrOp::Trunc: return c_.glsl(Glsl::Trunc, reg, {a});
    case IrOp::Rint: return c_.glsl(Glsl::RoundEven, reg, {a});
    case IrOp::IsNan: return is_nan(reg, a);
    case IrOp::IsInf: {
      const Reg ints = int_of(reg);
      const uint64_t infinity = reg == Reg::F64 ? uint64_t{0x7ff} << 52 : 0x7f800000;
      const Id magnitude = c_.op(Op::BitwiseAnd, ints, {bits(reg, a), c_.integer(ints, reg == Reg::F64 ? ~uint64_t{0} >> 1 : 0x7fffffff)});
      return c_.test(Op::IEqual, magnitude, c_.integer(ints, infinity));
    }
    default: return 0;
  }
}

Id Numbers::binary(IrOp op, DType t, Id a, Id b, const int64_t* divisor) {
  const bool comparison = op >= IrOp::Lt && op <= IrOp::Ne;
  if (t == DType::Bool) return bool_binary(op, a, b);
  if (is_small(t)) {
    a = to_f32(t, a), b = to_f32(t, b);
    if (comparison) return compare(op, DType::F32, a, b);
    const Id v = float_binary(op, Reg::F32, a, b);
    return v ? from_f32(t, v) : 0;
  }
  if (comparison) return compare(op, t, a, b);
  return is_float(t) ? float_binary(op, reg_of(t), a, b) : int_binary(op, t, a, b, divisor);
}

Id Numbers::bool_binary(IrOp op, Id a, Id b) {
  switch (op) {
    case IrOp::And: case IrOp::BitAnd: case IrOp::Min: case IrOp::Mul: return c_.test(Op::LogicalAnd, a, b);
    case IrOp::Or: case IrOp::BitOr: case IrOp::Max: case IrOp::Add: return c_.test(Op::LogicalOr, a, b);
    case IrOp::BitXor: case IrOp::Sub: case IrOp::Ne: return c_.test(Op::LogicalNotEqual, a, b);
    case IrOp::Eq: return c_.test(Op::LogicalEqual, a, b);
    case IrOp::Lt: return c_.test(Op::LogicalAnd, c_.negate(a), b);
    case IrOp::Le: return c_.test(Op::LogicalOr, c_.negate(a), b);
    default: return 0;
  }
}

Id Numbers::compare(IrOp op, DType t, Id a, Id b) {
  if (is_float(t)) {
    switch (op) {
      case IrOp::Lt: return c_.test(Op::FOrdLessThan, a, b);
      case IrOp::Le: return c_.test(Op::FOrdLessThanEqual, a, b);
      case IrOp::Eq: return c_.test(Op::FOrdEqual, a, b);
      default: return c_.test(Op::FUnordNotEqual, a, b);
    }
  }
  const bool is_signed = is_signed_int(t);
  switch (op) {
    case IrOp::Lt: return c_.test(is_signed ? Op::SLessThan : Op::ULessThan, a, b);
    case IrOp::Le: return c_.test(is_signed ? Op::SLessThanEqual : Op::ULessThanEqual, a, b);
    case IrOp::Eq: return c_.test(Op::IEqual, a, b);
    default: return c_.test(Op::INotEqual, a, b);
  }
}

Id Numbers::fma(DType t, Id a, Id b, Id c) {
  if (!is_float(t)) return binary(IrOp::Add, t, binary(IrOp::Mul, t, a, b), c);
  if (is_small(t)) return from_f32(t, c_.glsl(Glsl::Fma, Reg::F32, {to_f32(t, a), to_f32(t, b), to_f32(t, c)}));
  return c_.glsl(Glsl::Fma, reg_of(t), {a, b, c});
}

// A NaN on the left wins; one on the right makes the comparison false.
Id Numbers::min_max(bool is_min, Reg reg, Id a, Id b) {
  const Id first = c_.test(is_min ? Op::FOrdLessThan : Op::FOrdGreaterThan, a, b);
  return c_.select(reg, is_nan(reg, a), a, c_.select(reg, first, a, b));
}

Id Numbers::float_binary(IrOp op, Reg reg, Id a, Id b) {
  switch (op) {
    case IrOp::Add: return c_.op(Op::FAdd, reg, {a, b});
    case IrOp::Sub: return c_.op(Op::FSub, reg, {a, b});
    case IrOp::Mul: return c_.op(Op::FMul, reg, {a, b});
    case IrOp::Div: return divide(reg, a, b);
    case IrOp::FloorDiv: return c_.glsl(Glsl::Floor, reg, {divide(reg, a, b)});
    case IrOp::FloorMod: {
      const Id q = c_.glsl(Glsl::Floor, reg, {divide(reg, a, b)});
      return c_.op(Op::FSub, reg, {a, c_.op(Op::FMul, reg, {b, q})});
    }
    case IrOp::TruncDiv: return c_.glsl(Glsl::Trunc, reg, {divide(reg, a, b)});
    case IrOp::TruncMod: return remainder(reg, a, b);
    case IrOp::Min: return min_max(true, reg, a, b);
    case IrOp::Max: return min_max(false, reg, a, b);
    default: return 0;
  }
}

Id Numbers::int_binary(IrOp op, DType t, Id a, Id b, const int64_t* divisor) {
  const Reg reg = reg_of(t);
  const bool is_signed = is_signed_int(t);
  const auto pick = [&](bool is_min) {
    const Id first = c_.test(is_signed ? (is_min ? Op::SLessThan : Op::SGreaterThan) : (is_min ? Op::ULessThan : Op::UGreaterThan), a, b);
    return c_.select(reg, first, a, b);
  };
  switch (op) {
    case IrOp::Add: return narrow(t, c_.op(Op::IAdd, reg, {a, b}));
    case IrOp::Sub: return narrow(t, c_.op(Op::ISub, reg, {a, b}));
    case IrOp::Mul: return narrow(t, c_.op(Op::IMul, reg, {a, b}));
    case IrOp::BitAnd: return c_.op(Op::BitwiseAnd, reg, {a, b});
    case IrOp::BitOr: return c_.op(Op::BitwiseOr, reg, {a, b});
    case IrOp::BitXor: return c_.op(Op::BitwiseXor, reg, {a, b});
    case IrOp::Min: return pick(true);
    case IrOp::Max: return pick(false);
    case IrOp::Shl: case IrOp::Shr: return shift(op == IrOp::Shl, t, a, b, divisor);
    case IrOp::FloorDiv: case IrOp::FloorMod: case IrOp::TruncDiv: case IrOp::TruncMod: return divide_integers(op, t, a, b, divisor);
    case IrOp::Pow: return power(t, a, b);
    default: return 0;
  }
}

// Total, as on processors: a divisor of 0 counts as 1, the lowest value by -1 wraps.
Id Numbers::divide_integers(IrOp op, DType t, Id a, Id b, const int64_t* divisor) {
  const Reg reg = reg_of(t);
  const bool is_signed = is_signed_int(t), is_mod = op == IrOp::TruncMod || op == IrOp::FloorMod;
  const bool is_floor = op == IrOp::FloorDiv || op == IrOp::FloorMod;
  const bool positive = divisor && (is_signed ? *divisor > 0 : *divisor != 0);
  const auto d64 = static_cast<uint64_t>(divisor ? *divisor : 0);
  if (positive && std::has_single_bit(d64) && (is_floor || !is_signed)) {
    if (is_mod) return c_.op(Op::BitwiseAnd, reg, {a, c_.integer(reg, d64 - 1)});
    const Id amount = c_.u32(static_cast<uint32_t>(std::countr_zero(d64)));
    return c_.op(is_signed ? Op::ShiftRightArithmetic : Op::ShiftRightLogical, reg, {a, amount});
  }
  const Id zero = c_.integer(reg, 0), one = c_.integer(reg, 1);
  const Id none = positive ? 0 : c_.test(Op::IEqual, b, zero);
  if (!is_signed) {
    const Id d = positive ? b : c_.select(reg, none, one, b);
    return c_.op(is_mod ? Op::UMod : Op::UDiv, reg, {a, d});
  }
  const Id minus = positive ? 0 : c_.test(Op::IEqual, b, c_.integer(reg, ~uint64_t{0}));
  const Id d = positive ? b : c_.select(reg, c_.test(Op::LogicalOr, none, minus), one, b);
  const Id q = c_.op(Op::SDiv, reg, {a, d});
  const Id r = c_.op(Op::ISub, reg, {a, c_.op(Op::IMul, reg, {q, d})});  // the remainder of d = 1 is 0, right for -1 too
  const auto by_minus_one = [&](Id value) { return positive ? value : narrow(t, c_.select(reg, minus, c_.op(Op::SNegate, reg, {a}), value)); };
  if (op == IrOp::TruncMod) return r;
  if (op == IrOp::TruncDiv) return by_minus_one(q);
  const Id sign = positive ? r : c_.op(Op::BitwiseXor, reg, {r, d});
  Id differs = c_.test(Op::SLessThan, sign, zero);
  if (!positive) differs = c_.test(Op::LogicalAnd, differs, c_.test(Op::INotEqual, r, zero));
  if (op == IrOp::FloorMod) return c_.op(Op::IAdd, reg, {r, c_.select(reg, differs, d, zero)});
  return by_minus_one(c_.op(Op::ISub, reg, {q, c_.select(reg, differs, one, zero)}));
}

// A negative amount reads as a huge unsigned one.
Id Numbers::shift(bool left, DType t, Id a, Id b, const int64_t* known) {
  const Reg reg = reg_of(t);
  const unsigned width = bits_of(t);
  const bool is_signed = is_signed_int(t), fits = known && *known >= 0 && *known < static_cast<int64_t>(width);
  const Id wide = fits ? 0 : c_.test(Op::UGreaterThanEqual, b, c_.integer(reg, width));
  const Id amount = fits ? b : c_.select(reg, wide, c_.integer(reg, width - 1), b);
  if (!left && is_signed) return c_.op(Op::ShiftRightArithmetic, reg, {a, amount});
  const Id r = narrow(t, c_.op(left ? Op::ShiftLeftLogical : Op::ShiftRightLogical, reg, {a, amount}));
  return fits ? r : c_.select(reg, wide, c_.integer(reg, 0), r);
}

// Wrapping; a negative exponent gives 0 unless the base is 1 or -1.
Id Numbers::power(DType t, Id a, Id b) {
  const Reg reg = reg_of(t);
  const Id zero = c_.integer(reg, 0), one = c_.integer(reg, 1);
  const auto is_odd = [&](Id v) { return c_.test(Op::INotEqual, c_.op(Op::BitwiseAnd, reg, {v, one}), zero); };
  const Id negative = is_signed_int(t) ? c_.test(Op::SLessThan, b, zero) : 0;
  const Body::Variable result = c_.variable(reg, one), base = c_.variable(reg, a);
  const Body::Variable left = c_.variable(reg, negative ? c_.select(reg, negative, zero, b) : b);
  c_.loop([&] { return c_.test(Op::INotEqual, c_.load(left), zero); },
          [&] {
            const Id x = c_.load(base), e = c_.load(left), r = c_.load(result);
            c_.store(result, c_.select(reg, is_odd(e), c_.op(Op::IMul, reg, {r, x}), r));
            c_.store(base, c_.op(Op::IMul, reg, {x, x}));
            c_.store(left, c_.op(Op::ShiftRightLogical, reg, {e, one}));
          });
  Id r = c_.load(result);
  if (negative) {
    const Id minus = c_.integer(reg, ~uint64_t{0});
    const Id of_minus_one = c_.select(reg, is_odd(b), minus, one);
    Id reciprocal = c_.select(reg, c_.test(Op::IEqual, a, minus), of_minus_one, zero);
    reciprocal = c_.select(reg, c_.test(Op::IEqual, a, one), one, reciprocal);
    r = c_.select(reg, negative, reciprocal, r);
  }
  return narrow(t, r);
}

}  // namespace mlc::targets::spirv
