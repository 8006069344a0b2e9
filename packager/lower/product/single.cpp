// Products of free extents that have one column, or one row, in some runs. A matrix times a vector wants vectors along the sum, and
// what is read once is not worth panels. The run decides between two kernels: each has a dim of one point, or of none.
#include <algorithm>

#include "packager/lower/product/tiled_product.h"

namespace mlc::lower {
namespace {

using ir::Expr;
using ir::Op;

// Whether folds run over this extent: these are no dims of the nest, and stay what they are.
bool is_folded(const FlatNest& nest, const Expr* extent) {
  bool found = false;
  for (const FlatWrite& w : nest.writes)
    ir::walk(w.value, [&](const Expr* e) {
      if (e->op != Op::Fold) return;
      for (const ir::Dim* d : e->fold->dims) found |= ir::depends_on(d->extent, extent);
    });
  return found;
}

void add_condition(ir::Context& ctx, FlatNest& nest, const Expr* condition) {
  nest.dims.insert(nest.dims.begin(), ctx.declare_dim("any", ctx.select(condition, ctx.integer(1), ctx.integer(0))));
}

// `nest` as it is where this extent of one of its dims is 1.
FlatNest with_one(ir::Context& ctx, const FlatNest& nest, const Expr* extent) {
  const std::unordered_map<const Expr*, const Expr*> one{{extent, ctx.integer(1)}};
  FlatNest single = nest;
  substitute(ctx, single, one);
  for (const ir::Dim*& d : single.dims) {
    const Expr* points = ctx.substitute(d->extent, one);
    if (points == d->extent) continue;
    const ir::Dim* other = ctx.declare_dim(d->name, points);
    substitute(ctx, single, {{ctx.dim(d), ctx.dim(other)}});
    d = other;
  }
  collapse(ctx, single);
  return single;
}

}  // namespace

Status split_single(const Job& job, FlatNest& nest, Kernels& kernels) {
  ir::Context& ctx = job.ctx;
  const auto c = tiled_product(job, nest);
  if (!c || c->codes() || !c->m || c->along_k()) return ok();
  std::vector<std::pair<const ir::Dim*, const char*>> sides;
  if (!c->padded_panels && !c->few) sides.emplace_back(c->n, ".column");
  if ((c->needs_pack || !c->padded_panels) && !c->m_outer) sides.emplace_back(c->m, ".row");
  const FlatNest whole = nest;
  const Expr* left = ctx.boolean(true);  // which runs no kernel has so far
  for (const auto& [d, name] : sides) {
    if (d->extent->is_const() || std::find(whole.dims.begin(), whole.dims.end(), d) == whole.dims.end() || is_folded(whole, d->extent)) continue;
    const Expr* is_one = ctx.binary(Op::Eq, d->extent, ctx.integer(1));
    FlatNest single = with_one(ctx, whole, d->extent);
    add_condition(ctx, single, ctx.logical_and(left, is_one));
    Job part = job;
    part.name += name;
    MLC_ASSIGN(loop::Kernel kernel, kernel_of(part, single));
    kernels.push_back(std::move(kernel));
    left = ctx.logical_and(left, ctx.logical_not(is_one));
  }
  if (!left->is_const()) add_condition(ctx, nest, left);
  return ok();
}

}  // namespace mlc::lower
