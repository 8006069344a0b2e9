#include "packager/ir/numeric.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mlc::ir {
namespace {

// A small floating-point format: bits of exponent and mantissa, bias, and what its highest codes mean.
struct Format {
  int exponent, mantissa, bias;
  // NanOnly: all ones is NaN, no infinity; Fnuz: NaN is the code of -0; Finite: neither, overflow gives the largest
  // number and NaN gives -0.
  enum { Ieee, NanOnly, Fnuz, Finite } special;
};
constexpr Format format_of(DType t) {
  switch (t) {
    case DType::F16: return {5, 10, 15, Format::Ieee};
    case DType::BF16: return {8, 7, 127, Format::Ieee};
    case DType::F8E5M2: return {5, 2, 15, Format::Ieee};
    case DType::F8E4M3: return {4, 3, 7, Format::NanOnly};
    case DType::F8E4M3FNUZ: return {4, 3, 8, Format::Fnuz};
    case DType::F8E5M2FNUZ: return {5, 2, 16, Format::Fnuz};
    case DType::F4E2M1: return {2, 1, 1, Format::Finite};
    case DType::F6E2M3: return {2, 3, 1, Format::Finite};
    case DType::F6E3M2: return {3, 2, 3, Format::Finite};
    default: return {8, 23, 127, Format::Ieee};
  }
}

float decode(Format f, uint32_t bits) {
  uint32_t sign = bits >> (f.exponent + f.mantissa) & 1;
  uint32_t e = bits >> f.mantissa & ((1u << f.exponent) - 1), m = bits & ((1u << f.mantissa) - 1);
  uint32_t top = (1u << f.exponent) - 1;
  float value;
  if (f.special == Format::Fnuz && sign && e == 0 && m == 0) return std::numeric_limits<float>::quiet_NaN();
  if (f.special == Format::Ieee && e == top)
    value = m ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else if (f.special == Format::NanOnly && e == top && m == (1u << f.mantissa) - 1)
    value = std::numeric_limits<float>::quiet_NaN();
  else if (e == 0)
    value = std::ldexp(static_cast<float>(m), 1 - f.bias - f.mantissa);
  else
    value = std::ldexp(static_cast<float>(m | 1u << f.mantissa), static_cast<int>(e) - f.bias - f.mantissa);
  return sign ? -value : value;
}

// Exact for any double input: the only rounding is the one to the format.
uint32_t encode(Format f, double value) {
  uint32_t top = (1u << f.exponent) - 1, ones = (1u << f.mantissa) - 1;
  uint32_t sign = std::signbit(value) ? 1u << (f.exponent + f.mantissa) : 0;
  uint32_t nan = f.special == Format::Ieee ? sign | top << f.mantissa | 1u << (f.mantissa - 1)
                 : f.special == Format::NanOnly ? sign | top << f.mantissa | ones
                                                : 1u << (f.exponent + f.mantissa);
  if (std::isnan(value)) return nan;
  double a = std::fabs(value);
  uint32_t overflow = f.special == Format::Ieee     ? sign | top << f.mantissa
                      : f.special == Format::Finite ? sign | top << f.mantissa | ones
                                                    : nan;
  if (std::isinf(a)) return overflow;
  if (a == 0) return f.special == Format::Fnuz ? 0 : sign;
  int e = std::max(std::ilogb(a), 1 - f.bias);
  double scaled = std::nearbyint(std::ldexp(a, f.mantissa - e));  // exact scaling, ties to even
  uint64_t m = static_cast<uint64_t>(scaled);
  if (m >> (f.mantissa + 1)) { m >>= 1; ++e; }
  if (m == 0) return f.special == Format::Fnuz ? 0 : sign;
  uint64_t code = m >> f.mantissa ? (static_cast<uint64_t>(e + f.bias) << f.mantissa) + (m & ones) : m;
  uint64_t highest = f.special == Format::Ieee      ? (static_cast<uint64_t>(top) << f.mantissa) - 1
                     : f.special == Format::NanOnly ? (static_cast<uint64_t>(top) << f.mantissa | ones) - 1
                                                    : (static_cast<uint64_t>(top) << f.mantissa | ones);
  return code > highest ? overflow : sign | static_cast<uint32_t>(code);
}

// The exponent of an f32 alone: powers of two from 2^-127 on, 255 is NaN. The sign is ignored (ONNX leaves it open), a
// tie goes up, zero becomes the least and overflow NaN.
float decode_e8m0(uint32_t bits) {
  return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(bits) - 127);
}
uint32_t encode_e8m0(double value) {
  const double a = std::fabs(value);
  if (!(a < 0x1.8p127)) return 255;  // NaN as well
  if (a < 0x1.8p-127) return 0;
  const int e = std::ilogb(a);
  return static_cast<uint32_t>(e + 127 + (a >= std::ldexp(1.5, e)));
}

