#include <algorithm>

#include "targets/llvm/disassemble.h"

namespace mlc::targets::riscv {

namespace {

// Parts of I, M, A, F, D and C that LLVM names by themselves.
constexpr std::string_view kImplied[] = {"64bit", "zicsr", "zmmul", "zaamo", "zalrsc", "zca", "zcd"};

Status refuse(std::string what) { return Status(Code::Internal, "refused: " + std::move(what)); }

}  // namespace

Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions) {
  int64_t frame = 0;
  // "auipc r, hi" of the instruction before: the first half of a call.
  uint64_t page = 0;
  std::string_view page_register;
  auto inside = [&](uint64_t address) { return address >= code.address && address < code.address + code.bytes.size(); };
  return disassemble(target, kImplied, code, [&](const Instruction& i) -> Status {
    ++num_instructions;
    if (i.name == "ECALL" || i.name == "EBREAK" || i.name == "C_EBREAK" || i.name == "UNIMP" || i.name == "C_UNIMP" ||
        i.name.substr(0, 3) == "CSR" || i.name.substr(0, 5) == "FENCE")
      return refuse("a system instruction or control register");
    const bool is_return = (i.name == "C_JR" && i.operands[0].reg == "X1") ||
                           (i.name == "JALR" && i.operands[0].reg == "X0" && i.operands[1].reg == "X1");
    if (i.name == "JALR" && !page_register.empty() && i.operands[1].reg == page_register) {
      if (!inside(page + static_cast<uint64_t>(i.operands[2].imm))) return refuse("a call that leaves the module");
    } else if ((i.is_call || i.is_branch || i.name == "C_JR" || i.name == "C_JALR" || i.name == "JALR") && !is_return) {
      if (!i.target) return refuse("an indirect branch or call");
      if (!inside(*i.target)) return refuse("a branch or call that leaves the module");
    }
    page_register = {};
    if (i.name == "AUIPC") {
      page_register = i.operands[0].reg;
      page = i.address + (static_cast<uint64_t>(i.operands[1].imm) << 12);
      if (i.operands[1].imm & 0x80000) page -= uint64_t{1} << 32;  // the 20 bits are signed
    }
    const bool writes_sp = !i.operands.empty() && i.operands[0].reg == "X2";
    if (writes_sp && (i.name == "ADDI" || i.name == "C_ADDI16SP" || i.name == "C_ADDI")) {
      const int64_t delta = i.operands.back().imm;
      frame = delta < 0 ? frame - delta : 0;
    } else if (writes_sp && (i.name == "SUB" || i.name == "ADD" || i.name == "C_ADD" || i.name == "C_SUB")) {
      return refuse("a stack frame that is large or of variable size");
    } else if (is_return) {
      frame = 0;
    }
    if (frame > kMaxFrame) return refuse("a stack frame of more than 4096 bytes");
    return ok();
  });
}

}  // namespace mlc::targets::riscv
