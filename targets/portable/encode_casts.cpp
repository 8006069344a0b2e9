// Conversions between types of numbers, and of bits.
#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

using ir::Op;
using mlc::portable::kind_of;

Encoder::R Encoder::cast(R a, unsigned lanes, DType from, DType to) {
  if (from == to) return a;
  const Kind fk = kind_of(from), tk = kind_of(to);
  auto one = [&](PortableOp op, Kind kind, R x) { return emit(op, kind, lanes, x); };
  if (to == DType::Bool) {
    const R zero = is_float(from) ? float_constant(fk, lanes, 0) : int_constant(fk, lanes, 0);
    return emit(PortableOp::Ne, Kind::Mask, lanes, a, zero);
  }
  if (from == DType::Bool) {
    a = one(PortableOp::FromMask, Kind::I32, a);
    if (tk == Kind::I64) return one(PortableOp::Widen, tk, a);
    return tk == Kind::I32 ? a : one(PortableOp::ToFloat, tk, a);
  }
  if (is_float(from) && is_float(to)) {
    if (fk == tk) return fit(a, lanes, to);
    if (tk == Kind::F64) return one(PortableOp::Resize, tk, a);
    return to == DType::F32 ? one(PortableOp::Resize, tk, a) : fit(one(PortableOp::ResizeOdd, tk, a), lanes, to);
  }
  if (is_float(from)) {
    if (is_narrow(to)) return fit(one(PortableOp::ToInt, Kind::I32, a), lanes, to);
    if (to == DType::U32) return one(PortableOp::Narrow, tk, one(PortableOp::ToInt, Kind::I64, a));  // negative ones wrap
    return one(is_signed_int(to) ? PortableOp::ToInt : PortableOp::ToIntU, tk, a);
  }
  if (is_float(to)) {
    const bool u = is_unsigned_int(from) && bits_of(from) >= 32;
    return fit(one(u ? PortableOp::ToFloatU : PortableOp::ToFloat, tk, a), lanes, to);
  }
  if (fk == tk) return fit(a, lanes, to);
  if (tk == Kind::I64) return one(from == DType::U32 ? PortableOp::WidenU : PortableOp::Widen, tk, a);
  return fit(one(PortableOp::Narrow, tk, a), lanes, to);
}

Encoder::R Encoder::sat_cast(R a, unsigned lanes, DType from, DType to) {
  if (from == DType::Bool || to == DType::Bool || (is_int(from) && is_float(to))) return cast(a, lanes, from, to);
  const Kind fk = kind_of(from);
  if (is_float(to)) {
    if (!is_small(to)) return cast(a, lanes, from, to);
    // Clamped to the finite range.
    const double limit = to == DType::F16      ? 65504
                         : to == DType::BF16   ? 0x1.fep127
                         : to == DType::F8E4M3 ? 448
                         : to == DType::F8E4M3FNUZ ? 240
                         : to == DType::F4E2M1     ? 6
                         : to == DType::F6E2M3     ? 7.5
                         : to == DType::F6E3M2     ? 28
                         : to == DType::F8E8M0     ? 0x1p127
                                                   : 57344;
    a = emit(PortableOp::Min, fk, lanes, float_constant(fk, lanes, limit), a);
    a = emit(PortableOp::Max, fk, lanes, float_constant(fk, lanes, -limit), a);
    return cast(a, lanes, from, to);
  }
  const unsigned value_bits = bits_of(to) - is_signed_int(to);
  const int64_t high = value_bits >= 63 ? INT64_MAX : (int64_t{1} << value_bits) - 1;
  const int64_t low = is_signed_int(to) ? -high - 1 : 0;
  if (is_float(from)) {  // conversions clamp to 32 or 64 bits
    if (!is_narrow(to)) return emit(is_signed_int(to) ? PortableOp::ToInt : PortableOp::ToIntU, kind_of(to), lanes, a);
    a = emit(PortableOp::ToInt, Kind::I32, lanes, a);
    a = emit(PortableOp::Min, Kind::I32, lanes, a, int_constant(Kind::I32, lanes, high));
    return emit(PortableOp::Max, Kind::I32, lanes, a, int_constant(Kind::I32, lanes, low));
  }
  const bool from_signed = is_signed_int(from);
  const bool u = !from_signed && bits_of(from) >= 32;
  if (bits_of(from) - from_signed > value_bits)
    a = emit(u ? PortableOp::MinU : PortableOp::Min, fk, lanes, a, int_constant(fk, lanes, high));
  if (from_signed && (low == 0 || bits_of(from) > bits_of(to)))
    a = emit(PortableOp::Max, fk, lanes, a, int_constant(fk, lanes, low));
  return cast(a, lanes, from, to);
}

// The bits of a value of at most 32 bits in an I32.
Encoder::R Encoder::to_bits(R a, unsigned lanes, DType from) {
  if (from == DType::Bool) return emit(PortableOp::FromMask, Kind::I32, lanes, a);
  if (is_small(from)) return pack(a, lanes, from);
  return from == DType::F32 ? emit(PortableOp::Move, Kind::I32, lanes, a) : a;
}

Encoder::R Encoder::bitcast(R a, unsigned lanes, DType from, DType to) {
  if (from == to) return a;
  if (bits_of(from) != bits_of(to)) return fail("a bit cast that changes the width");
  if (bits_of(to) == 64) return kind_of(from) == kind_of(to) ? a : emit(PortableOp::Move, kind_of(to), lanes, a);
  const R bits = to_bits(a, lanes, from);
  if (to == DType::Bool) return emit(PortableOp::Ne, Kind::Mask, lanes, bits, int_constant(Kind::I32, lanes, 0));
  if (is_small(to)) return unpack(bits, lanes, to);
  return to == DType::F32 ? emit(PortableOp::Move, Kind::F32, lanes, bits) : fit(bits, lanes, to);
}

}  // namespace mlc::targets::portable
