// f16, bf16 and the floats of 8, 6 and 4 bits in plain integer arithmetic: the same rules as the code that compiled kernels contain
// (decode: move the bits and scale by a power of two; encode: add half a unit, ties to even; subnormals by an addition).
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace mlc {

struct SmallFormat {
  unsigned bits, mantissa;
  int bias;
  uint32_t top, nan;
  bool infinity, fnuz;
};
constexpr SmallFormat small_format(DType t) {
  switch (t) {
    case DType::F16: return {16, 10, 15, 0x7c00, 0x7e00, true, false};
    case DType::BF16: return {16, 7, 127, 0x7f80, 0x7fc0, true, false};
    case DType::F8E4M3: return {8, 3, 7, 0x7f, 0x7f, false, false};
    case DType::F8E5M2: return {8, 2, 15, 0x7c, 0x7e, true, false};
    case DType::F8E4M3FNUZ: return {8, 3, 8, 0x80, 0x80, false, true};
    case DType::F4E2M1: return {4, 1, 1, 7, 8, false, false};  // no NaN: -0 stands for it, as in those of 6 bits
    case DType::F6E2M3: return {6, 3, 1, 31, 32, false, false};
    case DType::F6E3M2: return {6, 2, 3, 31, 32, false, false};
    case DType::F8E8M0: return {8, 0, 127, 255, 255, false, false};
    default: return {8, 2, 16, 0x80, 0x80, false, true};
  }
}
constexpr bool is_small_float(DType t) { return is_float(t) && t != DType::F32 && t != DType::F64; }

template <DType T>
inline float decode_small(uint32_t bits) {
  constexpr SmallFormat f = small_format(T);
  if constexpr (T == DType::BF16) return std::bit_cast<float>(bits << 16);
  if constexpr (T == DType::F8E8M0)
    return std::bit_cast<float>(bits == 0 ? 0x00400000u : bits == 255 ? 0x7fc00000u : bits << 23);
  const uint32_t magnitude = bits & ((1u << (f.bits - 1)) - 1);
  const uint32_t sign = (bits ^ magnitude) << (32 - f.bits);
  constexpr float scale = std::bit_cast<float>(static_cast<uint32_t>(254 - f.bias) << 23);
  uint32_t v = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << (23 - f.mantissa)) * scale);
  if constexpr (f.infinity) v = magnitude >= f.top ? v | 0x7f800000u : v;
  else if constexpr (f.fnuz) v = bits == 0x80 ? 0x7fc00000u : v;
  else v = magnitude == f.nan ? 0x7fc00000u : v;
  return std::bit_cast<float>(v | sign);
}

// Of any such type; `t` is one (is_small_float).
inline float decode_small(DType t, uint32_t bits) {
  switch (t) {
    case DType::F16: return decode_small<DType::F16>(bits);
    case DType::BF16: return decode_small<DType::BF16>(bits);
    case DType::F8E4M3: return decode_small<DType::F8E4M3>(bits);
    case DType::F8E5M2: return decode_small<DType::F8E5M2>(bits);
    case DType::F8E4M3FNUZ: return decode_small<DType::F8E4M3FNUZ>(bits);
    case DType::F4E2M1: return decode_small<DType::F4E2M1>(bits);
    case DType::F6E2M3: return decode_small<DType::F6E2M3>(bits);
    case DType::F6E3M2: return decode_small<DType::F6E3M2>(bits);
    case DType::F8E8M0: return decode_small<DType::F8E8M0>(bits);
    default: return decode_small<DType::F8E5M2FNUZ>(bits);
  }
}

template <DType T>
inline uint32_t encode_small(float value) {
  constexpr SmallFormat f = small_format(T);
  constexpr unsigned drop = 23 - f.mantissa;
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  if constexpr (T == DType::F8E8M0) {  // a tie goes up, the least is 2^-127, which is subnormal in an f32
    const uint32_t exponent = (magnitude + 0x400000) >> 23;
    return magnitude < 0x600000 ? 0 : exponent < 255 ? exponent : 255;
  }
  const uint32_t odd = magnitude >> drop & 1;
  uint32_t r = (magnitude + (static_cast<uint32_t>(f.bias - 127) << 23) + (1u << (drop - 1)) - 1 + odd) >> drop;
  if constexpr (T != DType::BF16) {
    constexpr uint32_t magic = static_cast<uint32_t>(127 - f.bias + static_cast<int>(drop) + 1) << 23;
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(magic)) - magic;
    r = magnitude < static_cast<uint32_t>(128 - f.bias) << 23 ? subnormal : r;
  }
  r = r < f.top ? r : f.top;
  r = magnitude > 0x7f800000u ? f.nan : r;
  const uint32_t sign = (bits ^ magnitude) >> (32 - f.bits);
  if constexpr (f.fnuz) return r == 0 ? 0 : r | sign;
  return r | sign;
}

}  // namespace mlc
