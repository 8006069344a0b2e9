// Portable code: kernels as instructions for the interpreter of loaders/portable. What the encoder (targets/portable)
// and the interpreter agree on; spec/portable-code.md is the text. All numbers are little-endian; the numbers of
// operations, kinds and fields are part of the format and never reused.
//
//   module   magic u32, version u16, zero u16, num_kernels u32, zero u32, then the kernels one after the other
//   kernel   num_params u16, num_locals u16, num_scalars u16, num_registers u16, num_instructions u32, zero u32,
//            params (u8 flags each), zero bytes to a multiple of 8,
//            locals (u64 bytes each), registers (u8 kind, u8 lanes each), zero bytes to a multiple of 8,
//            instructions (24 bytes each)
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace mlc::portable {

inline constexpr uint32_t kMagic = 0x50434c4d;  // "MLCP"
inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kModuleHeaderLen = 16, kKernelHeaderLen = 16, kInstructionLen = 24;
inline constexpr uint8_t kParamWritten = 1;  // flag of a parameter: the kernel stores to it

// Limits; a module beyond them is refused.
inline constexpr uint32_t kMaxKernels = 65536;
inline constexpr unsigned kMaxLanes = 64;
inline constexpr uint64_t kMaxLocalBytes = uint64_t{256} << 20;    // of one kernel
inline constexpr uint64_t kMaxRegisterBytes = uint64_t{4} << 20;   // of one kernel
inline constexpr unsigned kMaxDepth = 64;                          // of nested loops and ifs
inline constexpr uint16_t kNoRegister = 0xffff;

// What a register holds. Narrow integers live in I32, sign- or zero-extended; u32 and u64 are the bits in I32 and I64;
// f16, bf16 and the floats of 8 and 4 bits compute in F32. A Mask has one byte per lane, 0 or 1.
enum class Kind : uint8_t { None = 0, I32 = 1, I64 = 2, F32 = 3, F64 = 4, Mask = 5 };
constexpr Kind kind_of(DType t) {
  if (t == DType::F64) return Kind::F64;
  if (is_float(t)) return Kind::F32;
  if (t == DType::I64 || t == DType::U64) return Kind::I64;
  if (t == DType::Bool) return Kind::Mask;
  return is_int(t) ? Kind::I32 : Kind::None;
}
constexpr unsigned size_of(Kind k) {
  return k == Kind::I64 || k == Kind::F64 ? 8 : k == Kind::I32 || k == Kind::F32 ? 4 : k == Kind::Mask ? 1 : 0;
}

// One instruction. Unless said otherwise the operands a, b, c have kind and lanes of dst, and unused fields are zero
// (registers: kNoRegister).
struct Instruction {
  uint8_t op = 0;
  uint8_t type = 0;  // a DType where the operation says so
  uint16_t dst = kNoRegister, a = kNoRegister, b = kNoRegister, c = kNoRegister;
  uint16_t array = 0;  // buffer: params first, then locals
  uint32_t zero = 0;
  int64_t imm = 0;
};

enum class Op : uint8_t {
  None = 0,
  // Control. "one" is a register of one lane.
  LoopBegin = 1,   // dst (I64 one) = a; the body runs while dst < b, then dst += imm (1 or more); a, b: I64 one
  LoopEnd = 2,
  WhileBegin = 3,  // dst (I64 one) counts iterations; a (I64 one) is the bound
  WhileTest = 4,   // a (Mask one): leaves the loop if it is 0, else faults if the bound is reached; directly inside
  WhileEnd = 5,
  If = 6,          // a: Mask one
  Else = 7,
  EndIf = 8,
  FaultIf = 9,     // a: Mask; if any lane is set the kernel ends with code imm (0, INDEX, DIVISION or BOUND)
  // Sources.
  Const = 10,      // imm: the bits of one lane, for every lane
  Scalar = 11,     // dst: I64 one; launch scalar number imm
  Tile = 12,       // dst: I64 one; imm 0: tile_begin, 1: tile_end
  Move = 13,       // dst and a may differ in kind if sizes are equal: same bits
  Load = 14,       // type: element in memory, one of F64 F32 I64 I32 I16 U16 I8 U8 Bool, of dst's kind; a: I64, one lane (neighbouring elements) or many (gather); b: Mask of
                   // dst's lanes, or none; element a + imm of `array`
  Store = 15,      // the same with c as the value
  Splat = 16,      // a: one lane
  Ramp = 17,       // I32, I64; a: one lane; lane k is a + k * imm
  Extract = 18,    // dst: one lane; lane imm of a
  Insert = 19,     // lanes imm .. of dst become a (fewer lanes), the others stay
  Repeat = 21,     // a: lanes that divide those of dst, over and over
  Select = 20,     // a: Mask; b where set, else c
  // One operand.
  Neg = 30, Abs = 31, Floor = 32, Ceil = 33, Trunc = 34, Rint = 35, Sqrt = 36,  // the last five: floats
  IsNan = 37, IsInf = 38,  // dst: Mask; a: float
  Not = 39,                // Mask, I32, I64
  Wrap = 40,               // I32; type: an integer type narrower than 32 bits, to whose range the value is wrapped
  // Conversions, between registers of equal lanes. Out of range: the nearest integer, NaN gives 0.
  Widen = 50, WidenU = 51,        // I32 to I64, sign- or zero-extended
  Narrow = 52,                    // I64 to I32
  ToFloat = 53, ToFloatU = 54,    // I32, I64 to F32, F64
  ToInt = 55, ToIntU = 56,        // F32, F64 to I32, I64
  Resize = 57,                    // F32 to F64, F64 to F32
  ResizeOdd = 58,                 // F64 to F32, rounded to odd
  FromMask = 59,                  // Mask to I32, 0 or 1
  Pack = 60, Unpack = 61,         // type: f16, bf16 or a float of 8 or 4 bits; F32 to its bits in I32 (rounded), and back
  // Two operands. A suffix U treats integers as unsigned.
  Add = 70, Sub = 71, Mul = 72, Div = 73 /* floats */, FMod = 74 /* floats */, Min = 75, Max = 76, MinU = 77, MaxU = 78,
  Quot = 80, QuotU = 81, Rem = 82, RemU = 83, FloorQuot = 84, FloorRem = 85, Pow = 86, PowU = 87,  // integers
  And = 90, Or = 91, Xor = 92,    // Mask, I32, I64
  Shl = 93, Shr = 94, ShrU = 95,  // integers
  Lt = 100, Le = 101, Eq = 102, Ne = 103, LtU = 104, LeU = 105,  // dst: Mask; Eq and Ne also of Masks
  Fma = 110,       // floats: a * b + c, two roundings
  FmaSplat = 111,  // the same with a of one lane
  // I32, F32; c: as dst, a and b: G times its lanes. Lane l is c[l] + a[G*l]*b[G*l] + a[G*l + 1]*b[G*l + 1] + .., in that
  // order, floats rounded after each product and each sum.
  Dot = 112,
  // Horizontal; dst has one lane, a a power of two of them: halves are combined until one is left.
  SumLanes = 120, ProdLanes = 121, MinLanes = 122, MaxLanes = 123, MinLanesU = 124, MaxLanesU = 125,  // not Sum, Prod of Masks
};

}  // namespace mlc::portable
