// PTX as LLVM writes it for us, read: the subset that accelerators need and nothing else. What this takes is an image whose every
// instruction is in the table of opcodes with operands of the right types, whose labels and names resolve, and whose every path
// ends in `ret`. Text of anyone may be given to it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "targets/ptx/opcodes.h"

namespace mlc::targets::ptx {

inline constexpr uint64_t kMaxText = uint64_t{256} << 20;  // bytes
inline constexpr uint32_t kMaxEntries = 65536;
inline constexpr uint32_t kMaxParams = 1024;               // of an entry
inline constexpr uint32_t kMaxRegisters = 1u << 22;        // of an entry
inline constexpr uint32_t kMaxSharedBytes = 227 * 1024;    // of an entry
inline constexpr uint32_t kMaxClusterBlocks = 8, kMostResidentBlocks = 32;
inline constexpr size_t kMaxOperands = 160;               // of an instruction

enum class RegClass : uint8_t { Pred, B16, B32, B64, F32, F64 };

enum class SpecialRegister : uint8_t { TidX, CtaidX, CtaidY };

struct Operand {
  enum class Kind : uint8_t { Register, Number, Special, SharedAddress, Label, Param };
  Kind kind = Kind::Register;
  bool is_memory = false;           // [..]
  RegClass reg_class = RegClass::B32;
  uint32_t number = 0;              // of a register in its entry, of a parameter, of the instruction that a label stands before
  int64_t value = 0;                // Number: its bits, sign-extended; memory: the offset. SharedAddress: of the array
};

struct Instruction {
  const Opcode* op = nullptr;
  bool has_guard = false, guard_negated = false;
  uint32_t guard = 0;  // a register
  std::vector<Operand> operands;
};

struct Param {
  unsigned bytes = 0;
};

struct Entry {
  std::string name;
  std::vector<Param> params;
  std::array<uint32_t, 3> max_lanes{};
  uint32_t cluster = 1;            // blocks that run at once, side by side along x
  uint32_t num_registers = 0;      // of all classes, numbered in order of declaration
  uint32_t shared_bytes = 0;       // that it states itself, at offset 0 of its block's memory
  bool uses_dynamic_shared = false;
  bool has_barriers = false;
  std::vector<Instruction> code;   // ends in `ret` or in a branch that is always taken
};

struct Image {
  unsigned version = 0;  // 65: PTX 6.5
  unsigned sm = 0;       // 80: sm_80
  bool is_specific = false;  // sm_90a: what is of this architecture alone may be used
  std::vector<Entry> entries;
};

// Malformed with the line if the text is anything else.
Result<Image> parse(std::string_view text);

}  // namespace mlc::targets::ptx
