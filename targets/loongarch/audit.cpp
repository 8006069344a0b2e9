#include <algorithm>
#include <map>
#include <optional>

#include "targets/families.h"
#include "targets/llvm/disassemble.h"

namespace mlc::targets::loongarch {

namespace {

constexpr std::string_view kLa64[] = {"64bit"};  // what host.arch says
constexpr std::string_view kZero = "R0", kReturn = "R1", kThread = "R2", kStack = "R3", kReserved = "R21";
constexpr std::string_view kFrame = "R22";

// What computing needs of LA64 1.0 with floats, as LLVM names it, sorted. LLVM's decoder knows every extension whatever
// the features are, so this list says what is allowed; not in it are calls of the system, privileged and atomic
// instructions, barriers, the clock, accesses that trap by themselves, fcsr (how sums are rounded), what came with LA64
// 1.1, and the extensions LVZ and LBT.
constexpr std::string_view kScalar[] = {
    "ADDI_D", "ADDI_W", "ADDU16I_D", "ADD_D", "ADD_W", "ALSL_D", "ALSL_W", "ALSL_WU", "AND", "ANDI", "ANDN", "B",
    "BCEQZ", "BCNEZ", "BEQ", "BEQZ", "BGE", "BGEU", "BITREV_4B", "BITREV_8B", "BITREV_D", "BITREV_W", "BL", "BLT",
    "BLTU", "BNE", "BNEZ", "BSTRINS_D", "BSTRINS_W", "BSTRPICK_D", "BSTRPICK_W", "BYTEPICK_D", "BYTEPICK_W", "CLO_D",
    "CLO_W", "CLZ_D", "CLZ_W", "CTO_D", "CTO_W", "CTZ_D", "CTZ_W", "DIV_D", "DIV_DU", "DIV_W", "DIV_WU", "EXT_W_B",
    "EXT_W_H", "FABS_D", "FABS_S", "FADD_D", "FADD_S", "FCLASS_D", "FCLASS_S", "FCMP_CAF_D", "FCMP_CAF_S",
    "FCMP_CEQ_D", "FCMP_CEQ_S", "FCMP_CLE_D", "FCMP_CLE_S", "FCMP_CLT_D", "FCMP_CLT_S", "FCMP_CNE_D", "FCMP_CNE_S",
    "FCMP_COR_D", "FCMP_COR_S", "FCMP_CUEQ_D", "FCMP_CUEQ_S", "FCMP_CULE_D", "FCMP_CULE_S", "FCMP_CULT_D",
    "FCMP_CULT_S", "FCMP_CUNE_D", "FCMP_CUNE_S", "FCMP_CUN_D", "FCMP_CUN_S", "FCMP_SAF_D", "FCMP_SAF_S", "FCMP_SEQ_D",
    "FCMP_SEQ_S", "FCMP_SLE_D", "FCMP_SLE_S", "FCMP_SLT_D", "FCMP_SLT_S", "FCMP_SNE_D", "FCMP_SNE_S", "FCMP_SOR_D",
    "FCMP_SOR_S", "FCMP_SUEQ_D", "FCMP_SUEQ_S", "FCMP_SULE_D", "FCMP_SULE_S", "FCMP_SULT_D", "FCMP_SULT_S",
    "FCMP_SUNE_D", "FCMP_SUNE_S", "FCMP_SUN_D", "FCMP_SUN_S", "FCOPYSIGN_D", "FCOPYSIGN_S", "FCVT_D_S", "FCVT_S_D",
    "FDIV_D", "FDIV_S", "FFINT_D_L", "FFINT_D_W", "FFINT_S_L", "FFINT_S_W", "FLDX_D", "FLDX_S", "FLD_D", "FLD_S",
    "FLOGB_D", "FLOGB_S", "FMADD_D", "FMADD_S", "FMAXA_D", "FMAXA_S", "FMAX_D", "FMAX_S", "FMINA_D", "FMINA_S",
    "FMIN_D", "FMIN_S", "FMOV_D", "FMOV_S", "FMSUB_D", "FMSUB_S", "FMUL_D", "FMUL_S", "FNEG_D", "FNEG_S", "FNMADD_D",
    "FNMADD_S", "FNMSUB_D", "FNMSUB_S", "FRECIP_D", "FRECIP_S", "FRINT_D", "FRINT_S", "FRSQRT_D", "FRSQRT_S",
    "FSCALEB_D", "FSCALEB_S", "FSEL_xD", "FSEL_xS", "FSQRT_D", "FSQRT_S", "FSTX_D", "FSTX_S", "FST_D", "FST_S",
    "FSUB_D", "FSUB_S", "FTINTRM_L_D", "FTINTRM_L_S", "FTINTRM_W_D", "FTINTRM_W_S", "FTINTRNE_L_D", "FTINTRNE_L_S",
    "FTINTRNE_W_D", "FTINTRNE_W_S", "FTINTRP_L_D", "FTINTRP_L_S", "FTINTRP_W_D", "FTINTRP_W_S", "FTINTRZ_L_D",
    "FTINTRZ_L_S", "FTINTRZ_W_D", "FTINTRZ_W_S", "FTINT_L_D", "FTINT_L_S", "FTINT_W_D", "FTINT_W_S", "JIRL",
    "LDPTR_D", "LDPTR_W", "LDX_B", "LDX_BU", "LDX_D", "LDX_H", "LDX_HU", "LDX_W", "LDX_WU", "LD_B", "LD_BU", "LD_D",
    "LD_H", "LD_HU", "LD_W", "LD_WU", "LU12I_W", "LU32I_D", "LU52I_D", "MASKEQZ", "MASKNEZ", "MOD_D", "MOD_DU",
    "MOD_W", "MOD_WU", "MOVCF2FR_xS", "MOVCF2GR", "MOVFR2CF_xS", "MOVFR2GR_D", "MOVFR2GR_S", "MOVFR2GR_S_64",
    "MOVFRH2GR_S", "MOVGR2CF", "MOVGR2FRH_W", "MOVGR2FR_D", "MOVGR2FR_W", "MOVGR2FR_W_64", "MULH_D", "MULH_DU",
    "MULH_W", "MULH_WU", "MULW_D_W", "MULW_D_WU", "MUL_D", "MUL_W", "NOR", "OR", "ORI", "ORN", "PCADDI", "PCADDU12I",
    "PCADDU18I", "PCALAU12I", "PRELD", "REVB_2H", "REVB_2W", "REVB_4H", "REVB_D", "REVH_2W", "REVH_D", "ROTRI_D",
    "ROTRI_W", "ROTR_D", "ROTR_W", "SET_CFR_FALSE", "SET_CFR_TRUE", "SLLI_D", "SLLI_W", "SLL_D", "SLL_W", "SLT",
    "SLTI", "SLTU", "SLTUI", "SRAI_D", "SRAI_W", "SRA_D", "SRA_W", "SRLI_D", "SRLI_W", "SRL_D", "SRL_W", "STPTR_D",
    "STPTR_W", "STX_B", "STX_D", "STX_H", "STX_W", "ST_B", "ST_D", "ST_H", "ST_W", "SUB_D", "SUB_W", "XOR", "XORI",
};
static_assert(std::is_sorted(std::begin(kScalar), std::end(kScalar)));

// Instructions with vectors, all of which begin with V and name vector registers. The estimates of quotients and roots
// are LA64 1.1.
bool is_of_lsx(const Instruction& i) {
  bool has_vector = false;
  for (const Operand& o : i.operands) {
    if (o.reg.starts_with("XR")) return false;  // a register of LASX
    has_vector |= o.reg.starts_with("VR");
  }
  return has_vector && i.name.starts_with("V") && !i.name.starts_with("VFRECIPE") && !i.name.starts_with("VFRSQRTE");
}

Status forbid(std::string what) { return Status(Code::Internal, "refused: " + std::move(what)); }

// How many bytes of stack a function has, from its beginning to each instruction. The stack pointer moves by constants,
// which straight code may make in a register, and its low bits are cleared for aligned arrays; the frame pointer says
// where it was before.
class StackDepth {
 public:
  // False: sp gets a value that is not known.
  bool follow(const Instruction& i) {
    if (i.operands.empty() || i.is_branch || i.is_call || i.name.starts_with("ST")) return true;  // writes none
    const std::string_view to = i.operands[0].reg;
    if (to == kStack) return move_stack(i);
    if (to == kFrame) {
      frame_.reset();
      if (i.name == "ADDI_D" && i.operands[1].reg == kStack) known_frame_ = frame_ = bytes_ - i.operands[2].imm;
    }
    const auto value = constant(i);
    if (value && to != kZero) constants_[std::string(to)] = *value;
    else if (const auto known = constants_.find(to); known != constants_.end()) constants_.erase(known);
    return true;
  }
  void forget_constants() { constants_.clear(); }
  // Behind a return another path of the function may go on, on which no epilogue has loaded the frame pointer.
  void close() {
    bytes_ = 0;
    frame_ = known_frame_;
  }
  bool is_too_large() const { return bytes_ > kMaxFrame; }

