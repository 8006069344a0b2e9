#include "packager/plan/symbols.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace mlc::plan {
namespace {

using exec::SymbolOp;
using ir::Op;

std::optional<SymbolOp> integer_op(Op op) {
  switch (op) {
    case Op::Add: return SymbolOp::Add;
    case Op::Sub: return SymbolOp::Sub;
    case Op::Mul: return SymbolOp::Mul;
    case Op::FloorDiv: return SymbolOp::FloorDiv;
    case Op::FloorMod: return SymbolOp::Mod;
    case Op::Min: return SymbolOp::Min;
    case Op::Max: return SymbolOp::Max;
    case Op::Eq: return SymbolOp::Eq;
    case Op::Ne: return SymbolOp::Ne;
    case Op::Lt: return SymbolOp::Lt;
    case Op::Le: return SymbolOp::Le;
    case Op::And: return SymbolOp::And;
    case Op::Or: return SymbolOp::Or;
    case Op::Not: return SymbolOp::Not;
    case Op::Select: return SymbolOp::Select;
    default: return std::nullopt;
  }
}

std::optional<SymbolOp> double_op(Op op) {
  switch (op) {
    case Op::Add: return SymbolOp::FAdd;
    case Op::Sub: return SymbolOp::FSub;
    case Op::Mul: return SymbolOp::FMul;
    case Op::Div: return SymbolOp::FDiv;
    case Op::Sqrt: return SymbolOp::FSqrt;
    case Op::Lt: return SymbolOp::FLt;
    case Op::Le: return SymbolOp::FLe;
    case Op::Select: return SymbolOp::Select;
    default: return std::nullopt;
  }
}

bool commutes(Op op) { return op == Op::Add || op == Op::Mul || op == Op::Eq || op == Op::Ne; }

}  // namespace

uint32_t SymbolTable::emit(SymbolOp op, uint32_t a, uint32_t b, uint32_t c, int64_t imm) {
  const uint32_t dst = num_symbols();
  instrs_.push_back({op, dst, a, b, c, imm});
  return dst;
}

void SymbolTable::bind_input_axis(const ir::Sym* sym, uint32_t input, uint32_t axis) {
  if (!is_bound(sym)) bound_[sym] = input_axis(input, axis);
}

void SymbolTable::bind_input_element(const ir::Sym* sym, uint32_t input, uint32_t element) {
  if (!is_bound(sym)) bound_[sym] = emit(SymbolOp::InputElement, input, element);
}

uint32_t SymbolTable::input_axis(uint32_t input, uint32_t axis) { return emit(SymbolOp::InputDim, input, axis); }

bool SymbolTable::knows(const ir::Expr* e) const {
  bool known = true;
  ir::walk(e, [&](const ir::Expr* node) { known = known && (node->op != Op::Sym || is_bound(node->sym)); });
  return known;
}

std::optional<uint32_t> SymbolTable::in_bounds(const ir::Sym* sym) {
  std::optional<uint32_t> all;
  const uint32_t value = bound_.at(sym);
  const auto demand = [&](uint32_t condition) { all = all ? emit(SymbolOp::And, *all, condition) : condition; };
  if (sym->lo > 0) {  // no extent is negative
    const uint32_t lo = constant(sym->lo);
    demand(emit(SymbolOp::Le, lo, value));
  }
  if (sym->hi < INT64_MAX) {
    const uint32_t hi = constant(sym->hi);
    demand(emit(SymbolOp::Le, value, hi));
  }
  if (sym->multiple > 1) {
    const uint32_t remainder = emit(SymbolOp::Mod, value, constant(sym->multiple));
    demand(emit(SymbolOp::Eq, remainder, constant(0)));
  }
  return all;
}

Status SymbolTable::define(const ir::Sym* sym, const ir::Expr* value) {
  MLC_ASSIGN(bound_[sym], symbol_of(value));
  return ok();
}

