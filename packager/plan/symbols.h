// Extents as plan symbols: every distinct expression becomes one instruction of the function's shape program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "schema/plan/plan.h"

namespace mlc::plan {

class SymbolTable {
 public:
  // Binds `sym` to the extent of an input's axis. The first binding of a symbol holds; later ones are left to the
  // runtime's check of that input's shape.
  void bind_input_axis(const ir::Sym* sym, uint32_t input, uint32_t axis);
  // Binds `sym` to an element of an input.
  void bind_input_element(const ir::Sym* sym, uint32_t input, uint32_t element);
  // The extent of an input's axis, whatever it is.
  uint32_t input_axis(uint32_t input, uint32_t axis);
  bool knows(const ir::Expr* e) const;  // all of its symbols are bound
  // Gives `sym` the value of an expression over symbols bound before.
  Status define(const ir::Sym* sym, const ir::Expr* value);
  // The symbol that is 1 where a bound symbol is between its bounds and a multiple of what it must be; none if any value
  // is right. Written as it stands: an ir::Context would simplify it by the very bounds that it asks for.
  std::optional<uint32_t> in_bounds(const ir::Sym* sym);
  bool is_bound(const ir::Sym* sym) const { return bound_.count(sym) != 0; }
  // The symbol that holds the value of `e`, which ir::is_extent.
  Result<uint32_t> symbol_of(const ir::Expr* e);
  uint32_t num_symbols() const { return static_cast<uint32_t>(instrs_.size()); }
  const std::vector<exec::SymbolInstr>& instructions() const { return instrs_; }

 private:
  uint32_t emit(exec::SymbolOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, int64_t imm = 0);
  Result<uint32_t> emit_node(const ir::Expr* e);
  std::optional<uint32_t> composed(const ir::Expr* e, std::span<const uint32_t> args);
  uint32_t converted(DType from, DType to, uint32_t value);
  uint32_t constant(int64_t value);
  uint32_t real_constant(double value);
  uint32_t truncated_quotient(uint32_t a, uint32_t b);
  uint32_t truncated_remainder(uint32_t a, uint32_t b);
  uint32_t signs_differ(uint32_t a, uint32_t b);
  uint32_t equal_reals(uint32_t a, uint32_t b);
  uint32_t real_extremum(exec::SymbolOp op, uint32_t a, uint32_t b);

  std::unordered_map<const ir::Sym*, uint32_t> bound_;
  void add_keys(const ir::Expr* e);
  std::vector<const ir::Expr*> ordered_args(const ir::Expr* e) const;

  std::unordered_map<const ir::Expr*, uint32_t> known_;
  std::unordered_map<const ir::Expr*, uint64_t> keys_;  // of all nodes of expressions that were asked for
  std::vector<exec::SymbolInstr> instrs_;
};

}  // namespace mlc::plan
