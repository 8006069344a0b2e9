#include "packager/lower/flat/facts.h"

#include <algorithm>

#include "packager/ir/broadcast.h"
#include "targets/machines.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

double distinct_values(const Expr* e, const ir::Dim* except) {
  double values = 1;
  ir::walk(e, [&](const Expr* x) {
    if (x->op == Op::Dim && x->dim != except)
      values *= x->dim->extent->is_const() ? static_cast<double>(x->dim->extent->i) : 1e9;
  });
  return values;
}

bool is_contiguous(ir::Context& ctx, const Expr* address, const ir::Dim* d) {
  const Expr* leaf[] = {ctx.dim(d)};
  auto lin = ir::linear_in(ctx, address, leaf);
  return lin && ir::without_steps(ctx, lin->coefficients[0])->is_int(1);
}

bool is_unconditional(const Expr* value, const Expr* part) {
  std::vector<const Expr*> stack{value};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (e == part) return true;
    if (e->op == Op::Fold || e->op == Op::Load) continue;
    const size_t always = e->op == Op::Select || e->op == Op::And || e->op == Op::Or ? 1 : e->args.size();
    stack.insert(stack.end(), e->args.begin(), e->args.begin() + static_cast<ptrdiff_t>(always));
  }
  return false;
}

double cost_alone(const Expr* e) {
  switch (e->op) {
    case Op::Const: case Op::Sym: case Op::Var: case Op::Dim: return 0;
    case Op::Load: return static_cast<double>(e->args.size()) + 1;
    case Op::Fold: return 1;
    default: {
      // Floats below f32 are widened for every operation, and rounded after it.
      const bool narrow = is_float(e->type.dtype) && bits_of(e->type.dtype) < 32;
      return e->op >= Op::Exp && e->op <= Op::Erf ? targets::kAnyProcessor.function_operations : narrow ? 5 : 1;
    }
  }
}

DimSet Facts::bit(const ir::Dim* d) {
  auto [it, fresh] = bits_.try_emplace(d, static_cast<unsigned>(bits_.size()));
  if (it->second < 64) return DimSet{1} << it->second;
  overflow_ = true;
  return 0;
}

const Facts::Fact& Facts::of(const Expr* root) {
  if (auto it = facts_.find(root); it != facts_.end()) return it->second;
  // Extents are numbers that the plan works out: nothing is known of them, and they cost nothing.
  ir::walk_past_extents(root, [&](const Expr* e) {
    if (facts_.contains(e)) return;
    Fact f;
    for (const Expr* a : e->args) {
      const Fact& x = facts_[a];
      f.dims |= x.dims;
      f.fold |= x.fold;
      f.guard |= x.guard;
      f.cost += x.cost;
    }
    switch (e->op) {
      case Op::Const: case Op::Sym: case Op::Var: break;
      case Op::Dim: f.dims |= bit(e->dim); break;
      case Op::Load:
        f.guard |= e->access != ir::Access::Clamped;
        f.cost = cost_alone(e);  // addresses are cheap: strength-reduced
        break;
      case Op::Fold: {
        if (e->fold->where) {
          const Fact& w = facts_[e->fold->where];
          f.dims |= w.dims;
          f.guard |= w.guard;
        }
        double points = 1;
        for (const ir::Dim* d : e->fold->dims) {
          f.dims &= ~bit(d);
          points *= estimate(d->extent);
        }
        f.cost = (f.cost + cost_alone(e)) * points;
        f.fold = true;
        break;
      }
      default: f.cost += cost_alone(e);
    }
    facts_[e] = f;
  });
  return facts_[root];
}

}  // namespace mlc::lower
