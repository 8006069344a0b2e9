#include <algorithm>
#include <map>
#include <optional>

#include "targets/families.h"
#include "targets/llvm/disassemble.h"

namespace mlc::targets::riscv {

namespace {

// Parts of I, M, A, F, D and C that LLVM names by themselves.
constexpr std::string_view kImplied[] = {"64bit", "zicsr", "zmmul", "zaamo", "zalrsc", "zca", "zcd"};
// And of V.
constexpr std::string_view kImpliedByV[] = {"zve32x", "zve32f", "zve64x", "zve64f", "zve64d", "zvl32b", "zvl64b", "zvl128b"};

Status refuse(std::string what) { return Status(Code::Internal, "refused: " + std::move(what)); }

// Control registers that code with vectors may use: how many bytes a vector register has, which it reads, and how averages of
// integers are rounded, which it writes (no call keeps that, says the calling convention).
bool is_of_vectors(const Instruction& i) {
  constexpr int64_t kVlenb = 0xc22, kVxrm = 0x00a;
  if (i.operands.size() != 3) return false;
  if (i.name == "CSRRS") return i.operands[1].imm == kVlenb && i.operands[2].reg == "X0";
  return i.name == "CSRRWI" && i.operands[0].reg == "X0" && i.operands[1].imm == kVxrm;
}

// Whether every machine with V takes this vtype: elements of 8 to 64 bits, groups that hold one, no reserved bit. Any other
// makes the next vector instruction illegal.
bool is_legal_vtype(int64_t vtype) {
  const int64_t multiplier = vtype & 7, element = vtype >> 3 & 7;  // element: 8 << element bits
  if (vtype >> 8 != 0 || multiplier == 4 || element > 3) return false;
  return multiplier < 4 || element <= multiplier - 5;  // 5, 6, 7: an eighth, a quarter, half of a register of 64 bits
}

// The bytes of a frame. Those that depend on the machine are a multiple of vlenb, which straight code computes in a register.
class FrameCount {
 public:
  // False: sp gets a value that is not known.
  bool follow(const Instruction& i) {
    if (i.operands.empty()) return true;
    const bool writes_sp = i.operands[0].reg == "X2";
    if (writes_sp && (i.name == "ADDI" || i.name == "C_ADDI16SP" || i.name == "C_ADDI")) {
      const int64_t delta = i.operands.back().imm;
      if (delta < 0) bytes_ -= delta;
      else if (registers_ == 0) bytes_ = 0;
      return true;
    }
    if (writes_sp && (i.name == "SUB" || i.name == "ADD" || i.name == "C_ADD" || i.name == "C_SUB")) {
      const auto known = values_.find(i.operands.back().reg);
      if (i.operands[i.operands.size() - 2].reg != "X2" || known == values_.end() || !known->second.of_vlenb) return false;
      const bool grows = i.name == "SUB" || i.name == "C_SUB";
      registers_ = grows ? registers_ + known->second.factor : 0;
      return true;
    }
    compute(i);
    return true;
  }
  void forget_values() { values_.clear(); }
  void close() { bytes_ = registers_ = 0; }
  bool is_too_large() const { return registers_ > kMaxFrame || bytes_ + registers_ * kMostVlenb > kMaxFrame; }

 private:
  struct Value {
    int64_t factor = 0;
    bool of_vlenb = false;  // times vlenb
  };
  static constexpr int64_t kMostFactor = int64_t{1} << 20;

  std::optional<Value> value_of(const Operand& o) const {
    if (o.reg == "X0") return Value{};
    const auto known = values_.find(o.reg);
    return known == values_.end() ? std::nullopt : std::optional(known->second);
  }

  std::optional<Value> result_of(const Instruction& i) const {
    const std::vector<Operand>& o = i.operands;
    if (i.name == "CSRRS") return Value{1, true};
    if (i.name == "C_LI") return Value{o.back().imm};
    if (o.size() != 3) return std::nullopt;
    const auto a = value_of(o[1]), b = value_of(o[2]);
    if (i.name == "ADDI" && o[1].reg == "X0") return Value{o[2].imm};
    if ((i.name == "SLLI" || i.name == "C_SLLI") && a && o[2].imm < 20) return Value{a->factor << o[2].imm, a->of_vlenb};
    if (!a || !b) return std::nullopt;
    if (i.name == "MUL" && !(a->of_vlenb && b->of_vlenb)) return Value{a->factor * b->factor, a->of_vlenb || b->of_vlenb};
    if (a->of_vlenb != b->of_vlenb) return std::nullopt;
    if (i.name == "ADD" || i.name == "C_ADD") return Value{a->factor + b->factor, a->of_vlenb};
    if (i.name == "SUB" || i.name == "C_SUB") return Value{a->factor - b->factor, a->of_vlenb};
    return std::nullopt;
  }

  void compute(const Instruction& i) {
    const std::string destination(i.operands[0].reg);
    const auto result = result_of(i);
    if (result && result->factor >= 0 && result->factor <= kMostFactor) values_[destination] = *result;
    else values_.erase(destination);
  }

  int64_t bytes_ = 0, registers_ = 0;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace

Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions) {
  FrameCount frame;
  // "auipc r, hi" of the instruction before: the first half of a call.
  uint64_t page = 0;
  std::string_view page_register;
  const bool has_v = has_feature(target, "rv.v");
  std::vector<std::string_view> implied(std::begin(kImplied), std::end(kImplied));
  if (has_v) implied.insert(implied.end(), std::begin(kImpliedByV), std::end(kImpliedByV));
  auto inside = [&](uint64_t address) { return address >= code.address && address < code.address + code.bytes.size(); };
  return disassemble(target, implied, code, [&](const Instruction& i) -> Status {
    ++num_instructions;
    if ((i.name == "ECALL" || i.name == "EBREAK" || i.name == "C_EBREAK" || i.name == "UNIMP" || i.name == "C_UNIMP" ||
         i.name.substr(0, 3) == "CSR" || i.name.substr(0, 5) == "FENCE") &&
        !(has_v && is_of_vectors(i)))
      return refuse("a system instruction or control register");
    if (i.name == "VSETVL") return refuse("a vector type that a register says");
    if ((i.name == "VSETVLI" || i.name == "VSETIVLI") && !is_legal_vtype(i.operands.back().imm))
      return refuse("a vector type that not every machine with V has");
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
    if (!frame.follow(i)) return refuse("a stack frame that is large or of variable size");
    if (i.is_call || i.is_branch) frame.forget_values();
    if (is_return) frame.close();
    if (frame.is_too_large()) return refuse("a stack frame of more than 4096 bytes");
    return ok();
  });
}

}  // namespace mlc::targets::riscv
