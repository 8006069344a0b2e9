// Arithmetic and comparisons.
#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

using ir::Op;
using mlc::portable::kind_of;

Encoder::R Encoder::unary(const Expr& e, R a) {
  const DType t = e.args[0]->type.dtype;
  const Kind kind = kind_of(t);
  const unsigned lanes = e.type.lanes;
  PortableOp op;
  switch (e.op) {
    case Op::Neg: op = PortableOp::Neg; break;
    case Op::Abs:
      if (!is_float(t) && !is_signed_int(t)) return a;
      op = PortableOp::Abs;
      break;
    case Op::Not: case Op::BitNot: op = PortableOp::Not; break;
    case Op::Floor: op = PortableOp::Floor; break;
    case Op::Ceil: op = PortableOp::Ceil; break;
    case Op::Trunc: op = PortableOp::Trunc; break;
    case Op::Rint: op = PortableOp::Rint; break;
    case Op::Sqrt: op = PortableOp::Sqrt; break;
    case Op::IsNan: case Op::IsInf:
      if (!is_float(t)) return constant(Kind::Mask, lanes, 0);
      return emit(e.op == Op::IsNan ? PortableOp::IsNan : PortableOp::IsInf, Kind::Mask, lanes, a);
    default: return kNone;
  }
  const bool rounds = op >= PortableOp::Floor && op <= PortableOp::Rint;
  if (rounds && !is_float(t)) return a;
  return fit(emit(op, kind, lanes, a), lanes, t);
}

Encoder::R Encoder::binary(const Expr& e, R a, R b) {
  const DType t = e.args[0]->type.dtype;
  const unsigned lanes = e.type.lanes;
  switch (e.op) {
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: return compare(e.op, t, lanes, a, b);
    case Op::And: return emit(PortableOp::And, Kind::Mask, lanes, a, b);
    case Op::Or: return emit(PortableOp::Or, Kind::Mask, lanes, a, b);
    default: break;
  }
  if (!is_float(t)) return int_binary(e.op, t, lanes, a, b);
  const R r = float_binary(e.op, kind_of(t), lanes, a, b);
  return r == kNone ? r : fit(r, lanes, t);
}

Encoder::R Encoder::compare(Op op, DType t, unsigned lanes, R a, R b) {
  auto emit_mask = [&](PortableOp o) { return emit(o, Kind::Mask, lanes, a, b); };
  const bool u = is_unsigned_int(t) && bits_of(t) >= 32;
  if (op == Op::Eq) return emit_mask(PortableOp::Eq);
  if (op == Op::Ne) return emit_mask(PortableOp::Ne);
  if (t == DType::Bool) {
    const R not_a = emit(PortableOp::Not, Kind::Mask, lanes, a);
    return emit(op == Op::Lt ? PortableOp::And : PortableOp::Or, Kind::Mask, lanes, not_a, b);
  }
  if (op == Op::Lt) return emit_mask(u ? PortableOp::LtU : PortableOp::Lt);
  return emit_mask(u ? PortableOp::LeU : PortableOp::Le);
}

Encoder::R Encoder::float_binary(Op op, Kind kind, unsigned lanes, R a, R b) {
  auto two = [&](PortableOp o, R x, R y) { return emit(o, kind, lanes, x, y); };
  switch (op) {
    case Op::Add: return two(PortableOp::Add, a, b);
    case Op::Sub: return two(PortableOp::Sub, a, b);
    case Op::Mul: return two(PortableOp::Mul, a, b);
    case Op::Div: return two(PortableOp::Div, a, b);
    case Op::Min: return two(PortableOp::Min, a, b);
    case Op::Max: return two(PortableOp::Max, a, b);
    case Op::FloorDiv: return emit(PortableOp::Floor, kind, lanes, two(PortableOp::Div, a, b));
    case Op::TruncDiv: return emit(PortableOp::Trunc, kind, lanes, two(PortableOp::Div, a, b));
    case Op::FloorMod:
      return two(PortableOp::Sub, a, two(PortableOp::Mul, b, emit(PortableOp::Floor, kind, lanes, two(PortableOp::Div, a, b))));
    case Op::TruncMod: return two(PortableOp::FMod, a, b);
    default: return kNone;
  }
}

Encoder::R Encoder::int_binary(Op op, DType t, unsigned lanes, R a, R b) {
  const Kind kind = kind_of(t);
  const bool is_bool = t == DType::Bool;
  // Narrow unsigned values are small positive numbers in their registers.
  const bool u = is_unsigned_int(t) && bits_of(t) >= 32;
  PortableOp o;
  switch (op) {
    case Op::Add: o = is_bool ? PortableOp::Or : PortableOp::Add; break;
    case Op::Sub: o = PortableOp::Sub; break;
    case Op::Mul: o = is_bool ? PortableOp::And : PortableOp::Mul; break;
    case Op::FloorDiv: o = u ? PortableOp::QuotU : PortableOp::FloorQuot; break;
    case Op::FloorMod: o = u ? PortableOp::RemU : PortableOp::FloorRem; break;
    case Op::TruncDiv: o = u ? PortableOp::QuotU : PortableOp::Quot; break;
    case Op::TruncMod: o = u ? PortableOp::RemU : PortableOp::Rem; break;
    case Op::Min: o = is_bool ? PortableOp::And : u ? PortableOp::MinU : PortableOp::Min; break;
    case Op::Max: o = is_bool ? PortableOp::Or : u ? PortableOp::MaxU : PortableOp::Max; break;
    case Op::Pow: o = u ? PortableOp::PowU : PortableOp::Pow; break;
    case Op::BitAnd: o = PortableOp::And; break;
    case Op::BitOr: o = PortableOp::Or; break;
    case Op::BitXor: o = PortableOp::Xor; break;
    case Op::Shl: o = PortableOp::Shl; break;
    case Op::Shr: o = u ? PortableOp::ShrU : PortableOp::Shr; break;
    default: return kNone;
  }
  const R r = emit(o, kind, lanes, a, b);
  // These stay in the range of their type.
  const bool keeps = op == Op::Min || op == Op::Max || op == Op::BitAnd || op == Op::BitOr || op == Op::BitXor ||
                     op == Op::Shr || op == Op::TruncMod || op == Op::FloorMod;
  return keeps ? r : fit(r, lanes, t);
}

}  // namespace mlc::targets::portable
