// Portable code written by hand, instruction by instruction, also such as no encoder would write.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schema/portable_code.h"

namespace mlc::test {

// Writes modules of one kernel by hand.
struct Assembler {
  using Kind = portable::Kind;
  static constexpr uint16_t kNone = portable::kNoRegister;

  std::vector<uint8_t> params = {portable::kParamWritten, 0};
  std::vector<uint64_t> locals;
  uint16_t scalars = 1;
  std::vector<std::pair<Kind, uint8_t>> registers = {{Kind::I64, 1}, {Kind::I64, 1}, {Kind::F32, 16}, {Kind::Mask, 1},
                                                     {Kind::Mask, 16}, {Kind::F32, 1}, {Kind::I32, 16}, {Kind::I64, 16}};
  std::vector<portable::Instruction> code;
  enum : uint16_t { kI = 0, kJ = 1, kV = 2, kM = 3, kMv = 4, kF = 5, kIv = 6, kGather = 7 };

  Assembler& add(portable::Op op, uint16_t dst, uint16_t a = kNone, uint16_t b = kNone, uint16_t c = kNone, int64_t imm = 0,
                 DType type = DType::None, uint16_t array = 0) {
    code.push_back({static_cast<uint8_t>(op), static_cast<uint8_t>(type), dst, a, b, c, array, 0, imm});
    return *this;
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    auto put = [&](uint64_t v, unsigned n) {
      for (unsigned k = 0; k < n; ++k) out.push_back(static_cast<std::byte>(v >> (8 * k)));
    };
    auto pad = [&] { while (out.size() % 8) put(0, 1); };
    put(portable::kMagic, 4), put(portable::kVersion, 2), put(0, 2), put(1, 4), put(0, 4);
    put(params.size(), 2), put(locals.size(), 2), put(scalars, 2), put(registers.size(), 2), put(code.size(), 4), put(0, 4);
    for (uint8_t p : params) put(p, 1);
    pad();
    for (uint64_t l : locals) put(l, 8);
    for (auto [kind, lanes] : registers) put(static_cast<uint8_t>(kind), 1), put(lanes, 1);
    pad();
    for (const portable::Instruction& i : code) {
      put(i.op, 1), put(i.type, 1), put(i.dst, 2), put(i.a, 2), put(i.b, 2), put(i.c, 2), put(i.array, 2), put(i.zero, 4);
      put(static_cast<uint64_t>(i.imm), 8);
    }
    return out;
  }
};

}  // namespace mlc::test