// Of the types of 8 bits and less.
uint8_t tiny_bits(DType t, double value) {
  return static_cast<uint8_t>(t == DType::F8E8M0 ? encode_e8m0(value) : encode(format_of(t), value));
}

}  // namespace

uint16_t f16_bits(float value) {
#ifdef __FLT16_MANT_DIG__
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
#else
  return static_cast<uint16_t>(encode(format_of(DType::F16), value));
#endif
}
float f16_value(uint16_t bits) {
#ifdef __FLT16_MANT_DIG__
  return static_cast<float>(std::bit_cast<_Float16>(bits));
#else
  return decode(format_of(DType::F16), bits);
#endif
}
uint16_t bf16_bits(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
float bf16_value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
float tf32_value(float value) {
  if (std::isnan(value)) return value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000) & 0xffffe000);
}
uint8_t f8_bits(DType type, float value) { return tiny_bits(type, value); }
float f8_value(DType type, uint8_t bits) {
  return type == DType::F8E8M0 ? decode_e8m0(bits) : decode(format_of(type), bits);
}

double round_to(DType type, double value) {
  // Nearly all halves come from operations in float: what is exact there is rounded once, without the general form.
  if (type == DType::F16 && static_cast<float>(value) == value) return f16_value(f16_bits(static_cast<float>(value)));
  switch (type) {
    case DType::F64: return value;
    case DType::F32: return static_cast<float>(value);
    case DType::F16: case DType::BF16: case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ: case DType::F6E2M3: case DType::F6E3M2: case DType::F4E2M1: return decode(format_of(type), encode(format_of(type), value));
    case DType::F8E8M0: return decode_e8m0(encode_e8m0(value));
    default: return value;
  }
}

int64_t wrap_to(DType type, int64_t v) {
  switch (type) {
    case DType::I32: return static_cast<int32_t>(v);
    case DType::I16: return static_cast<int16_t>(v);
    case DType::I8: return static_cast<int8_t>(v);
    case DType::I4: return static_cast<int64_t>(static_cast<uint64_t>(v) << 60) >> 60;
    case DType::U32: return static_cast<uint32_t>(v);
    case DType::U16: return static_cast<uint16_t>(v);
    case DType::U8: return static_cast<uint8_t>(v);
    case DType::U4: return v & 15;
    case DType::I2: return static_cast<int64_t>(static_cast<uint64_t>(v) << 62) >> 62;
    case DType::U2: return v & 3;
    case DType::Bool: return v != 0;
    default: return v;
  }
}

