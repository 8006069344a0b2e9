#include "packager/nest/facts/positive.h"

#include <algorithm>

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {

// The factors of an extent that are neither numbers nor sums, and may be 0 for all that is known.
std::vector<const Expr*> unsure_factors(const Expr* extent) {
  std::vector<const Expr*> found, stack{extent};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (e->op == Op::Mul) stack.insert(stack.end(), e->args.begin(), e->args.end());
    else if (e->op == Op::FloorDiv && !e->args[1]->is_const()) stack.push_back(e->args[1]);  // a quotient by 0 is none
    else if (!e->is_const() && e->op != Op::Add && e->op != Op::Sub && ir::interval_of(e).lo == 0) found.push_back(e);
  }
  return found;
}

}  // namespace

// What every point reads has elements: of an extent x - n that x is more than n.
void Positive::add_read(const Nest& nest, const Function& f) {
  for (const Write& w : nest.writes) {
    if (w.value->op != Op::Load) continue;
    for (const Expr* extent : f.arrays[w.value->array].shape) {
      if (extent->is_const() || ir::interval_of(extent).lo > 0) continue;
      const Expr* atom = nullptr;
      ir::walk(extent, [&](const Expr* e) {
        const Expr* leaf[] = {e};
        if (e == extent || e->is_const() || e->type != ir::Type{DType::I64, 1}) return;
        const auto sum = ir::linear_in(ctx_, extent, leaf);
        if (sum && sum->coefficients[0]->is_int(1) && sum->rest->is_const()) atom = e;
      });
      if (!atom || there_.contains(atom)) continue;
      const Expr* p = ctx_.sym(ctx_.numbered_sym("positive ", extents_back_.size(), 1, INT64_MAX, 1));
      there_.emplace(atom, ctx_.add(p, ctx_.sub(atom, extent)));
      extents_back_.emplace(p, extent);
    }
  }
}

Positive::Positive(ir::Context& ctx, const Nest& nest, const Function* f) : ctx_(ctx) {
  if (f) add_read(nest, *f);
  for (const ir::Dim* d : nest.dims)
    for (const Expr* e : unsure_factors(d->extent)) {
      if (there_.contains(e)) continue;
      const Expr* p = ctx.sym(ctx.numbered_sym("positive ", extents_back_.size(), 1, ir::interval_of(e).hi, std::max<int64_t>(1, ir::divisor_of(e))));
      there_.emplace(e, p);
      extents_back_.emplace(p, e);
    }
  back_ = extents_back_;
  const std::unordered_map<const Expr*, const Expr*> positive = there_;
  for (const ir::Dim* d : nest.dims) {
    const Expr* extent = ctx.substitute(d->extent, positive);
    if (extent == d->extent) continue;
    const Expr* p = ctx.dim(ctx.declare_dim(d->name, extent));
    there_.emplace(ctx.dim(d), p);
    back_.emplace(p, ctx.dim(d));
  }
}

}  // namespace mlc::nest
