// Element types. The numbers are part of the container, plan and module formats: never reused, never renumbered.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mlc {

enum class DType : uint8_t {
  None = 0,
  F64 = 1, F32 = 2, F16 = 3, BF16 = 4, F8E4M3 = 5, F8E5M2 = 6,
  I64 = 7, I32 = 8, I16 = 9, I8 = 10, I4 = 11,
  U64 = 12, U32 = 13, U16 = 14, U8 = 15, U4 = 16,
  Bool = 17,  // one byte, 0 or 1
  Str = 18,   // host side only so far
  F8E4M3FNUZ = 19, F8E5M2FNUZ = 20,
  F4E2M1 = 21, F8E8M0 = 22,  // E8M0: a power of two, 2^-127 to 2^127, and one not-a-number; no sign, no zero
  U2 = 23, I2 = 24,
  F6E2M3 = 25, F6E3M2 = 26,
};

inline constexpr DType kLastDType = DType::F6E3M2;

// Bits of one element in memory (Str: 0, it has no fixed size).
constexpr unsigned bits_of(DType t) {
  switch (t) {
    case DType::F64: case DType::I64: case DType::U64: return 64;
    case DType::F32: case DType::I32: case DType::U32: return 32;
    case DType::F16: case DType::BF16: case DType::I16: case DType::U16: return 16;
    case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ:
    case DType::F8E8M0: case DType::I8: case DType::U8: case DType::Bool: return 8;
    case DType::F6E2M3: case DType::F6E3M2: return 6;
    case DType::I4: case DType::U4: case DType::F4E2M1: return 4;
    case DType::U2: case DType::I2: return 2;
    case DType::None: case DType::Str: return 0;
  }
  return 0;
}
// Bytes of one element in an unpacked array (types of 6, 4 and 2 bits take a byte each there).
constexpr unsigned bytes_of(DType t) { return (bits_of(t) + 7) / 8; }

constexpr bool is_float(DType t) {
  return (t >= DType::F64 && t <= DType::F8E5M2) || (t >= DType::F8E4M3FNUZ && t <= DType::F8E8M0) ||
         t == DType::F6E2M3 || t == DType::F6E3M2;
}
constexpr bool is_signed_int(DType t) { return (t >= DType::I64 && t <= DType::I4) || t == DType::I2; }
constexpr bool is_unsigned_int(DType t) { return (t >= DType::U64 && t <= DType::U4) || t == DType::U2; }
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

// The name used in texts and messages: "f32", "i64", "bool", ...
constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::None: return "none";
    case DType::F64: return "f64"; case DType::F32: return "f32"; case DType::F16: return "f16";
    case DType::BF16: return "bf16"; case DType::F8E4M3: return "f8e4m3"; case DType::F8E5M2: return "f8e5m2";
    case DType::I64: return "i64"; case DType::I32: return "i32"; case DType::I16: return "i16";
    case DType::I8: return "i8"; case DType::I4: return "i4";
    case DType::U64: return "u64"; case DType::U32: return "u32"; case DType::U16: return "u16";
    case DType::U8: return "u8"; case DType::U4: return "u4";
    case DType::Bool: return "bool"; case DType::Str: return "str";
    case DType::F8E4M3FNUZ: return "f8e4m3fnuz"; case DType::F8E5M2FNUZ: return "f8e5m2fnuz";
    case DType::F4E2M1: return "f4e2m1"; case DType::F8E8M0: return "f8e8m0";
    case DType::U2: return "u2"; case DType::I2: return "i2";
    case DType::F6E2M3: return "f6e2m3"; case DType::F6E3M2: return "f6e3m2";
  }
  return "?";
}
constexpr std::optional<DType> dtype_named(std::string_view name) {
  for (unsigned i = 1; i <= static_cast<unsigned>(kLastDType); ++i)
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace mlc
