// What operations of PTX compute, on the bits of their operands: zero-extended, as wide as their type.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace mlc::testing::ptx {

// A type as it is written: 'u', 's', 'b' or 'f' and bits; predicates are 'b' of one bit; 'h' is f16, 'B' is bf16, 'p' and 'P' are pairs of these.
struct ValueType {
  char kind = 'b';
  unsigned bits = 32;
  static ValueType of(std::string_view name) {
    if (name == "pred") return {'b', 1};
    if (name == "f16" || name == "bf16") return {name[0] == 'f' ? 'h' : 'B', 16};
    if (name == "f16x2" || name == "bf16x2") return {name[0] == 'f' ? 'p' : 'P', 32};
    return {name[0], name == "u8" || name == "s8" || name == "b8" ? 8u : name.ends_with("16") ? 16u : name.ends_with("32") ? 32u : 64u};
  }
  bool is_float() const { return kind == 'f'; }
  bool is_signed() const { return kind == 's'; }
};

inline uint64_t low_bits(uint64_t v, unsigned bits) { return bits >= 64 ? v : v & ((uint64_t{1} << bits) - 1); }
inline int64_t sign_extended(uint64_t v, unsigned bits) { return bits >= 64 ? int64_t(v) : int64_t(v << (64 - bits)) >> (64 - bits); }
inline float as_f32(uint64_t v) { return std::bit_cast<float>(uint32_t(v)); }
inline double as_f64(uint64_t v) { return std::bit_cast<double>(v); }
// Results that are not a number are one of a kind.
inline uint64_t bits_of(float v) { return std::isnan(v) ? 0x7fffffffu : std::bit_cast<uint32_t>(v); }
inline uint64_t bits_of(double v) { return std::bit_cast<uint64_t>(v); }

// --- integers ---
inline uint64_t high_product(uint64_t a, uint64_t b, ValueType t) {
  const __int128 product = t.is_signed() ? __int128(sign_extended(a, t.bits)) * sign_extended(b, t.bits) : __int128((unsigned __int128)(a) * b);
  return low_bits(uint64_t(product >> t.bits), t.bits);
}
inline uint64_t wide_product(uint64_t a, uint64_t b, ValueType t) {
  return low_bits(t.is_signed() ? uint64_t(sign_extended(a, t.bits) * sign_extended(b, t.bits)) : a * b, 2 * t.bits);
}
// False where the manual leaves the result open.
inline bool quotient(uint64_t a, uint64_t b, ValueType t, bool remainder, uint64_t& out) {
  if (b == 0) return false;
  if (!t.is_signed()) return out = remainder ? a % b : a / b, true;
  const int64_t x = sign_extended(a, t.bits), y = sign_extended(b, t.bits);
  if (y == -1 && low_bits(a, t.bits) == uint64_t{1} << (t.bits - 1)) return false;
  out = low_bits(uint64_t(remainder ? x % y : x / y), t.bits);
  return true;
}
inline uint64_t field_of(uint64_t a, uint64_t from, uint64_t length, ValueType t) {
  const unsigned position = from & 255, len = length & 255, last = t.bits - 1;
  const uint64_t fill = t.is_signed() && len > 0 ? a >> std::min(position + len - 1, last) & 1 : 0;
  uint64_t d = 0;
  for (unsigned k = 0; k <= last; ++k) d |= (k < len && position + k <= last ? a >> (position + k) & 1 : fill) << k;
  return d;
}
inline uint64_t with_field(uint64_t a, uint64_t into, uint64_t from, uint64_t length, ValueType t) {
  const unsigned position = from & 255, len = length & 255;
  for (unsigned k = 0; k < len && position + k < t.bits; ++k)
    into = (into & ~(uint64_t{1} << (position + k))) | (a >> k & 1) << (position + k);
  return into;
}
inline uint64_t dot_of_codes(uint64_t a, uint64_t b, bool a_signed, bool b_signed) {
  const auto code = [](uint64_t v, unsigned k, bool has_sign) { return has_sign ? int64_t{int8_t(v >> 8 * k)} : int64_t{uint8_t(v >> 8 * k)}; };
  int64_t sum = 0;
  for (unsigned k = 0; k < 4; ++k) sum += code(a, k, a_signed) * code(b, k, b_signed);
  return uint64_t(sum);
}
inline uint64_t permuted(uint64_t a, uint64_t b, uint64_t selector) {
  const uint64_t bytes = low_bits(a, 32) | b << 32;
  uint64_t d = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const unsigned pick = selector >> (4 * k) & 15;
    uint64_t byte = bytes >> (8 * (pick & 7)) & 255;
    if (pick & 8) byte = byte >> 7 ? 255 : 0;
    d |= byte << (8 * k);
  }
  return d;
}
// Amounts above the width count as the width.
inline uint64_t shifted(bool left, uint64_t a, uint64_t amount, ValueType t) {
  const bool all = low_bits(amount, 32) >= t.bits;
  if (left) return all ? 0 : low_bits(a << amount, t.bits);
  if (!t.is_signed()) return all ? 0 : a >> amount;
  return low_bits(uint64_t(sign_extended(a, t.bits) >> (all ? 63 : amount)), t.bits);
}
inline uint64_t funnel(bool left, uint64_t low, uint64_t high, uint64_t amount) {
  const uint64_t both = high << 32 | low;
  const unsigned n = amount & 31;
  return low_bits(left ? (both << n) >> 32 : both >> n, 32);
}
inline uint64_t smaller(bool is_min, uint64_t a, uint64_t b, ValueType t) {
  const bool less = t.is_signed() ? sign_extended(a, t.bits) < sign_extended(b, t.bits) : a < b;
  return less == is_min ? a : b;
}