 private:
  bool move_stack(const Instruction& i) {
    const std::vector<Operand>& o = i.operands;
    // sp, sp, zero, highest bit, lowest bit
    if (i.name == "BSTRINS_D" && o.size() == 5 && o[2].reg == kZero && o[4].imm == 0 && o[3].imm < 12) {
      bytes_ += (int64_t{1} << (o[3].imm + 1)) - 1;
      return true;
    }
    if (o.size() != 3 || (o[1].reg == kFrame ? !frame_ : o[1].reg != kStack)) return false;
    int64_t by = o[2].imm;
    if (i.name == "ADD_D" || i.name == "SUB_D") {
      const auto known = constants_.find(o[2].reg);
      if (known == constants_.end()) return false;
      by = i.name == "ADD_D" ? known->second : -known->second;
    } else if (i.name != "ADDI_D") {
      return false;
    }
    // An epilogue behind another one gives back what no longer counts.
    bytes_ = std::max<int64_t>(0, (o[1].reg == kFrame ? *frame_ : bytes_) - by);
    return true;
  }

  std::optional<int64_t> constant(const Instruction& i) const {
    const std::vector<Operand>& o = i.operands;
    if (i.name == "LU12I_W") return o[1].imm * 4096;
    if (o.size() != 3 || (i.name != "ORI" && i.name != "ADDI_W" && i.name != "ADDI_D")) return std::nullopt;
    const auto known = constants_.find(o[1].reg);
    if (o[1].reg != kZero && known == constants_.end()) return std::nullopt;
    const int64_t from = o[1].reg == kZero ? 0 : known->second;
    return i.name == "ORI" ? from | o[2].imm : from + o[2].imm;
  }

