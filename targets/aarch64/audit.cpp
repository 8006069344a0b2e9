#include <algorithm>
#include <map>
#include <optional>

#include "targets/families.h"
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

// The bytes of a frame. Registers of SVE on the stack ("addvl sp, sp, #-3") count at their longest. A frame that is aligned to more
// than 16 bytes is computed in another register first ("sub x9, sp, #96", "addvl x9, x9, #-1", "and sp, x9, #~63").
class FrameCount {
 public:
  // False: sp gets a value that is not known.
  bool follow(const Instruction& i) {
    if (i.operands.empty()) return true;
    const bool writes_sp = i.operands[0].reg == "SP";
    if (const auto grown = growth(i)) {
      const std::string_view from = i.operands[1].reg;
      const auto known = below_.find(from);
      const bool is_known = from == "SP" || known != below_.end();
      const int64_t bytes = is_known ? (from == "SP" ? bytes_ : known->second) + *grown : 0;
      if (is_known && i.operands[0].reg == "FP") frame_pointer_ = bytes;
      if (!writes_sp && is_known) return below_[std::string(i.operands[0].reg)] = bytes, true;
      if (writes_sp && *grown > 0) return bytes_ = bytes, is_known;
    }
    if (!writes_sp) return below_.erase(std::string(i.operands[0].reg)), true;
    if (i.name == "SUBXrx64" || i.name == "SUBXri") return false;
    if (i.name == "ANDXri") {
      constexpr int64_t kMostAlignment = 64;  // that kernels ask for
      const auto known = below_.find(i.operands[1].reg);
      return known != below_.end() && (bytes_ = known->second + kMostAlignment - 16, true);
    }
    if (i.name.starts_with("STP") && i.name.ends_with("pre")) {
      const int64_t unit = i.name.find('Q') != i.name.npos ? 16 : i.name.find('W') != i.name.npos || i.name.find('S', 3) != i.name.npos ? 4 : 8;
      bytes_ += -i.operands.back().imm * unit;
    } else if (i.name.starts_with("STR")) {
      bytes_ += -i.operands.back().imm;
    } else {
      bytes_ = 0;  // an epilogue
    }
    return true;
  }
  // At a branch. A frame pointer keeps its value ("add x29, sp, #16"): epilogues compute sp from it ("sub sp, x29, #16").
  void forget_values() {
    std::erase_if(below_, [](const auto& known) { return known.first != "FP"; });
  }
  // Behind a return another path goes on, on which no epilogue has loaded x29.
  void close() {
    bytes_ = 0;
    if (frame_pointer_) below_["FP"] = *frame_pointer_;
  }
  bool is_too_large() const { return bytes_ > kMaxFrame; }

 private:
  // By how many bytes the result lies below the register that it is computed from.
  static std::optional<int64_t> growth(const Instruction& i) {
    if (i.name == "ADDXri" && i.operands[0].reg == "FP") return -i.operands[2].imm;
    if (i.name == "SUBXri") return i.operands[2].imm << (i.operands.size() > 3 ? i.operands[3].imm & 63 : 0);
    if (i.name == "ADDVL_XXI") return -i.operands[2].imm * kMostSveBytes;
    if (i.name == "ADDPL_XXI") return -i.operands[2].imm * (kMostSveBytes / 8);
    return std::nullopt;
  }

  int64_t bytes_ = 0;
  std::optional<int64_t> frame_pointer_;
  std::map<std::string, int64_t, std::less<>> below_;  // registers: bytes below where the function began
};

}  // namespace

Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions) {
  FrameCount frame;
  return disassemble(target, {}, code, [&](const Instruction& i) -> Status {
    ++num_instructions;
    for (const Operand& o : i.operands)
      if (o.reg == "X18" || o.reg == "W18") return refuse("x18 belongs to the platform");
    if (starts_with_any(i.name, {"SVC", "HVC", "SMC", "MSR", "MRS", "SYS", "DCPS", "ERET", "HLT", "UDF"}) &&
        !moves_condition_flags(i))
      return refuse("a system instruction");
    if (i.name == "BRK") return refuse("a system instruction");  // BRKA, BRKB, ... are SVE's
    if ((i.is_call || i.is_branch) && !i.is_return) {
      if (i.is_indirect) return refuse("an indirect branch or call");
      if (*i.target < code.address || *i.target >= code.address + code.bytes.size())
        return refuse("a branch or call that leaves the module");
    }
    if (!frame.follow(i)) return refuse("a stack frame of variable size");
    if (i.is_call || i.is_branch) frame.forget_values();
    if (i.is_return) frame.close();
    if (frame.is_too_large()) return refuse("a stack frame of more than 4096 bytes");
    return ok();
  });
}

}  // namespace mlc::targets::aarch64