// --- floats ---
template <class F>
F smaller_float(bool is_min, bool keep_nan, F a, F b) {
  if (std::isnan(a) || std::isnan(b)) return keep_nan || (std::isnan(a) && std::isnan(b)) ? F(NAN) : std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) == is_min ? a : b;  // -0 is below 0
  return (a < b) == is_min ? a : b;
}
template <class F>
F rounded(F a, std::string_view how) {
  return how == "rni" ? std::nearbyint(a) : how == "rzi" ? std::trunc(a) : how == "rmi" ? std::floor(a) : std::ceil(a);
}
template <class F>
bool compared(std::string_view how, F a, F b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  if (how == "num") return !unordered;
  if (how == "nan") return unordered;
  if (how.size() == 3 && unordered) return true;  // "ltu"
  if (unordered) return false;
  const std::string_view relation = how.substr(0, 2);
  return relation == "eq" ? a == b : relation == "ne" ? a != b : relation == "lt" ? a < b : relation == "le" ? a <= b : relation == "gt" ? a > b : a >= b;
}
inline bool compared_int(std::string_view how, uint64_t a, uint64_t b, ValueType t) {
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  const bool less = t.is_signed() ? sign_extended(a, t.bits) < sign_extended(b, t.bits) : a < b;
  if (how == "lt" || how == "lo") return less;
  if (how == "ge" || how == "hs") return !less;
  return how == "le" || how == "ls" ? less || a == b : !(less || a == b);
}

// Truncated, and clamped to the type; not a number: 0, of 64 bits or from f64 the highest bit alone.
inline uint64_t to_integer(double v, ValueType from, ValueType to) {
  if (std::isnan(v)) return from.bits == 64 || to.bits == 64 ? uint64_t{1} << (to.bits - 1) : 0;
  v = std::trunc(v);
  const double low = to.is_signed() ? -std::ldexp(1.0, int(to.bits) - 1) : 0, above = std::ldexp(1.0, int(to.bits) - to.is_signed());
  if (v < low) return to.is_signed() ? uint64_t{1} << (to.bits - 1) : 0;
  if (v >= above) return low_bits(~uint64_t{0}, to.bits - to.is_signed());
  return low_bits(to.is_signed() ? uint64_t(int64_t(v)) : uint64_t(v), to.bits);
}
// Numbers of 16 bits, by what their bits mean: not a number is one of a kind.
inline float as_small(uint64_t v, bool is_bf16) {
  if (is_bf16) return std::bit_cast<float>(uint32_t(v) << 16);
  const int exponent = int(v >> 10 & 31), mantissa = int(v & 1023);
  const double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return float(v >> 15 & 1 ? -magnitude : magnitude);
}
// To nearest, ties to even: in units of the last place that the result has at this magnitude.
inline uint64_t small_of(float v, bool is_bf16) {
  if (std::isnan(v)) return 0x7fff;
  const int mantissa = is_bf16 ? 7 : 10, least = is_bf16 ? -126 : -14, most = is_bf16 ? 127 : 15, bias = most;
  const uint64_t sign = std::signbit(v) ? 0x8000 : 0, infinity = uint64_t(2 * most + 1) << mantissa;
  const double magnitude = std::fabs(double(v));
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  const int exponent = std::max(std::ilogb(magnitude), least);
  const auto units = uint64_t(std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  // A unit more than fits in the mantissa carries into the exponent.
  const uint64_t bits = units + (uint64_t(exponent + bias - 1) << mantissa);
  return sign | std::min(bits, infinity);
}
// tf32 has 11 binary digits; ties go away from zero.
inline float nearest_tf32(float v) {
  if (v == 0 || !std::isfinite(v)) return v;
  int exponent = 0;
  const double digits = std::frexp(double(v), &exponent);
  const int step = std::max(exponent, -125) - 11;
  return float(std::ldexp(std::round(std::ldexp(digits, exponent - step)), step));
}
inline uint64_t converted(uint64_t a, ValueType from, ValueType to, std::string_view how) {
  if (from.kind == 'h') return bits_of(as_small(a, false));
  if (to.kind == 't') return bits_of(nearest_tf32(as_f32(a)));
  if (to.kind == 'h' || to.kind == 'B') return small_of(as_f32(a), to.kind == 'B');
  if (from.is_float()) {
    const double v = from.bits == 32 ? as_f32(a) : as_f64(a);
    if (!to.is_float()) return to_integer(v, from, to);
    if (from.bits != to.bits) return to.bits == 32 ? bits_of(float(v)) : bits_of(v);
    return to.bits == 32 ? bits_of(rounded(as_f32(a), how)) : bits_of(rounded(v, how));
  }
  const uint64_t low = low_bits(a, from.bits);
  if (!to.is_float()) return from.is_signed() ? uint64_t(sign_extended(low, from.bits)) : low;  // the caller cuts it
  if (from.is_signed()) return to.bits == 32 ? bits_of(float(sign_extended(low, from.bits))) : bits_of(double(sign_extended(low, from.bits)));
  return to.bits == 32 ? bits_of(float(low)) : bits_of(double(low));
}

}  // namespace mlc::testing::ptx
