#include "packager/nest/block_compiler.h"

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

// A sum in f32 over load * load, all indices and conditions affine, that runs without a mask.
bool BlockCompiler::is_sum_of_products(const Expr* e, const Scope& scope, FoldCode& code) const {
  const Expr* product = e->args[0];
  if (code.combiner->join != ir::Join::Sum || e->type.dtype != DType::F32 || product->op != Op::Mul || scope.mask >= 0 || code.dims.empty())
    return false;
  for (const Expr* operand : product->args) {
    if (operand->op != Op::Load || operand->access != ir::Access::Proved) return false;
    for (const Expr* index : operand->args)
      if (!facts_.at(index).affine) return false;
  }
  return !e->fold->where || affine_conditions(e->fold->where, code.conditions);
}

void BlockCompiler::sum_of_products(const Expr* e, Scope& scope, FoldCode& code) {
  const Expr *x = e->args[0]->args[0], *y = e->args[0]->args[1];
  code.x = access(x->array, x->args, scope);
  code.y = access(y->array, y->args, scope);
  if (failed()) return;
  code.multiply_add = true;
  bool one = lane_step(code.x.linear) == 0 && lane_step(code.y.linear) == 0;
  for (const Affine& a : code.conditions) one = one && lane_step(a) == 0;
  code.totals.push_back(new_register(Register::F32, one));
  if (!one) group(code);
}

// Takes rows of a map dim together where only one operand varies along the lanes, and only the other along that dim.
void BlockCompiler::group(FoldCode& f) {
  const bool x_varies = lane_step(f.x.linear) != 0, y_varies = lane_step(f.y.linear) != 0;
  if (x_varies == y_varies) return;
  f.x_is_vector = x_varies;
  const AccessCode &vector = x_varies ? f.x : f.y, &scalar = x_varies ? f.y : f.x;
  for (const AxisIndex& a : scalar.axes)
    if (!a.inside) return;
  int best = -1;
  for (size_t d = 0; d < program_.map_dims; ++d) {
    bool usable = scalar.linear.k[d] != 0 && program_.extents[d] > 1;
    for (const AxisIndex& a : vector.axes) usable = usable && a.at.k[d] == 0;
    for (const Affine& c : f.conditions) usable = usable && c.k[d] == 0;
    if (usable && (best < 0 || program_.extents[d] > program_.extents[static_cast<size_t>(best)])) best = static_cast<int>(d);
  }
  if (best < 0 || (program_.group >= 0 && program_.group != best)) return;
  program_.group = best;
  f.grouped = true;
}

}  // namespace mlc::nest