// What a node computes, as a number: the same for equal expressions of any two builds, whatever was made before them.
void SymbolTable::add_keys(const ir::Expr* e) {
  ir::walk(e, [&](const ir::Expr* node) {
    if (keys_.count(node)) return;
    uint64_t key = 0xcbf29ce484222325u;
    const auto add = [&](uint64_t value) { key = (key ^ value) * 0x9e3779b97f4a7c15u, key ^= key >> 29; };
    add(static_cast<uint64_t>(node->op)), add(static_cast<uint64_t>(node->type.dtype));
    add(static_cast<uint64_t>(node->i)), add(std::bit_cast<uint64_t>(node->f));
    if (node->sym)
      for (const char c : node->sym->name) add(static_cast<unsigned char>(c));
    std::vector<uint64_t> of_args;
    for (const ir::Expr* arg : node->args) of_args.push_back(keys_.at(arg));
    if (commutes(node->op)) std::sort(of_args.begin(), of_args.end());
    for (const uint64_t arg : of_args) add(arg);
    keys_[node] = key;
  });
}

// Expressions order what commutes by the numbers of nodes, which depend on what else was compiled before. Instructions do not.
std::vector<const ir::Expr*> SymbolTable::ordered_args(const ir::Expr* e) const {
  std::vector<const ir::Expr*> args(e->args.begin(), e->args.end());
  if (commutes(e->op)) std::stable_sort(args.begin(), args.end(), [&](const ir::Expr* a, const ir::Expr* b) { return keys_.at(a) < keys_.at(b); });
  return args;
}

Result<uint32_t> SymbolTable::symbol_of(const ir::Expr* e) {
  add_keys(e);
  struct Open {
    const ir::Expr* node;
    std::vector<const ir::Expr*> args;
    size_t next = 0;
  };
  std::vector<Open> path;
  const auto enter = [&](const ir::Expr* node) {
    if (known_.count(node) == 0) path.push_back({node, ordered_args(node)});
  };
  enter(e);
  while (!path.empty()) {
    Open& top = path.back();
    if (top.next < top.args.size()) {
      enter(top.args[top.next++]);  // may move `top`
      continue;
    }
    const ir::Expr* node = top.node;
    path.pop_back();
    if (known_.count(node)) continue;
    MLC_ASSIGN(const uint32_t symbol, emit_node(node));
    known_[node] = symbol;
  }
  return known_.at(e);
}

uint32_t SymbolTable::constant(int64_t value) { return emit(SymbolOp::Const, 0, 0, 0, value); }
uint32_t SymbolTable::real_constant(double value) { return emit(SymbolOp::FConst, 0, 0, 0, std::bit_cast<int64_t>(value)); }

// Toward zero: rounded up where the signs differ, else down.
uint32_t SymbolTable::truncated_quotient(uint32_t a, uint32_t b) {
  const uint32_t down = emit(SymbolOp::FloorDiv, a, b), up = emit(SymbolOp::CeilDiv, a, b);
  return emit(SymbolOp::Select, signs_differ(a, b), up, down);
}

// The floor modulus has the sign of b; where a has the other one it is one b too much. Nothing here overflows.
uint32_t SymbolTable::truncated_remainder(uint32_t a, uint32_t b) {
  const uint32_t rest = emit(SymbolOp::Mod, a, b);
  const uint32_t much = emit(SymbolOp::And, rest, signs_differ(a, b));
  return emit(SymbolOp::Sub, rest, emit(SymbolOp::Select, much, b, constant(0)));
}

uint32_t SymbolTable::signs_differ(uint32_t a, uint32_t b) {
  const uint32_t zero = constant(0);
  const uint32_t a_below = emit(SymbolOp::Lt, a, zero), b_below = emit(SymbolOp::Lt, b, zero);
  return emit(SymbolOp::Ne, a_below, b_below);
}

uint32_t SymbolTable::equal_reals(uint32_t a, uint32_t b) {
  const uint32_t below = emit(SymbolOp::FLe, a, b), above = emit(SymbolOp::FLe, b, a);
  return emit(SymbolOp::And, below, above);
}

// FMin and FMax drop a NaN in their second operand; that of an expression is kept.
uint32_t SymbolTable::real_extremum(SymbolOp op, uint32_t a, uint32_t b) {
  const uint32_t is_number = emit(SymbolOp::FLe, b, b);
  return emit(SymbolOp::Select, is_number, emit(op, a, b), b);
}

