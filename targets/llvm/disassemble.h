// Decodes machine code of AArch64, RISC-V and LoongArch with LLVM's decoders, limited to exactly the features given; that of LoongArch takes
// no notice of features (LLVM 19), so the audit has a list of its own. No LLVM type here. (x86 goes through Zydis: LLVM's x86 decoder accepts instructions whose features are off.)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "targets/families.h"

namespace mlc::targets {

struct Operand {
  std::string_view reg;  // LLVM's name ("X18", "SP"), empty for an immediate
  int64_t imm = 0;
};

struct Instruction {
  uint64_t address = 0;
  unsigned size = 0;
  std::string_view name;  // LLVM's opcode name ("FMLAv4f32")
  std::vector<Operand> operands;
  bool is_call = false, is_branch = false, is_indirect = false, is_return = false;
  std::optional<uint64_t> target;  // of a direct branch or call
};

// `implied` lists names of LLVM features that are part of what R(v) already says (LLVM splits extensions more finely
// than the registry). Fails if LLVM thinks that R(v) implies anything else, if a byte does not decode, or with what
// `visit` returns; a failure names the address.
Status disassemble(const Target& target, std::span<const std::string_view> implied, const CodeRange& code,
                   const std::function<Status(const Instruction&)>& visit);

}  // namespace mlc::targets
