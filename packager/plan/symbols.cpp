#include "packager/plan/symbols.h"

#include <bit>
#include <optional>

namespace mlc::plan {
namespace {

using namespace fb::plan;
using ir::Op;

std::optional<SymbolOp> integer_op(Op op) {
  switch (op) {
    case Op::Add: return SymbolOp_Add;
    case Op::Sub: return SymbolOp_Sub;
    case Op::Mul: return SymbolOp_Mul;
    case Op::FloorDiv: return SymbolOp_FloorDiv;
    case Op::FloorMod: return SymbolOp_Mod;
    case Op::Min: return SymbolOp_Min;
    case Op::Max: return SymbolOp_Max;
    case Op::Eq: return SymbolOp_Eq;
    case Op::Ne: return SymbolOp_Ne;
    case Op::Lt: return SymbolOp_Lt;
    case Op::Le: return SymbolOp_Le;
    case Op::And: return SymbolOp_And;
    case Op::Or: return SymbolOp_Or;
    case Op::Not: return SymbolOp_Not;
    case Op::Select: return SymbolOp_Select;
    default: return std::nullopt;
  }
}

std::optional<SymbolOp> double_op(Op op) {
  switch (op) {
    case Op::Add: return SymbolOp_FAdd;
    case Op::Sub: return SymbolOp_FSub;
    case Op::Mul: return SymbolOp_FMul;
    case Op::Div: return SymbolOp_FDiv;
    case Op::Min: return SymbolOp_FMin;
    case Op::Max: return SymbolOp_FMax;
    case Op::Sqrt: return SymbolOp_FSqrt;
    case Op::Lt: return SymbolOp_FLt;
    case Op::Le: return SymbolOp_FLe;
    case Op::Select: return SymbolOp_Select;
    default: return std::nullopt;
  }
}

}  // namespace

uint32_t SymbolTable::emit(SymbolOp op, uint32_t a, uint32_t b, uint32_t c, int64_t imm) {
  const uint32_t dst = num_symbols();
  instrs_.emplace_back(op, dst, a, b, c, imm);
  return dst;
}

void SymbolTable::bind_input_axis(const ir::Sym* sym, uint32_t input, uint32_t axis) {
  if (!is_bound(sym)) bound_[sym] = input_axis(input, axis);
}

void SymbolTable::bind_input_element(const ir::Sym* sym, uint32_t input, uint32_t element) {
  if (!is_bound(sym)) bound_[sym] = emit(SymbolOp_InputElement, input, element);
}

uint32_t SymbolTable::input_axis(uint32_t input, uint32_t axis) { return emit(SymbolOp_InputDim, input, axis); }

bool SymbolTable::knows(const ir::Expr* e) const {
  bool known = true;
  ir::walk(e, [&](const ir::Expr* node) { known = known && (node->op != Op::Sym || is_bound(node->sym)); });
  return known;
}

std::optional<uint32_t> SymbolTable::in_bounds(const ir::Sym* sym) {
  std::optional<uint32_t> all;
  const uint32_t value = bound_.at(sym);
  const auto constant = [&](int64_t v) { return emit(SymbolOp_Const, 0, 0, 0, v); };
  const auto demand = [&](uint32_t condition) { all = all ? emit(SymbolOp_And, *all, condition) : condition; };
  if (sym->lo > 0) {  // no extent is negative
    const uint32_t lo = constant(sym->lo);
    demand(emit(SymbolOp_Le, lo, value));
  }
  if (sym->hi < INT64_MAX) {
    const uint32_t hi = constant(sym->hi);
    demand(emit(SymbolOp_Le, value, hi));
  }
  if (sym->multiple > 1) {
    const uint32_t remainder = emit(SymbolOp_Mod, value, constant(sym->multiple));
    demand(emit(SymbolOp_Eq, remainder, constant(0)));
  }
  return all;
}

Status SymbolTable::define(const ir::Sym* sym, const ir::Expr* value) {
  MLC_ASSIGN(bound_[sym], symbol_of(value));
  return ok();
}

Result<uint32_t> SymbolTable::symbol_of(const ir::Expr* e) {
  std::vector<const ir::Expr*> order;
  ir::walk(e, [&](const ir::Expr* node) { order.push_back(node); });
  for (const ir::Expr* node : order) {
    if (known_.count(node)) continue;
    MLC_ASSIGN(const uint32_t symbol, emit_node(node));
    known_[node] = symbol;
  }
  return known_.at(e);
}

Result<uint32_t> SymbolTable::emit_node(const ir::Expr* e) {
  const bool floating = is_float(e->type.dtype);
  const auto arg = [&](size_t k) { return k < e->args.size() ? known_.at(e->args[k]) : 0u; };
  if (e->op == Op::Const)
    return floating ? emit(SymbolOp_FConst, 0, 0, 0, std::bit_cast<int64_t>(e->f)) : emit(SymbolOp_Const, 0, 0, 0, e->i);
  if (e->op == Op::Sym) {
    auto found = bound_.find(e->sym);
    if (found == bound_.end())
      return Status(Code::Unsupported, 2010, "the extent '" + e->sym->name + "' does not follow from any input");
    return found->second;
  }
  // Symbols compute in double; a float is a double that is rounded after each operation.
  const auto rounded = [&](uint32_t symbol) { return e->type.dtype == DType::F32 ? emit(SymbolOp_FRoundF32, symbol) : symbol; };
  if (e->op == Op::Cast) {
    const bool from_float = is_float(e->args[0]->type.dtype);
    if (from_float && floating) return rounded(arg(0));
    if (from_float) return emit(SymbolOp_FTrunc, arg(0));
    if (floating) return rounded(emit(SymbolOp_ToDouble, arg(0)));
    if (e->type.dtype == DType::Bool) return emit(SymbolOp_Ne, arg(0), emit(SymbolOp_Const, 0, 0, 0, 0));
    return arg(0);
  }
  const bool float_operands = !e->args.empty() && is_float(e->args.back()->type.dtype);
  // floor, ceil and rint give integers in a plan; as a floating-point value they are converted back.
  const auto whole = [&](SymbolOp op) { return emit(SymbolOp_ToDouble, emit(op, arg(0))); };
  switch (e->op) {
    case Op::Floor: return whole(SymbolOp_FFloor);
    case Op::Ceil: return whole(SymbolOp_FCeil);
    case Op::Rint: return whole(SymbolOp_FRint);
    case Op::Trunc: return whole(SymbolOp_FTrunc);
    case Op::Neg:
      if (floating) return emit(SymbolOp_FSub, emit(SymbolOp_FConst, 0, 0, 0, std::bit_cast<int64_t>(-0.0)), arg(0));
      return emit(SymbolOp_Sub, emit(SymbolOp_Const, 0, 0, 0, 0), arg(0));
    case Op::Abs:
      if (!floating) return emit(SymbolOp_Max, arg(0), emit(SymbolOp_Sub, emit(SymbolOp_Const, 0, 0, 0, 0), arg(0)));
      break;
    default: break;
  }
  if (auto op = float_operands ? double_op(e->op) : integer_op(e->op)) {
    const uint32_t symbol = emit(*op, arg(0), arg(1), arg(2));
    return floating ? rounded(symbol) : symbol;
  }
  return Status(Code::Unsupported, 2010, "an extent is computed in a way that is not supported");
}

}  // namespace mlc::plan
