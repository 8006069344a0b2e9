#include <algorithm>

#include "targets/llvm/disassemble.h"

namespace mlc::targets::aarch64 {

namespace {

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view p) { return name.substr(0, p.size()) == p; });
}

// MRS and MSR of the condition flags: how code keeps them over what spoils them. NZCV belongs to the program, not the system.
bool moves_condition_flags(const Instruction& i) {
  constexpr int64_t nzcv = 0xDA10;  // op0 3, op1 3, CRn 4, CRm 2, op2 0
  if (i.operands.size() != 2) return false;
  if (i.name == "MRS") return i.operands[1].reg.empty() && i.operands[1].imm == nzcv;
  return i.name == "MSR" && i.operands[0].reg.empty() && i.operands[0].imm == nzcv;
}

Status refuse(std::string what) { return Status(Code::Internal, "refused: " + std::move(what)); }

}  // namespace

Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions) {
  int64_t frame = 0;
  return disassemble(target, {}, code, [&](const Instruction& i) -> Status {
    ++num_instructions;
    for (const Operand& o : i.operands)
      if (o.reg == "X18" || o.reg == "W18") return refuse("x18 belongs to the platform");
    if (starts_with_any(i.name, {"SVC", "HVC", "SMC", "MSR", "MRS", "SYS", "DCPS", "ERET", "HLT", "UDF", "BRK"}) &&
        !moves_condition_flags(i))
      return refuse("a system instruction");
    if ((i.is_call || i.is_branch) && !i.is_return) {
      if (i.is_indirect) return refuse("an indirect branch or call");
      if (*i.target < code.address || *i.target >= code.address + code.bytes.size())
        return refuse("a branch or call that leaves the module");
    }
    // Frames: "sub sp, sp, #imm, lsl #shift" and pre-indexed stores ("stp x29, x30, [sp, #-32]!").
    const bool writes_sp = !i.operands.empty() && i.operands[0].reg == "SP";
    if (writes_sp && i.name == "SUBXri") {
      frame += i.operands[2].imm << (i.operands.size() > 3 ? i.operands[3].imm & 63 : 0);
    } else if (writes_sp && i.name.substr(0, 3) == "STP" && i.name.size() > 3 && i.name.substr(i.name.size() - 3) == "pre") {
      const int64_t unit = i.name.find('Q') != std::string_view::npos ? 16 : i.name.find('W') != std::string_view::npos ||
                           i.name.find('S', 3) != std::string_view::npos ? 4 : 8;
      frame += -i.operands.back().imm * unit;
    } else if (writes_sp && i.name.substr(0, 3) == "STR") {
      frame += -i.operands.back().imm;
    } else if (writes_sp && i.name == "SUBXrx64") {
      return refuse("a stack frame of variable size");
    } else if (writes_sp || i.is_return) {
      frame = 0;
    }
    if (frame > kMaxFrame) return refuse("a stack frame of more than 4096 bytes");
    return ok();
  });
}

}  // namespace mlc::targets::aarch64
