// Enlarging by a whole factor reads element i / k for the k values that are contiguous (nearest neighbours of a picture). Vectors along i
// would gather. Here the dim becomes two, i = k*o + t: vectors run along o, whose elements are contiguous, and are written in turns.
#include <algorithm>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kLeastVectors = 2;  // along what is read

// By how much all of the value divides `d`, which it uses for nothing else; 0: it does not.
int64_t divisor_of(ir::Context& ctx, Facts& facts, const Expr* value, const ir::Dim* d) {
  int64_t divisor = 0;
  bool same = true;
  ir::walk(value, [&](const Expr* e) {
    if (e->op != Op::FloorDiv || e->args[0] != ctx.dim(d)) return;
    same &= e->args[1]->is_const() && (divisor == 0 || e->args[1]->i == divisor);
    if (same) divisor = e->args[1]->i;
  });
  if (!same || divisor < 2) return 0;
  const Expr* rest = ctx.rewrite(value, [&](const Expr* e) { return e->op == Op::FloorDiv && e->args[0] == ctx.dim(d) ? ctx.integer(0) : nullptr; });
  return facts.depends(rest, d) ? 0 : divisor;
}

}  // namespace

void split_repeats(const Job& job, FlatNest& nest) {
  ir::Context& ctx = job.ctx;
  if (nest.where || nest.scan_dim || !nest.kept.empty() || nest.writes.size() != 1 || nest.writes[0].push) return;
  const ir::Dim* d = contiguous_dim(ctx, nest);
  if (!d || !d->extent->is_const()) return;
  Facts facts;
  const int64_t k = divisor_of(ctx, facts, nest.writes[0].value, d);
  if (k < 2 || k > kMostTurns || d->extent->i % k != 0 || facts.has_fold(nest.writes[0].value)) return;
  const ir::Dim* elements = ctx.declare_dim(d->name + ".e", ctx.integer(d->extent->i / k));
  const ir::Dim* turns = ctx.declare_dim(d->name + ".t", ctx.integer(k));
  FlatNest split = nest;
  substitute(ctx, split, {{ctx.dim(d), ctx.add(ctx.mul(ctx.integer(k), ctx.dim(elements)), ctx.dim(turns))}});
  const unsigned lanes = natural_lanes(job, split, elements);
  bool fits = lanes >= 4 && elements->extent->i >= kLeastVectors * int64_t{lanes} && !facts.depends(split.writes[0].value, turns);
  ir::walk(split.writes[0].value, [&](const Expr* e) {
    if (e->op == Op::Load && facts.depends(e, elements)) fits &= e->args.size() == 1 && !facts.needs_guard(e) && is_contiguous(ctx, e->args[0], elements);
  });
  if (!fits) return;
  const auto at = std::find(split.dims.begin(), split.dims.end(), d);
  *at = elements;
  split.dims.insert(at + 1, turns);
  nest = std::move(split);
}

}  // namespace mlc::lower
