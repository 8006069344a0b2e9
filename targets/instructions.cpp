#include "targets/instructions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "targets/families.h"

namespace mlc::targets {

namespace {

constexpr DType kU8 = DType::U8, kI8 = DType::I8, kI16 = DType::I16, kBF16 = DType::BF16, kNone = DType::None;

constexpr DotInstruction kInstructions[] = {
    {"vpdpbusd", DotForm::Native, Machine::X86_64, kU8, kI8, "x86.avx512vnni", 1, 0, 1},
    {"vpdpbusd", DotForm::Native, Machine::X86_64, kU8, kI8, "x86.avxvnni", 1, 0, 1},
    {"vpdpwssd", DotForm::Native, Machine::X86_64, kI16, kI16, "x86.avx512vnni", 1, 0, 1},
    {"vpdpwssd", DotForm::Native, Machine::X86_64, kI16, kI16, "x86.avxvnni", 1, 0, 1},
    {"vdpbf16ps", DotForm::Native, Machine::X86_64, kBF16, kBF16, "x86.avx512bf16", 1, 0, 1},
    {"pmaddwd", DotForm::Pairs, Machine::X86_64, kU8, kI8, "x86.base", 4, 3, 2},
    {"pmaddwd", DotForm::Pairs, Machine::X86_64, kI8, kI8, "x86.base", 4, 3, 2},
    {"pmaddwd", DotForm::Pairs, Machine::X86_64, kU8, kU8, "x86.base", 4, 2, 2},
    {"pmaddwd", DotForm::Pairs, Machine::X86_64, kI16, kI16, "x86.base", 2, 0, 1},
    {"sdot", DotForm::Native, Machine::AArch64, kI8, kI8, "a64.dotprod", 1, 0, 1},
    {"udot", DotForm::Native, Machine::AArch64, kU8, kU8, "a64.dotprod", 1, 0, 1},
    {"usdot", DotForm::Native, Machine::AArch64, kU8, kI8, "a64.i8mm", 1, 0, 1},
    {"bfdot", DotForm::Native, Machine::AArch64, kBF16, kBF16, "a64.bf16", 1, 0, 1},
    {"Dot", DotForm::Native, Machine::None, kU8, kI8, "", 1, 0, 1},
    {"Dot", DotForm::Native, Machine::None, kI8, kI8, "", 1, 0, 1},
    {"Dot", DotForm::Native, Machine::None, kU8, kU8, "", 1, 0, 1},
    {"Dot", DotForm::Native, Machine::None, kI16, kI16, "", 1, 0, 1},
    {"Dot", DotForm::Native, Machine::None, kBF16, kBF16, "", 1, 0, 1},
};
// A multiplication and an addition per lane of a group, and two shifts to widen it.
constexpr DotInstruction kPlain[] = {
    {"plain", DotForm::Plain, Machine::None, kNone, kNone, "", 8, 8, 4},  // groups of four
    {"plain", DotForm::Plain, Machine::None, kNone, kNone, "", 4, 4, 2},  // of two
};

// dp4a of PTX, OpSDot, OpUDot and OpSUDot of SPIR-V: of codes of any signs, as they are.
constexpr DotInstruction kOfDevices = {"dot", DotForm::Native, Machine::None, kNone, kNone, "", 1, 0, 1};

DType other_sign(DType t) { return t == kU8 ? kI8 : t == kI8 ? kU8 : kNone; }

// How `row` computes operands of these types, if it can.
std::optional<DotChoice> match(const DotInstruction& row, DType a, DType b) {
  using Flip = DotChoice::Flip;
  for (const Flip flip : {Flip::None, Flip::Second, Flip::First})
    for (const bool swapped : {false, true}) {
      const DType first = swapped ? b : a, second = swapped ? a : b;
      if (row.a == (flip == Flip::First ? other_sign(first) : first) && row.b == (flip == Flip::Second ? other_sign(second) : second))
        return DotChoice{&row, swapped, flip};
    }
  return std::nullopt;
}

using Operands = std::set<std::pair<DType, DType>>;  // of all Dots

void add_dots(const std::vector<loop::StmtPtr>& block, std::unordered_set<const ir::Expr*>& seen, Operands& out) {
  const auto expression = [&](const ir::Expr* root) {
    std::vector<const ir::Expr*> stack;
    if (root) stack.push_back(root);
    while (!stack.empty()) {
      const ir::Expr* e = stack.back();
      stack.pop_back();
      if (!seen.insert(e).second) continue;
      if (e->op == ir::Op::Dot) out.emplace(e->args[1]->type.dtype, e->args[2]->type.dtype);
      stack.insert(stack.end(), e->args.begin(), e->args.end());
    }
  };
  for (const loop::StmtPtr& s : block) {
    for (const ir::Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) expression(e);
    for (const ir::Expr* e : s->index) expression(e);
    add_dots(s->body, seen, out);
    add_dots(s->orelse, seen, out);
  }
}

bool has_tiles(const std::vector<loop::StmtPtr>& block) {
  return std::any_of(block.begin(), block.end(), [](const loop::StmtPtr& s) { return s->kind == loop::StmtKind::Tiles || has_tiles(s->body) || has_tiles(s->orelse); });
}

}  // namespace

DotChoice choose_dot(const Target& target, DType a, DType b) {
  DotChoice best{&kPlain[bits_of(a) == 8 ? 0 : 1]};
  if (target.is_device()) return target.has_dot && bits_of(a) == 8 ? DotChoice{&kOfDevices} : best;
  for (const DotInstruction& row : kInstructions) {
    if (row.machine != target.machine || !(row.feature.empty() || has_feature(target, row.feature))) continue;
    if (const auto choice = match(row, a, b); choice && choice->steps() < best.steps()) best = *choice;
  }
  return best;
}

const Target& least_target(const Target& target, const loop::Kernel& kernel) {
  std::unordered_set<const ir::Expr*> seen;
  Operands dots;
  if (!target.base.empty()) add_dots(kernel.body, seen, dots);
  const Target* least = &target;
  if (target.has_tiles && has_tiles(kernel.body)) return target;
  for (const Target* base = find_target(target.base); base; base = find_target(base->base)) {
    if (!std::all_of(dots.begin(), dots.end(), [&](const auto& d) { return choose_dot(*base, d.first, d.second) == choose_dot(target, d.first, d.second); })) break;
    least = base;
  }
  return *least;
}

}  // namespace mlc::targets
