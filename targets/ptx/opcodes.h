// The instructions of PTX that our code may use: every opcode with its modifiers, what operands it takes, and from which
// architecture and version of the language it is there. What is not in this table stops the build by name: the assembler of the
// driver takes much more (calls, printf, endless loops), so it is no judge.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlc::targets::ptx {

// Numbers of these stand in modules (gpu::Image::features): never reused, never renumbered.
enum class OpClass : uint8_t {
  Base = 1,    // integers, f32 with powers of two, conversions of f16, bf16 and tf32, predicates, branches, global memory, shuffles
  Double = 2,  // f64
  Shared = 3,  // memory of a block
  Barrier = 4,
  Atomic = 5,
  NanMinMax = 6,
  TensorCore = 7,
  AsyncCopy = 8,   // from global to shared memory
  Cluster = 9,     // barriers of several blocks, and loads of each other's shared memory
  GroupProduct = 10,  // products of four warps whose factors lie in shared memory: of one architecture, and of none after it
};

struct Opcode {
  std::string name;                     // "setp.lt.s32"
  std::vector<std::string_view> parts;  // "setp", "lt", "s32": of `name`
  std::string_view type;                // the last of its types, "s32"; empty: it has none
  std::string_view first_type;          // cvt: of the result; else `type`
  // One letter for each operand:
  //   D register of the type       S the same, or a number           W integer register of twice the width (w: or a number)
  //   T cvt: register of the first type, or wider       F cvt, ld, st: register of the type, or wider if that is an integer
  //   h register of 16 bits        n a number        B, C the numbers 16 and 4
  //   p predicate                  R integer register of 32 bits (c: or a number)
  //   M mov: as S, or a special register or the address of shared memory; of type b32, b64 any register of that width
  //   G, H, P address of global, shared, parameter memory    L label       0 the number 0
  //   {..} registers in braces     N of half the width     | or
  //   E register of f32        Q integer register of 64 bits        1 the number 1      b the number 0 or 1
  //   #E, #R as many of them in braces as half the columns that the name says (n64: 32)
  std::string shape;
  OpClass op_class = OpClass::Base;
  uint8_t sm = 75;       // 75: Turing
  uint8_t version = 65;  // 65: PTX 6.5
};

// Null: there is no such row.
const Opcode* find_opcode(std::string_view name);

// Bits of a type as it is written, "u8" to "f64", "f16" and "bf16"; 1 for "pred"; 0: none of these.
unsigned bits_of_type(std::string_view type);
// Of numbers that have registers of their own: those of 16 bits lie in registers of integers.
inline bool is_float_type(std::string_view type) { return type == "f32" || type == "f64"; }

}  // namespace mlc::targets::ptx
