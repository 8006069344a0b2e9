// A transposed convolution gathers: y[o] = sum over k of x[(o + lo - k) / s] * w[k] where s divides o + lo - k. For one
// remainder of o the taps that divide are every s-th, so with o = s*o1 + p and k = s*k1 + r(p) the condition is gone
// and each phase p is a plain convolution over o1 and k1 (a contraction with p as an outer dim).
#include <algorithm>
#include <numeric>

#include "packager/lower/flat.h"
#include "packager/lower/body.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

const Expr* guarded(ir::Context& ctx, Facts& facts, const Expr* e, const ir::Dim* d) {
  return ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
    if (x->op != Op::Load || x->access != ir::Access::Clamped || !facts.depends(x, d)) return nullptr;
    return ctx.load(x->array, x->type, {x->args.begin(), x->args.end()}, ir::Access::Proved);
  });
}

namespace {

struct Divisible {  // E mod s == 0
  const Expr* value = nullptr;
  int64_t s = 0;
};

std::optional<Divisible> divisibility(const Expr* term) {
  if (term->op != Op::Eq) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const Expr *mod = term->args[static_cast<size_t>(side)], *zero = term->args[static_cast<size_t>(1 - side)];
    if (mod->op == Op::FloorMod && zero->is_int(0) && mod->args[1]->is_const() && mod->args[1]->i > 1 &&
        mod->args[1]->i <= 64)
      return Divisible{mod->args[0], mod->args[1]->i};
  }
  return std::nullopt;
}

std::optional<int64_t> inverse(int64_t c, int64_t s) {
  c = ((c % s) + s) % s;
  for (int64_t k = 1; k < s; ++k)
    if (c * k % s == 1) return k;
  return std::nullopt;
}

bool split_one(ir::Context& ctx, FlatNest& nest, const Expr* fold) {
  Facts facts;
  for (const Expr* term : conjuncts(ctx, fold->fold->where)) {
    auto divisible = divisibility(term);
    if (!divisible) continue;
    const int64_t s = divisible->s;
    for (const ir::Dim* o : nest.dims)
      for (const ir::Dim* k : fold->fold->dims) {
        const Expr* leaves[] = {ctx.dim(o), ctx.dim(k)};
        auto lin = ir::linear_in(ctx, divisible->value, leaves);
        if (!lin || facts.dims(lin->rest) || !lin->coefficients[0]->is_const() || !lin->coefficients[1]->is_const())
          continue;
        const int64_t along_o = lin->coefficients[0]->i, along_k = lin->coefficients[1]->i;
        auto inv = inverse(along_k, s);
        if ((along_o != 1 && along_o != -1) || !inv || ir::divisor_of(o->extent) % s != 0) continue;

        const Expr* step = ctx.integer(s);
        const ir::Dim* o1 = ctx.declare_dim(o->name + "1", ctx.floordiv(o->extent, step));
        const ir::Dim* p = ctx.declare_dim(o->name + "0", step);
        const ir::Dim* k1 = ctx.declare_dim(k->name + "1", ctx.ceildiv(k->extent, step));
        // along_o*p + rest + along_k*k = 0 mod s, hence k = -(along_o*p + rest) / along_k; factors reduced so that the
        // usual case, k = p + rest, reads so.
        auto reduced = [&](int64_t factor) { return ctx.integer(((factor % s) + s) % s); };
        const Expr* shift = ctx.add(ctx.mul(reduced(along_o * -*inv), ctx.dim(p)), ctx.mul(reduced(-*inv), lin->rest));
        const Expr* r = ctx.floormod(shift, step);
        const Expr* new_o = ctx.add(ctx.mul(step, ctx.dim(o1)), ctx.dim(p));
        const Expr* new_k = ctx.add(ctx.mul(step, ctx.dim(k1)), r);

        // The fold over k1, then everything in terms of o1 and p.
        ir::Fold f = *fold->fold;
        std::replace(f.dims.begin(), f.dims.end(), k, k1);
        std::unordered_map<const Expr*, const Expr*> inside{{ctx.dim(o), new_o}, {ctx.dim(k), new_k}};
        // Where s does not divide k's extent the last k1 has taps beyond it: reads along k that needed no condition
        // (they were in range for every k) need one now.
        const bool exact = k->extent->is_const() && k->extent->i % s == 0;
        const auto moved = [&](const Expr* e) {
          if (!exact) e = guarded(ctx, facts, e, k);
          return ctx.substitute(e, inside);
        };
        const Expr* where = exact ? ctx.boolean(true) : ctx.binary(Op::Lt, new_k, k->extent);
        for (const Expr* t : conjuncts(ctx, fold->fold->where))
          if (t != term) where = ctx.binary(Op::And, where, moved(t));
        f.where = where->is_const() && where->i ? nullptr : where;
        std::vector<const Expr*> bodies;
        for (const Expr* body : fold->args) bodies.push_back(moved(body));
        const Expr* new_fold = ctx.fold(std::move(f), std::move(bodies));
        FlatWrite& w = nest.writes[0];
        w.value = ctx.substitute(ctx.rewrite(w.value, [&](const Expr* e) { return e == fold ? new_fold : nullptr; }),
                                 {{ctx.dim(o), new_o}});
        w.address = ctx.substitute(w.address, {{ctx.dim(o), new_o}});
        for (const Expr*& i : w.index) i = ctx.substitute(i, {{ctx.dim(o), new_o}});
        auto at = std::find(nest.dims.begin(), nest.dims.end(), o);
        *at = o1;
        nest.dims.insert(nest.dims.begin(), p);
        return true;
      }
  }
  return false;
}

}  // namespace

void split_phases(ir::Context& ctx, FlatNest& nest) {
  if (nest.writes.size() != 1 || nest.writes[0].push || nest.scan_dim || nest.where) return;
  for (int round = 0; round < 4; ++round) {
    const Expr* fold = nullptr;
    size_t folds = 0;
    ir::walk(nest.writes[0].value, [&](const Expr* e) {
      if (e->op == Op::Fold) fold = e, ++folds;
    });
    if (folds != 1 || !fold->fold->where || !fold->fold->combiner->commutative || !split_one(ctx, nest, fold)) return;
  }
}

}  // namespace mlc::lower
