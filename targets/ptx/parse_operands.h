// Operands of PTX instructions. Internal to targets/ptx.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "targets/ptx/lexer.h"
#include "targets/ptx/parse.h"

namespace mlc::targets::ptx {

struct RegisterBank {
  RegClass reg_class = RegClass::B32;
  uint32_t first = 0, count = 0;
  bool numbered = false;  // %r0, %r1 ..; else one register, whose name this is
};
using RegisterBanks = std::map<std::string_view, RegisterBank, std::less<>>;

struct Label {
  uint32_t number = 0;  // in order of appearance
  uint32_t at = 0;      // the instruction it stands before
  bool is_defined = false;
};
class Labels {
 public:
  std::pair<std::unordered_map<std::string_view, Label>::iterator, bool> try_emplace(std::string_view name, Label label) {
    label.number = static_cast<uint32_t>(all_.size());
    return all_.try_emplace(name, label);
  }
  size_t size() const { return all_.size(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::unordered_map<std::string_view, Label> all_;
};

// What words may mean inside of an entry.
struct Names {
  const RegisterBanks& registers;
  const std::map<std::string_view, uint32_t, std::less<>>& params;
  const std::string_view& shared;       // the array of the entry; may be empty
  const std::set<std::string_view>& dynamic_shared;  // of the image
  Labels& labels;
  bool& uses_dynamic_shared;
  std::string_view& used_dynamic;       // the one that the entry uses
};

Result<Operand> parse_register(Lexer& in, const Names& names);
// All operands of `i.op`, which must have a shape that the table gives, at most kMaxOperands.
Status parse_operands(Lexer& in, const Names& names, Instruction& i);

}  // namespace mlc::targets::ptx