int64_t lowest_int(DType type) {
  if (!is_signed_int(type)) return 0;
  return INT64_MIN >> (64 - bits_of(type));
}
int64_t highest_int(DType type) {
  if (type == DType::Bool) return 1;
  if (is_signed_int(type)) return INT64_MAX >> (64 - bits_of(type));
  return static_cast<int64_t>(UINT64_MAX >> (64 - bits_of(type)));
}
double lowest_finite(DType type) {
  switch (type) {
    case DType::F64: return std::numeric_limits<double>::lowest();
    case DType::F32: return std::numeric_limits<float>::lowest();
    case DType::F16: return -65504;
    case DType::BF16: return bf16_value(0xff7f);
    case DType::F8E4M3: return -448;
    case DType::F8E5M2: return -57344;
    case DType::F8E4M3FNUZ: return -240;
    case DType::F8E5M2FNUZ: return -57344;
    case DType::F4E2M1: return -6;
    case DType::F6E2M3: return -7.5;
    case DType::F6E3M2: return -28;
    case DType::F8E8M0: return 0x1p-127;
    default: return 0;
  }
}
double highest_finite(DType type) { return type == DType::F8E8M0 ? 0x1p127 : -lowest_finite(type); }

namespace {

uint64_t u(int64_t v) { return static_cast<uint64_t>(v); }
int64_t s(uint64_t v) { return static_cast<int64_t>(v); }

double real_of(DType t, Scalar a) {
  if (is_float(t)) return a.f;
  return t == DType::U64 ? static_cast<double>(u(a.i)) : static_cast<double>(a.i);
}

// Float to integer without undefined behaviour: truncated, out of range clamped, NaN zero (Cast leaves both open).
int64_t clamp_to_int(DType to, double v) {
  if (std::isnan(v)) return 0;
  v = std::trunc(v);
  if (to == DType::U64) {
    if (v <= 0) return 0;
    return v >= 18446744073709551616.0 ? -1 : s(static_cast<uint64_t>(v));
  }
  double lo = static_cast<double>(lowest_int(to)), hi = static_cast<double>(highest_int(to));
  if (v <= lo) return lowest_int(to);
  return v >= hi ? highest_int(to) : static_cast<int64_t>(v);
}

// Converts a float result; f32 arithmetic happens in float, so the caller computed it there.
Scalar real(DType type, double v) { return {0, round_to(type, v)}; }

template <class F>
F unary_math(Op op, F a) {
  switch (op) {
    case Op::Neg: return -a;
    case Op::Abs: return std::fabs(a);
    case Op::Floor: return std::floor(a);
    case Op::Ceil: return std::ceil(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Rint: return std::nearbyint(a);
    case Op::Sqrt: return std::sqrt(a);
    case Op::Exp: return std::exp(a);
    case Op::Log: return std::log(a);
    case Op::Sin: return std::sin(a);
    case Op::Cos: return std::cos(a);
    case Op::Tan: return std::tan(a);
    case Op::Asin: return std::asin(a);
    case Op::Acos: return std::acos(a);
    case Op::Atan: return std::atan(a);
    case Op::Sinh: return std::sinh(a);
    case Op::Cosh: return std::cosh(a);
    case Op::Tanh: return std::tanh(a);
    case Op::Asinh: return std::asinh(a);
    case Op::Acosh: return std::acosh(a);
    case Op::Atanh: return std::atanh(a);
    case Op::Erf: return std::erf(a);
    case Op::Tf32: return static_cast<F>(tf32_value(static_cast<float>(a)));
    case Op::Exp2: return a < -126 ? F(0) : std::exp2(a);
    default: return a;
  }
}

template <class F>
F binary_math(Op op, F a, F b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::FloorDiv: return std::floor(a / b);
    case Op::FloorMod: return a - b * std::floor(a / b);
    case Op::TruncDiv: return std::trunc(a / b);
    case Op::TruncMod: return std::fmod(a, b);
    case Op::Min: return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b;
    case Op::Max: return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
    case Op::Pow: return std::pow(a, b);
    default: return a;
  }
}

int64_t int_pow(int64_t a, int64_t b, bool is_unsigned) {
  if (!is_unsigned && b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t r = 1, base = u(a);
  for (uint64_t e = u(b); e; e >>= 1, base *= base)
    if (e & 1) r *= base;
  return s(r);
}

}  // namespace

Scalar apply_unary(Op op, DType from, DType to, Scalar a) {
  switch (op) {
    case Op::Cast:
      if (to == DType::Bool) return {real_of(from, a) != 0, 0};
      if (is_float(to)) return real(to, real_of(from, a));
      return is_float(from) ? Scalar{wrap_to(to, clamp_to_int(DType::I64, a.f)), 0} : Scalar{wrap_to(to, a.i), 0};
    case Op::SatCast:
      if (is_float(to)) return real(to, real_of(from, a));
      if (is_float(from)) return {clamp_to_int(to, a.f), 0};
      if (from == DType::U64) {
        uint64_t hi = u(highest_int(to));
        return {s(std::min(u(a.i), hi)), 0};
      }
      if (to == DType::U64) return {std::max<int64_t>(a.i, 0), 0};
      return {std::clamp(a.i, lowest_int(to), highest_int(to)), 0};
    case Op::Bitcast: {
      std::byte bytes[8] = {};
      store_element(from, bytes, 0, a);
      if (bits_of(to) < 8) bytes[0] &= static_cast<std::byte>((1u << bits_of(to)) - 1);  // of an integer the sign is extended there
      const Scalar r = load_element(to, bytes, 0);
      return is_float(to) ? r : Scalar{wrap_to(to, r.i), 0};
    }
    case Op::Not: return {a.i == 0, 0};
    case Op::BitNot: return {wrap_to(from, ~a.i), 0};
    case Op::IsNan: return {std::isnan(a.f), 0};
    case Op::IsInf: return {std::isinf(a.f), 0};
    default: break;
  }
  if (is_float(from)) {
    if (from == DType::F64) return {0, unary_math(op, a.f)};
    return real(from, unary_math(op, static_cast<float>(a.f)));
  }
  switch (op) {
    case Op::Neg: return {wrap_to(from, s(0 - u(a.i))), 0};
    case Op::Abs: return {is_signed_int(from) && a.i < 0 ? wrap_to(from, s(0 - u(a.i))) : a.i, 0};
    default: return a;  // floor, ceil, ... of an integer
  }
}

Scalar apply_binary(Op op, DType type, Scalar a, Scalar b) {
  if (is_float(type)) {
    switch (op) {
      case Op::Lt: return {a.f < b.f, 0};
      case Op::Le: return {a.f <= b.f, 0};
      case Op::Eq: return {a.f == b.f, 0};
      case Op::Ne: return {a.f != b.f, 0};
      default: break;
    }
    if (type == DType::F64) return {0, binary_math(op, a.f, b.f)};
    return real(type, binary_math(op, static_cast<float>(a.f), static_cast<float>(b.f)));
  }
  bool uns = !is_signed_int(type);
  unsigned bits = std::max(1u, bits_of(type));
  auto less = [&](int64_t x, int64_t y) { return uns ? u(x) < u(y) : x < y; };
  int64_t r = 0;
  switch (op) {
    case Op::Add: r = s(u(a.i) + u(b.i)); break;
    case Op::Sub: r = s(u(a.i) - u(b.i)); break;
    case Op::Mul: r = s(u(a.i) * u(b.i)); break;
    case Op::FloorDiv: case Op::TruncDiv: case Op::FloorMod: case Op::TruncMod: {
      bool div = op == Op::FloorDiv || op == Op::TruncDiv, floor = op == Op::FloorDiv || op == Op::FloorMod;
      if (b.i == 0) { r = 0; break; }
      if (uns) { r = div ? s(u(a.i) / u(b.i)) : s(u(a.i) % u(b.i)); break; }
      if (b.i == -1) { r = div ? s(0 - u(a.i)) : 0; break; }
      int64_t q = a.i / b.i, m = a.i % b.i;
      bool adjust = floor && m != 0 && (m < 0) != (b.i < 0);
      r = div ? q - adjust : m + (adjust ? b.i : 0);
      break;
    }
    case Op::Min: r = less(b.i, a.i) ? b.i : a.i; break;
    case Op::Max: r = less(a.i, b.i) ? b.i : a.i; break;
    case Op::Pow: r = int_pow(a.i, b.i, uns); break;
    case Op::And: return {a.i && b.i, 0};
    case Op::Or: return {a.i || b.i, 0};
    case Op::BitAnd: r = a.i & b.i; break;
    case Op::BitOr: r = a.i | b.i; break;
    case Op::BitXor: r = a.i ^ b.i; break;
    case Op::Shl: r = u(b.i) >= bits ? 0 : s(u(a.i) << b.i); break;
    case Op::Shr:
      if (u(b.i) >= bits) r = !uns && a.i < 0 ? -1 : 0;
      else r = uns ? s(u(a.i) >> b.i) : a.i >> b.i;
      break;
    case Op::Lt: return {less(a.i, b.i), 0};
    case Op::Le: return {!less(b.i, a.i), 0};
    case Op::Eq: return {a.i == b.i, 0};
    case Op::Ne: return {a.i != b.i, 0};
    default: break;
  }
  return {wrap_to(type, r), 0};
}

namespace {
template <class T>
T at(const void* data, uint64_t index) {
  T v;
  std::memcpy(&v, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return v;
}
template <class T>
void put(void* data, uint64_t index, T v) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &v, sizeof(T));
}
}  // namespace

