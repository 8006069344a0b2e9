// Conversions between element types: nothing is converted that does not fit, because SPIR-V leaves that open.
#include <cmath>

#include "packager/ir/numeric.h"
#include "targets/spirv/numbers.h"

namespace mlc::targets::spirv {

// Clamped to the range of `to` and truncated. Limits are compared in the float's type: the lowest number and the first too large one
// are powers of two, so they are exact there.
Id Numbers::truncate(DType to, Reg from, Id a) {
  const Reg reg = reg_of(to);
  const bool is_signed = is_signed_int(to);
  const double above = std::ldexp(1.0, static_cast<int>(bits_of(to)) - is_signed), lowest = is_signed ? -above : 0;
  const Id is_below = c_.test(Op::FOrdLessThan, a, c_.real(from, above));
  const Id is_above = c_.test(Op::FOrdGreaterThanEqual, a, c_.real(from, lowest));
  const Id safe = c_.select(from, c_.test(Op::LogicalAnd, is_below, is_above), a, c_.real(from, 0));
  const Id whole = c_.op(is_signed ? Op::ConvertFToS : Op::ConvertFToU, reg, {safe});
  const Id high = c_.integer(reg, static_cast<uint64_t>(ir::highest_int(to))), low = c_.integer(reg, static_cast<uint64_t>(ir::lowest_int(to)));
  const Id from_lowest = c_.select(reg, is_below, whole, high);
  return c_.select(reg, is_above, from_lowest, c_.select(reg, is_below, low, c_.integer(reg, 0)));  // neither: NaN
}

Id Numbers::integer_to_float(DType from, Reg to, Id a) {
  return c_.op(is_signed_int(from) ? Op::ConvertSToF : Op::ConvertUToF, to, {a});
}

Id Numbers::cast(DType from, DType to, Id a) {
  if (from == to) return a;
  if (is_small(from)) {
    a = to_f32(from, a);
    from = DType::F32;
    if (from == to) return a;
  }
  const Reg source = reg_of(from), reg = reg_of(to);
  if (from == DType::Bool) {
    if (is_small(to)) return c_.select(Reg::U32, a, constant(to, 1, 1), constant(to, 0, 0));
    return c_.select(reg, a, constant(to, 1, 1), constant(to, 0, 0));
  }
  if (to == DType::Bool) return is_float(from) ? c_.test(Op::FUnordNotEqual, a, c_.real(source, 0)) : c_.test(Op::INotEqual, a, c_.integer(source, 0));
  if (is_small(to)) {
    if (from == DType::F64) return f64_to_small(to, a);
    return from_f32(to, is_float(from) ? a : integer_to_float(from, Reg::F32, a));
  }
  if (is_float(to)) return is_float(from) ? c_.op(Op::FConvert, reg, {a}) : integer_to_float(from, reg, a);
  if (is_float(from)) {
    // The low bits of what fits in a signed number: -9 in 4 unsigned bits is 7.
    if (bits_of(to) <= 16 || to == DType::I32) return narrow(to, truncate(DType::I32, source, a));
    if (to == DType::I64) return truncate(DType::I64, source, a);
    const Id whole = truncate(DType::I64, source, a);
    if (to == DType::U32) return c_.op(Op::UConvert, Reg::U32, {whole});
    return c_.select(reg, c_.test(Op::FOrdLessThan, a, c_.real(source, 0)), whole, truncate(DType::U64, source, a));
  }
  if (source == reg) return reg == Reg::U64 || bits_of(to) >= 32 ? a : narrow(to, a);
  if (reg == Reg::U64) return is_signed_int(from) ? c_.extended(a) : c_.op(Op::UConvert, reg, {a});
  return narrow(to, c_.op(Op::UConvert, Reg::U32, {a}));
}

Id Numbers::sat_cast(DType from, DType to, Id a) {
  if (to == DType::Bool) return cast(from, to, a);
  if (is_small(from)) {
    a = to_f32(from, a);
    from = DType::F32;
  }
  const Reg source = reg_of(from);
  if (is_float(from) && is_small(to)) {  // to its finite range; NaN stays
    const double largest = ir::highest_finite(to);
    return cast(from, to, min_max(false, source, min_max(true, source, a, c_.real(source, largest)), c_.real(source, -largest)));
  }
  if (is_float(to) || from == DType::Bool) return cast(from, to, a);
  if (is_float(from)) return truncate(to, source, a);
  // Integers are clamped in the source type where the target is narrower on that side.
  const bool from_signed = is_signed_int(from), to_signed = is_signed_int(to);
  const unsigned from_bits = bits_of(from), to_bits = bits_of(to);
  if (from_bits - from_signed > to_bits - to_signed) {
    const Id high = c_.integer(source, (uint64_t{1} << (to_bits - to_signed)) - 1);
    a = c_.select(source, c_.test(from_signed ? Op::SGreaterThan : Op::UGreaterThan, a, high), high, a);
  }
  if (from_signed && (!to_signed || from_bits > to_bits)) {
    const Id low = c_.integer(source, static_cast<uint64_t>(ir::lowest_int(to)));
    a = c_.select(source, c_.test(Op::SLessThan, a, low), low, a);
  }
  return cast(from, to, a);
}

Id Numbers::bitcast(DType from, DType to, Id a) {
  if (from == to) return a;
  if (from == DType::Bool) return to_raw(from, a);
  if (to == DType::Bool) return c_.test(Op::INotEqual, a, c_.u32(0));
  const Reg source = reg_of(from), reg = reg_of(to);
  if (source != reg) return c_.op(Op::Bitcast, reg, {a});  // of 32 or 64 bits, a float and an integer
  return reg == Reg::U32 ? narrow(to, a) : a;
}

}  // namespace mlc::targets::spirv