// What plans have no instruction for, made of those they have.
std::optional<uint32_t> SymbolTable::composed(const ir::Expr* e, std::span<const uint32_t> args) {
  const bool real = is_float(e->args[0]->type.dtype);
  // floor, ceil and rint give integers in a plan; as a floating-point value they are converted back.
  const auto whole = [&](SymbolOp op) { return emit(SymbolOp::ToDouble, emit(op, args[0])); };
  switch (e->op) {
    case Op::Floor: return whole(SymbolOp::FFloor);
    case Op::Ceil: return whole(SymbolOp::FCeil);
    case Op::Rint: return whole(SymbolOp::FRint);
    case Op::Trunc: return whole(SymbolOp::FTrunc);
    case Op::Neg: return real ? emit(SymbolOp::FSub, real_constant(-0.0), args[0]) : emit(SymbolOp::Sub, constant(0), args[0]);
    case Op::Abs:
      if (real) return emit(SymbolOp::FMax, args[0], emit(SymbolOp::FSub, real_constant(-0.0), args[0]));
      return emit(SymbolOp::Max, args[0], emit(SymbolOp::Sub, constant(0), args[0]));
    case Op::IsNan: return emit(SymbolOp::Not, emit(SymbolOp::FLe, args[0], args[0]));
    case Op::Min: case Op::Max:
      if (!real) return std::nullopt;
      return real_extremum(e->op == Op::Min ? SymbolOp::FMin : SymbolOp::FMax, args[0], args[1]);
    case Op::Eq:
      if (!real) return std::nullopt;
      return equal_reals(args[0], args[1]);
    case Op::Ne:
      if (!real) return std::nullopt;
      return emit(SymbolOp::Not, equal_reals(args[0], args[1]));
    case Op::TruncDiv: return truncated_quotient(args[0], args[1]);
    case Op::TruncMod: return truncated_remainder(args[0], args[1]);
    default: return std::nullopt;
  }
}

uint32_t SymbolTable::converted(DType from, DType to, uint32_t value) {
  if (to == DType::Bool) return is_float(from) ? emit(SymbolOp::Not, equal_reals(value, real_constant(0))) : emit(SymbolOp::Ne, value, constant(0));
  if (is_float(to)) return is_float(from) ? value : emit(SymbolOp::ToDouble, value);
  return is_float(from) ? emit(SymbolOp::FTrunc, value) : value;
}

Result<uint32_t> SymbolTable::emit_node(const ir::Expr* e) {
  const bool floating = is_float(e->type.dtype);
  if (e->op == Op::Const) return floating ? real_constant(e->f) : constant(e->i);
  if (e->op == Op::Sym) {
    auto found = bound_.find(e->sym);
    if (found == bound_.end())
      return Status(Code::Unsupported, 2010, "the extent '" + e->sym->name + "' does not follow from the shape of any input");
    return found->second;
  }
  if (!ir::is_extent(e))
    return Status(Code::Unsupported, 2010, "the extent " + ir::to_string(e) + " cannot be computed before the run");
  uint32_t args[3] = {};
  const std::vector<const ir::Expr*> ordered = ordered_args(e);
  for (size_t k = 0; k < ordered.size(); ++k) args[k] = known_.at(ordered[k]);
  const std::span<const uint32_t> given(args, e->args.size());
  const bool real_operands = is_float(e->args.back()->type.dtype);
  std::optional<uint32_t> symbol;
  if (e->op == Op::Cast) symbol = converted(e->args[0]->type.dtype, e->type.dtype, args[0]);
  if (!symbol) symbol = composed(e, given);
  if (!symbol)
    if (const auto op = real_operands ? double_op(e->op) : integer_op(e->op)) symbol = emit(*op, args[0], args[1], args[2]);
  if (!symbol) return Status(Code::Internal, 2010, "no instruction for the extent " + ir::to_string(e));
  // Symbols compute in double; a float is a double that is rounded after each operation.
  return e->type.dtype == DType::F32 ? emit(SymbolOp::FRoundF32, *symbol) : *symbol;
}

}  // namespace mlc::plan
