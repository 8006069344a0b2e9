#include <algorithm>

#include "packager/nest/block/block_compiler.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

// Registers of the results, by field.
const std::vector<int>& BlockCompiler::fold(const Expr* e, Scope& scope) {
  for (Scope* s = &scope; s; s = s->parent)
    if (auto it = s->folds.find(e); it != s->folds.end()) return it->second;
  FoldCode code;
  code.combiner = e->fold->combiner;
  code.wide = accumulator(*code.combiner, e->type.dtype);
  code.mask = scope.mask;
  for (const ir::Dim* d : e->fold->dims) code.dims.push_back(slot_.at(d));
  std::vector<int>& results = scope.folds[e];
  if (is_sum_of_products(e, scope, code)) sum_of_products(e, scope, code);
  else general_fold(e, scope, code);
  if (failed()) {
    results.assign(e->args.size(), 0);
    return results;
  }
  const std::vector<int> totals = code.totals;
  Instr i;
  i.kind = Instr::Fold;
  i.code = static_cast<int>(program_.folds.size());
  i.to = e->type.dtype;
  program_.folds.push_back(std::move(code));
  scope.code->push_back(i);
  for (size_t k = 0; k < totals.size(); ++k) {
    // Results have registers of their own: the accumulators are used again when the fold is.
    Instr copy;
    copy.kind = Instr::Copy;
    copy.a = totals[k];
    copy.to = e->args[k]->type.dtype;
    copy.dst = new_register(class_of(copy.to), uniform(totals[k]));
    scope.code->push_back(copy);
    results.push_back(copy.dst);
  }
  return results;
}

void BlockCompiler::general_fold(const Expr* e, Scope& scope, FoldCode& code) {
  Scope body;
  body.parent = &scope;
  body.mask = scope.mask;
  for (const ir::Dim* d : e->fold->dims) body.fold_dims |= bit(d);
  bool one = true;
  if (e->fold->where) {
    body.code = &code.where;
    code.where_reg = compile(e->fold->where, body);
    if (failed()) return;
    if (scope.mask >= 0) code.where_reg = mask_of(code.where_reg, body, scope.mask, false);
    code.check_reg = body.mask = code.where_reg;
    one = uniform(code.where_reg);
  }
  body.code = &code.body;
  for (const Expr* item : e->args) code.items.push_back(compile(item, body));
  if (failed()) return;
  for (int r : code.items) one = one && uniform(r);
  if (!one) {
    for (int& r : code.items) r = wide(r, body);
    if (code.where_reg >= 0) code.where_reg = wide(code.where_reg, body);
  }
  for (const Expr* item : e->args) code.totals.push_back(new_register(class_of(item->type.dtype), one));
  if (code.combiner->join == ir::Join::Custom) custom_join(e, scope, code);
  else code.units.push_back(constant(code.wide, evaluator_.units(code.combiner, code.wide)[0], one));
}

void BlockCompiler::custom_join(const Expr* e, Scope& scope, FoldCode& code) {
  const ir::Combiner& combiner = *code.combiner;
  Scope join;
  join.parent = &scope;
  join.code = &code.join;
  join.join = true;
  for (size_t k = 0; k < e->args.size(); ++k) {
    join.done[combiner.left[k]] = code.totals[k];
    join.done[combiner.right[k]] = code.items[k];
  }
  const bool one = uniform(code.totals[0]);
  auto compile_in = [&](const Expr* value, Scope& home) {
    const int r = compile(value, home);
    return one || failed() ? r : wide(r, home);
  };
  for (const Expr* unit : combiner.units) code.units.push_back(compile_in(unit, scope));
  for (const Expr* joined : combiner.joins) code.joined.push_back(compile_in(joined, join));
}