  int64_t bytes_ = 0;
  std::optional<int64_t> frame_, known_frame_;  // depth of the frame pointer: now, and last made by this function
  std::map<std::string, int64_t, std::less<>> constants_;
};

}  // namespace

Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions) {
  StackDepth stack;
  const bool has_lsx = has_feature(target, "la.lsx");
  auto inside = [&](uint64_t address) { return address >= code.address && address < code.address + code.bytes.size(); };
  return disassemble(target, kLa64, code, [&](const Instruction& i) -> Status {
    ++num_instructions;
    // lld fills the gaps between functions with "break 0"; reaching one is a crash, not a service.
    if (i.name == "BREAK" && i.operands[0].imm == 0) return ok();
    if (!std::binary_search(std::begin(kScalar), std::end(kScalar), i.name) && !(has_lsx && is_of_lsx(i)))
      return forbid("an instruction that is no part of the target");
    for (const Operand& o : i.operands)
      if (o.reg == kThread || o.reg == kReserved) return forbid("a register that belongs to the system");
    const bool is_return = i.name == "JIRL" && i.operands[0].reg == kZero && i.operands[1].reg == kReturn &&
                           i.operands[2].imm == 0;
    if ((i.is_call || i.is_branch || i.name == "JIRL") && !is_return) {
      if (i.name == "JIRL" || !i.target) return forbid("an indirect branch or call");
      if (!inside(*i.target)) return forbid("a branch or call that leaves the module");
    }
    if (!stack.follow(i)) return forbid("a stack frame that is large or of variable size");
    if (i.is_call || i.is_branch) stack.forget_constants();
    if (is_return) stack.close();
    if (stack.is_too_large()) return forbid("a stack frame of more than 4096 bytes");
    return ok();
  });
}

}  // namespace mlc::targets::loongarch