Scalar load_element(DType type, const void* data, uint64_t index) {
  switch (type) {
    case DType::F64: return {0, at<double>(data, index)};
    case DType::F32: return {0, at<float>(data, index)};
    case DType::F16: return {0, f16_value(at<uint16_t>(data, index))};
    case DType::BF16: return {0, bf16_value(at<uint16_t>(data, index))};
    case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ:
    case DType::F8E8M0: case DType::F6E2M3: case DType::F6E3M2: case DType::F4E2M1:
      return {0, f8_value(type, at<uint8_t>(data, index))};
    case DType::I64: case DType::U64: return {at<int64_t>(data, index), 0};
    case DType::I32: return {at<int32_t>(data, index), 0};
    case DType::U32: return {at<uint32_t>(data, index), 0};
    case DType::I16: return {at<int16_t>(data, index), 0};
    case DType::U16: return {at<uint16_t>(data, index), 0};
    case DType::I8: case DType::I4: case DType::I2: return {at<int8_t>(data, index), 0};
    case DType::U8: case DType::U4: case DType::U2: return {at<uint8_t>(data, index), 0};
    case DType::Bool: return {at<uint8_t>(data, index) != 0, 0};
    case DType::None: case DType::Str: break;
  }
  return {};
}

void store_element(DType type, void* data, uint64_t index, Scalar v) {
  switch (type) {
    case DType::F64: return put(data, index, v.f);
    case DType::F32: return put(data, index, static_cast<float>(v.f));
    case DType::F16:
      if (static_cast<float>(v.f) == v.f) return put(data, index, f16_bits(static_cast<float>(v.f)));
      return put(data, index, static_cast<uint16_t>(encode(format_of(type), v.f)));
    case DType::BF16: return put(data, index, static_cast<uint16_t>(encode(format_of(type), v.f)));
    case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ:
    case DType::F8E8M0: case DType::F6E2M3: case DType::F6E3M2: case DType::F4E2M1:
      return put(data, index, tiny_bits(type, v.f));
    case DType::I64: case DType::U64: return put(data, index, v.i);
    case DType::I32: case DType::U32: return put(data, index, static_cast<uint32_t>(v.i));
    case DType::I16: case DType::U16: return put(data, index, static_cast<uint16_t>(v.i));
    case DType::I8: case DType::I4: case DType::I2: case DType::U8: case DType::U4: case DType::U2:
      return put(data, index, static_cast<uint8_t>(v.i));
    case DType::Bool: return put(data, index, static_cast<uint8_t>(v.i != 0));
    case DType::None: case DType::Str: return;
  }
}

}  // namespace mlc::ir
