// What Vulkan does not promise of floats: division and square roots that are right in normal cases, the exact remainder, and the types
// below 32 bits by integer arithmetic.
//
// Decoding shifts exponent and mantissa to the places they have in an f32 and corrects the exponent; a subnormal number is its mantissa
// times a power of two, so that no subnormal f32 is ever computed with: a device may read it as zero. Encoding a normal number adds half
// a unit (a unit less if the result would be even) to the bits; a subnormal one is added to the number whose last mantissa bit has the
// weight of the smallest subnormal, so that the addition rounds.
#include <bit>
#include <cmath>

#include "targets/spirv/numbers.h"

namespace mlc::targets::spirv {

namespace {

struct Format {
  unsigned bits, mantissa;
  int bias;
  uint32_t top;   // largest magnitude that rounding may produce: infinity, or the pattern that stands for overflow
  uint32_t nan;   // magnitude of NaN; beyond `bits` - 1 bits where -0 stands for it
  bool infinity;  // exponent all ones means infinity and NaN
  bool fnuz;      // no negative zero, its pattern is NaN
};

Format format_of(DType t) {
  switch (t) {
    case DType::F16: return {16, 10, 15, 0x7c00, 0x7e00, true, false};
    case DType::F8E4M3: return {8, 3, 7, 0x7f, 0x7f, false, false};
    case DType::F8E5M2: return {8, 2, 15, 0x7c, 0x7e, true, false};
    case DType::F8E4M3FNUZ: return {8, 3, 8, 0x80, 0x80, false, true};
    case DType::F8E5M2FNUZ: return {8, 2, 16, 0x80, 0x80, false, true};
    case DType::F4E2M1: return {4, 1, 1, 7, 8, false, false};
    case DType::F6E2M3: return {6, 3, 1, 31, 32, false, false};
    case DType::F6E3M2: return {6, 2, 3, 31, 32, false, false};
    default: return {16, 7, 127, 0x7f80, 0x7fc0, true, false};  // bf16
  }
}

constexpr uint32_t kNan = 0x7fc00000, kInfinity = 0x7f800000;

}  // namespace

Id Numbers::to_f32(DType t, Id bits) {
  const auto u = [&](uint32_t v) { return c_.u32(v); };
  const auto op = [&](Op o, Id a, Id b) { return c_.op(o, Reg::U32, {a, b}); };
  const auto as_float = [&](Id v) { return c_.op(Op::Bitcast, Reg::F32, {v}); };
  if (t == DType::BF16) return as_float(op(Op::ShiftLeftLogical, bits, u(16)));
  if (t == DType::F8E8M0) {
    const Id v = c_.select(Reg::U32, c_.test(Op::IEqual, bits, u(0)), u(0x00400000), op(Op::ShiftLeftLogical, bits, u(23)));
    return as_float(c_.select(Reg::U32, c_.test(Op::IEqual, bits, u(255)), u(kNan), v));
  }
  const Format f = format_of(t);
  const Id magnitude = op(Op::BitwiseAnd, bits, u((1u << (f.bits - 1)) - 1));
  const Id sign = op(Op::ShiftLeftLogical, op(Op::BitwiseXor, bits, magnitude), u(32 - f.bits));
  const Id normal = op(Op::IAdd, op(Op::ShiftLeftLogical, magnitude, u(23 - f.mantissa)), u(static_cast<uint32_t>(127 - f.bias) << 23));
  const Id scaled = c_.op(Op::FMul, Reg::F32, {c_.op(Op::ConvertUToF, Reg::F32, {magnitude}), c_.real(Reg::F32, std::ldexp(1, 1 - f.bias - static_cast<int>(f.mantissa)))});
  Id value = c_.select(Reg::U32, c_.test(Op::ULessThan, magnitude, u(1u << f.mantissa)), this->bits(Reg::F32, scaled), normal);
  if (f.infinity) value = c_.select(Reg::U32, c_.test(Op::UGreaterThanEqual, magnitude, u(f.top)), op(Op::BitwiseOr, value, u(kInfinity)), value);
  else if (f.fnuz) value = c_.select(Reg::U32, c_.test(Op::IEqual, bits, u(0x80)), u(kNan), value);
  else if (f.bits == 8) value = c_.select(Reg::U32, c_.test(Op::IEqual, magnitude, u(f.nan)), u(kNan), value);
  return as_float(op(Op::BitwiseOr, value, sign));
}

Id Numbers::from_f32(DType t, Id v) {
  const auto u = [&](uint32_t x) { return c_.u32(x); };
  const auto op = [&](Op o, Id a, Id b) { return c_.op(o, Reg::U32, {a, b}); };
  const auto umin = [&](Id a, uint32_t limit) { return c_.select(Reg::U32, c_.test(Op::ULessThan, a, u(limit)), a, u(limit)); };
  const Id bits = this->bits(Reg::F32, v), magnitude = op(Op::BitwiseAnd, bits, u(0x7fffffff));
  if (t == DType::F8E8M0) {  // the next power of two from the middle on; below the least one the least one
    const Id exponent = umin(op(Op::ShiftRightLogical, op(Op::IAdd, magnitude, u(0x00400000)), u(23)), 255);
    return c_.select(Reg::U32, c_.test(Op::ULessThan, magnitude, u(0x600000)), u(0), exponent);
  }
  const Format f = format_of(t);
  const unsigned drop = 23 - f.mantissa;
  const Id odd = op(Op::BitwiseAnd, op(Op::ShiftRightLogical, magnitude, u(drop)), u(1));
  const uint32_t rebias = static_cast<uint32_t>(f.bias - 127) << 23;
  Id rounded = op(Op::ShiftRightLogical, op(Op::IAdd, op(Op::IAdd, magnitude, u(rebias + (1u << (drop - 1)) - 1)), odd), u(drop));
  if (t != DType::BF16) {  // below the smallest normal number
    const uint32_t magic = static_cast<uint32_t>(127 - f.bias + static_cast<int>(drop) + 1) << 23;
    const Id sum = c_.op(Op::FAdd, Reg::F32, {c_.op(Op::Bitcast, Reg::F32, {magnitude}), c_.real(Reg::F32, std::bit_cast<float>(magic))});
    const Id subnormal = op(Op::ISub, this->bits(Reg::F32, sum), u(magic));
    rounded = c_.select(Reg::U32, c_.test(Op::ULessThan, magnitude, u(static_cast<uint32_t>(128 - f.bias) << 23)), subnormal, rounded);
  }
  rounded = umin(rounded, f.top);
  rounded = c_.select(Reg::U32, c_.test(Op::UGreaterThan, magnitude, u(kInfinity)), u(f.nan), rounded);
  const Id sign = op(Op::ShiftRightLogical, op(Op::BitwiseXor, bits, magnitude), u(32 - f.bits));
  Id result = op(Op::BitwiseOr, rounded, sign);
  if (f.fnuz) result = c_.select(Reg::U32, c_.test(Op::IEqual, rounded, u(0)), u(0), result);
  return op(Op::BitwiseAnd, result, u((1u << f.bits) - 1));
}

// Rounding twice would be wrong near ties, so the first step rounds to odd: the f32 below in magnitude, with its last bit set if
// anything was lost. The second step then sees on which side of a tie the value lies.
Id Numbers::f64_to_small(DType t, Id v) {
  const Id nearest = c_.op(Op::FConvert, Reg::F32, {v}), back = c_.op(Op::FConvert, Reg::F64, {nearest});
  const Id away = c_.test(Op::FOrdGreaterThan, c_.glsl(Glsl::FAbs, Reg::F64, {back}), c_.glsl(Glsl::FAbs, Reg::F64, {v}));
  const auto one_if = [&](Id condition) { return c_.select(Reg::U32, condition, c_.u32(1), c_.u32(0)); };
  const Id lost = c_.negate(c_.test(Op::FOrdEqual, back, v));
  Id bits = c_.op(Op::ISub, Reg::U32, {this->bits(Reg::F32, nearest), one_if(away)});
  bits = c_.op(Op::BitwiseOr, Reg::U32, {bits, one_if(lost)});
  return from_f32(t, c_.op(Op::Bitcast, Reg::F32, {bits}));
}

// From 2^-38 to 2^55: products of two such numbers and what is lost in them are normal numbers.
Id Numbers::is_moderate(Id a) {
  const Id magnitude = c_.op(Op::BitwiseAnd, Reg::U32, {bits(Reg::F32, a), c_.u32(0x7fffffff)});
  return c_.test(Op::ULessThan, c_.op(Op::ISub, Reg::U32, {magnitude, c_.u32(89u << 23)}), c_.u32(93u << 23));
}

// Exact but for the last subtraction: Veltkamp's halves of 12 bits, Dekker's product of them. Fma would be one instruction, but Vulkan
// lets it round twice.
Id Numbers::residual(Id a, Id x, Id y) {
  const auto op = [&](Op o, Id p, Id q) { return c_.op(o, Reg::F32, {p, q}); };
  const auto high = [&](Id v) {
    const Id t = op(Op::FMul, v, c_.real(Reg::F32, 4097));
    return op(Op::FSub, t, op(Op::FSub, t, v));
  };
  const Id product = op(Op::FMul, x, y), xh = high(x), yh = high(y), xl = op(Op::FSub, x, xh), yl = op(Op::FSub, y, yh);
  Id error = op(Op::FSub, op(Op::FMul, xh, yh), product);
  error = op(Op::FAdd, op(Op::FAdd, error, op(Op::FMul, xh, yl)), op(Op::FMul, xl, yh));
  error = op(Op::FAdd, error, op(Op::FMul, xl, yl));
  return op(Op::FSub, op(Op::FSub, a, product), error);
}

// A quotient may be wrong by 2.5 units, which would make integers of floor(6 / 3) and of whatever is quantised wrong: one step of
// Newton on what is left corrects it.
Id Numbers::divide(Reg reg, Id a, Id b) {
  const Id q = c_.op(Op::FDiv, reg, {a, b});
  if (reg != Reg::F32) return q;
  const Id corrected = c_.op(Op::FAdd, reg, {q, c_.op(Op::FDiv, reg, {residual(a, q, b), b})});
  return c_.select(reg, c_.test(Op::LogicalAnd, is_moderate(q), is_moderate(b)), corrected, q);
}

Id Numbers::square_root(Reg reg, Id a) {
  const Id s = c_.glsl(Glsl::Sqrt, reg, {a});
  if (reg != Reg::F32) return s;
  const Id corrected = c_.op(Op::FAdd, reg, {s, c_.op(Op::FDiv, reg, {residual(a, s, s), c_.op(Op::FAdd, reg, {s, s})})});
  return c_.select(reg, is_moderate(s), corrected, s);
}

// fmod on the integers of the operands, exact: the dividend's mantissa modulo the divisor's, doubled once for each power of two between
// their exponents.
Id Numbers::remainder(Reg reg, Id x, Id y) {
  const bool wide = reg == Reg::F64;
  const Reg ints = wide ? Reg::U64 : Reg::U32;
  const unsigned mantissa = wide ? 52 : 23;
  const auto n = [&](uint64_t v) { return c_.integer(ints, v); };
  const auto op = [&](Op o, Id a, Id b) { return c_.op(o, ints, {a, b}); };
  const Id implicit = n(uint64_t{1} << mantissa), infinity = n((wide ? uint64_t{0x7ff} : 0xff) << mantissa);
  const Id xb = bits(reg, x), mask = n(wide ? ~uint64_t{0} >> 1 : 0x7fffffff);
  const Id ax = op(Op::BitwiseAnd, xb, mask), ay = op(Op::BitwiseAnd, bits(reg, y), mask), sign = op(Op::BitwiseXor, xb, ax);
  const Id bad_x = c_.test(Op::UGreaterThanEqual, ax, infinity), bad_y = c_.test(Op::UGreaterThan, ay, infinity);
  const Id invalid = c_.test(Op::LogicalOr, c_.test(Op::LogicalOr, bad_x, bad_y), c_.test(Op::IEqual, ay, n(0)));
  const Body::Variable result = c_.variable(ints, c_.select(ints, invalid, n((wide ? uint64_t{0xfff} : 0x1ff) << (mantissa - 1)), xb));
  const auto exponent_of = [&](Id a) {
    const Id e = op(Op::ShiftRightLogical, a, c_.u32(mantissa));
    return c_.select(ints, c_.test(Op::IEqual, e, n(0)), n(1), e);
  };
  const auto mantissa_of = [&](Id a) {
    const Id m = op(Op::BitwiseOr, op(Op::BitwiseAnd, a, n((uint64_t{1} << mantissa) - 1)), implicit);
    return c_.select(ints, c_.test(Op::ULessThan, a, implicit), a, m);
  };
  const Id larger = c_.test(Op::UGreaterThanEqual, ax, ay);
  c_.if_(c_.test(Op::LogicalAnd, c_.negate(invalid), larger), [&] {
    const Id my = mantissa_of(ay), ey = exponent_of(ay);
    const Body::Variable m = c_.variable(ints, op(Op::UMod, mantissa_of(ax), my)), e = c_.variable(ints, exponent_of(ax));
    const auto decrement = [&] { c_.store(e, op(Op::ISub, c_.load(e), n(1))); };
    c_.loop([&] { return c_.test(Op::UGreaterThan, c_.load(e), ey); },
            [&] {
              const Id twice = op(Op::ShiftLeftLogical, c_.load(m), c_.u32(1));
              c_.store(m, c_.select(ints, c_.test(Op::UGreaterThanEqual, twice, my), op(Op::ISub, twice, my), twice));
            },
            decrement);
    const Id any = c_.test(Op::INotEqual, c_.load(m), n(0));
    c_.if_(any, [&] {
      c_.loop([&] { return c_.test(Op::LogicalAnd, c_.test(Op::ULessThan, c_.load(m), implicit), c_.test(Op::UGreaterThan, c_.load(e), n(1))); },
              [&] { c_.store(m, op(Op::ShiftLeftLogical, c_.load(m), c_.u32(1))); }, decrement);
      const Id exponent = op(Op::ShiftLeftLogical, op(Op::ISub, c_.load(e), n(1)), c_.u32(mantissa));
      c_.store(result, op(Op::BitwiseOr, sign, op(Op::IAdd, c_.load(m), exponent)));
    }, [&] { c_.store(result, sign); });
  });
  return c_.op(Op::Bitcast, reg, {c_.load(result)});
}

}  // namespace mlc::targets::spirv