// A sum of products of two factors, all indices and conditions affine, that runs without a mask.
bool BlockCompiler::is_sum_of_products(const Expr* e, const Scope& scope, FoldCode& code) const {
  const Expr* product = e->args[0];
  code.multiply_add = sum_in(e->type.dtype);
  const bool fits = code.multiply_add && code.combiner->join == ir::Join::Sum && product->op == Op::Mul && scope.mask < 0 && !code.dims.empty();
  if (fits && std::all_of(product->args.begin(), product->args.end(), [&](const Expr* e) { return is_plain_factor(e); }) &&
      (!e->fold->where || affine_conditions(e->fold->where, code.conditions)))
    return true;
  code.multiply_add.reset();
  return false;
}

bool BlockCompiler::is_plain_factor(const Expr* e) const {
  const auto factor = factor_of(e, e->type.dtype);
  if (!factor) return false;
  for (const Expr* load : {factor->of, factor->less}) {
    if (!load || load->op != Op::Load) continue;
    if (load->access != ir::Access::Proved) return false;
    for (const Expr* index : load->args)
      if (!facts_.at(index).affine) return false;
  }
  return !factor->less || factor->less->op != Op::Load || is_inside(factor->less);
}

bool BlockCompiler::is_inside(const Expr* load) const {
  const Tensor* t = evaluator_.tensor(load->array);
  for (size_t k = 0; k < load->args.size(); ++k)
    if (!t || k >= t->shape.size() || !inside(*facts_.at(load->args[k]).affine, t->shape[k])) return false;
  return true;
}

FactorCode BlockCompiler::factor_code(const Expr* e, Scope& scope) {
  const Factor factor = *factor_of(e, e->type.dtype);
  FactorCode code{access(factor.of->array, factor.of->args, scope), {}, {}};
  if (!factor.less) return code;
  if (factor.less->op == Op::Load) code.less = access(factor.less->array, factor.less->args, scope);
  else code.constant = ir::Scalar{factor.less->i, factor.less->f};
  return code;
}

bool BlockCompiler::varies(const FactorCode& f, size_t slot) const { return f.of.linear.k[slot] != 0 || (f.less && f.less->linear.k[slot] != 0); }

void BlockCompiler::sum_of_products(const Expr* e, Scope& scope, FoldCode& code) {
  code.x = factor_code(e->args[0]->args[0], scope);
  code.y = factor_code(e->args[0]->args[1], scope);
  if (failed()) return;
  const bool has_lanes = program_.lane >= 0;
  const size_t lane = static_cast<size_t>(std::max(0, program_.lane));
  bool one = !has_lanes || (!varies(code.x, lane) && !varies(code.y, lane));
  for (const Affine& a : code.conditions) one = one && lane_step(a) == 0;
  code.totals.push_back(new_register(class_of(e->type.dtype), one));
  bool is_outermost = true;  // rows are kept for one point of the map, not of a fold around
  for (const Scope* s = &scope; s; s = s->parent) is_outermost = is_outermost && s->fold_dims == 0 && !s->join;
  if (!one && is_outermost) group(code);
}

// Takes rows of a map dim together where only one operand varies along the lanes, and only the other along that dim.
void BlockCompiler::group(FoldCode& f) {
  const size_t lane = static_cast<size_t>(program_.lane);
  const bool x_varies = varies(f.x, lane), y_varies = varies(f.y, lane);
  if (x_varies == y_varies) return;
  f.x_is_vector = x_varies;
  const FactorCode &vector = x_varies ? f.x : f.y, &scalar = x_varies ? f.y : f.x;
  for (const AxisIndex& a : scalar.of.axes)
    if (!a.inside) return;
  int best = -1;
  for (size_t d = 0; d < program_.map_dims; ++d) {
    bool usable = varies(scalar, d) && !varies(vector, d) && program_.extents[d] > 1;
    for (const AxisIndex& a : vector.of.axes) usable = usable && a.at.k[d] == 0;
    for (const Affine& c : f.conditions) usable = usable && c.k[d] == 0;
    if (usable && (best < 0 || program_.extents[d] > program_.extents[static_cast<size_t>(best)])) best = static_cast<int>(d);
  }
  if (best < 0 || (program_.group >= 0 && program_.group != best)) return;
  program_.group = best;
  f.grouped = true;
}

}  // namespace mlc::nest
