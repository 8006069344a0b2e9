#include "packager/lower/flat/flat.h"

#include <algorithm>
#include <optional>

#include "packager/ir/broadcast.h"
#include "packager/lower/flat/body.h"
#include "packager/lower/flat/facts.h"
#include "packager/nest/facts/positive.h"
#include "packager/nest/proc.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;

uint32_t Params::of(uint32_t array, bool written) {
  if (const auto local = locals.find(array); local != locals.end()) return nest::kFirstLocal + local->second.number;
  for (uint32_t k = 0; k < list.size(); ++k)
    if (list[k].role == loop::Role::Array && list[k].array == array) {
      list[k].written |= written;
      return k;
    }
  loop::Param p;
  p.name = f_.arrays[array].name;
  p.dtype = f_.arrays[array].dtype;
  p.written = written;
  p.array = array;
  list.push_back(std::move(p));
  return static_cast<uint32_t>(list.size() - 1);
}

const Expr* Params::address(ir::Context& ctx, uint32_t array, const std::vector<const Expr*>& index) const {
  const nest::Array& whole = f_.arrays[array];
  const auto local = locals.find(array);
  if (local == locals.end()) return nest::address(ctx, whole.layout, whole.shape, index);
  std::vector<const Expr*> at;
  for (size_t axis = 0; axis < index.size(); ++axis) at.push_back(ctx.sub(index[axis], local->second.origin[axis]));
  return nest::address(ctx, whole.layout, local->second.shape, at);
}

const Expr* range_condition(ir::Context& ctx, const std::vector<const Expr*>& index,
                            const std::vector<const Expr*>& shape) {
  const Expr* ok = ctx.boolean(true);
  for (size_t k = 0; k < index.size(); ++k) {
    const Expr* i = index[k];
    if (i->op == Op::Dim && i->dim->extent == shape[k]) continue;
    ok = ctx.binary(Op::And, ok, ctx.binary(Op::Le, ctx.integer(0), i));
    ok = ctx.binary(Op::And, ok, ctx.binary(Op::Lt, i, shape[k]));
  }
  return ok;
}

bool in_range(ir::Context& ctx, const std::vector<const Expr*>& index, const std::vector<const Expr*>& shape) {
  for (size_t k = 0; k < index.size(); ++k) {
    const Expr* i = index[k];
    if (i->op == Op::Dim && i->dim->extent == shape[k]) continue;
    ir::Interval at = ir::interval_of(i), n = ir::interval_of(shape[k]);
    if (at.lo >= 0 && at.hi < n.lo) continue;
    if (at.lo >= 0 && ir::proves(ctx, ctx.binary(Op::Lt, i, shape[k]))) continue;
    if (ir::proves(ctx, ctx.binary(Op::Le, ctx.integer(0), i)) && ir::proves(ctx, ctx.binary(Op::Lt, i, shape[k])))
      continue;
    if (ir::broadcast_in_range(ctx, i, shape[k])) continue;
    return false;
  }
  return true;
}

bool is_taken_apart(const Expr* before, const Expr* i) {
  return i->op == Op::FloorMod && before->op == Op::FloorDiv && i->args[0] == before->args[0] && i->args[1] == before->args[1];
}

namespace {

// The axes of an array that lies row by row, where neighbours whose index is i / n and i % n, n the extent of the second one, are one axis
// with index i: a reshape whose extents the run decides reads what is contiguous, and divides nothing. They are in range where i is.
// Of rows that are kept, `origin` is the first: along the second axis all are.
struct Joined {
  std::vector<const Expr*> shape, kept, origin, index;
};
Joined joined(ir::Context& ctx, const nest::Array& array, const LocalRows* rows, const std::vector<const Expr*>& index) {
  Joined j;
  for (size_t k = 0; k < index.size(); ++k) {
    const Expr *i = index[k], *extent = array.shape[k], *before = k > 0 ? j.index.back() : nullptr;
    const Expr *kept = rows ? rows->shape[k] : extent, *origin = rows ? rows->origin[k] : ctx.integer(0);
    const bool is_whole = kept == extent && origin->is_int(0) && array.layout.is_row_major();
    if (is_whole && before && is_taken_apart(before, i) && i->args[1] == extent) {
      j.index.back() = i->args[0];
      for (const Expr** e : {&j.shape.back(), &j.kept.back(), &j.origin.back()}) *e = ctx.mul(*e, extent);
      continue;
    }
    j.shape.push_back(extent);
    j.kept.push_back(kept);
    j.origin.push_back(origin);
    j.index.push_back(i);
  }
  return j;
}

// Where a nest has points, extents are not 0: a simplified divisor may be an extent, whose text is another one, and becomes it.
const Expr* with_extents_as_divisors(ir::Context& ctx, const nest::Function& f, const nest::Nest& nest, const Expr* e) {
  std::optional<nest::Positive> positive;
  return ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
    if (x->op != Op::Load || !f.arrays[x->array].layout.is_row_major()) return nullptr;
    const std::vector<const Expr*>& shape = f.arrays[x->array].shape;
    std::vector<const Expr*> index(x->args.begin(), x->args.end());
    bool changes = false;
    for (size_t k = index.size(); k-- > 1;) {
      const Expr *n = shape[k], *divisor = index[k - 1]->op == Op::FloorDiv ? index[k - 1]->args[1] : nullptr;
      if (!divisor || !is_taken_apart(index[k - 1], index[k]) || divisor == n || divisor->is_const()) continue;
      if (!positive) positive.emplace(ctx, nest, &f);
      if (positive->there(divisor) != positive->there(n)) continue;
      const Expr* i = index[k]->args[0];
      index[k - 1] = ctx.floordiv(i, n);
      index[k] = ctx.floormod(i, n);
      changes = true;
    }
    return changes ? ctx.load(x->array, x->type, std::move(index), x->access) : nullptr;
  });
}

}  // namespace

const Expr* flat_load(ir::Context& ctx, const nest::Function& f, Params& params, const Expr* load) {
  const nest::Array& array = f.arrays[load->array];
  const std::vector<const Expr*> index(load->args.begin(), load->args.end());
  const auto local = params.locals.find(load->array);
  const Joined at = joined(ctx, array, local == params.locals.end() ? nullptr : &local->second, index);
  Expr node;
  node.op = Op::Load;
  node.type = load->type;
  node.array = params.of(load->array);
  node.access = load->access;
  std::vector<const Expr*> kept;
  for (size_t k = 0; k < at.index.size(); ++k) kept.push_back(ctx.sub(at.index[k], at.origin[k]));
  std::vector<const Expr*> args{at.index.size() < index.size() ? nest::address(ctx, nest::Layout{}, at.kept, kept) : params.address(ctx, load->array, index)};
  bool empty_possible = false;  // an array without elements has no place to clamp to
  for (const Expr* n : array.shape) empty_possible |= ir::interval_of(n).lo < 1;
  if (load->access == Access::Proved || (load->access == Access::Clamped && !empty_possible)) {
    // One axis clamped does not say that the others are in range where no condition holds: fusion puts them there.
    node.access = in_range(ctx, index, array.shape) ? Access::Clamped : Access::Proved;
  } else {
    const Expr* ok = range_condition(ctx, at.index, at.shape);
    node.access = Access::Checked;
    if (ok->is_const() && ok->i) node.access = Access::Clamped;
    else args.push_back(ok);
  }
  return ctx.raw(node, std::move(args));
}

const Expr* flatten(ir::Context& ctx, const nest::Function& f, Params& params, const Expr* e) {
  return ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
    if (x->op != Op::Load) return nullptr;
    std::vector<const Expr*> index;
    for (const Expr* a : x->args) index.push_back(flatten(ctx, f, params, a));
    return flat_load(ctx, f, params, ctx.raw(*x, std::move(index)));
  });
}

namespace {

// Whether all that `fold` reads is in range where its condition holds.
bool in_range_alone(ir::Context& ctx, const nest::Function& f, const Expr* fold) {
  const std::vector<const Expr*> given = conjuncts(ctx, fold->fold->where);
  bool all = true;
  if (fold->fold->where) ir::walk(fold->fold->where, [&](const Expr* e) { all &= e->op != Op::Load; });
  for (const Expr* body : fold->args)
    ir::walk(body, [&](const Expr* e) {
      all &= e->op != Op::Fold;
      if (!all || e->op != Op::Load) return;
      const std::vector<const Expr*> index(e->args.begin(), e->args.end());
      all = e->access != Access::Checked && (in_range(ctx, index, f.arrays[e->array].shape) ||
                                             ir::proves(ctx, range_condition(ctx, index, f.arrays[e->array].shape), given));
    });
  return all;
}

}  // namespace

Result<FlatNest> flatten(ir::Context& ctx, const nest::Function& f, const nest::Nest& nest) {
  Params params(f);
  return flatten(ctx, f, nest, params);
}

Result<FlatNest> flatten(ir::Context& ctx, const nest::Function& f, const nest::Nest& nest, Params& params) {
  FlatNest flat;
  for (const nest::Write& w : nest.writes)
    ir::walk(w.value, [&](const Expr* e) {
      if (e->op == Op::Fold && flat.folds_anywhere) flat.folds_anywhere = in_range_alone(ctx, f, e);
    });
  flat.dims = nest.dims;
  if (nest.where) flat.where = flatten(ctx, f, params, nest.where);
  for (const nest::Write& w : nest.writes) {
    const nest::Array& array = f.arrays[w.array];
    FlatWrite out;
    out.value = flatten(ctx, f, params, with_extents_as_divisors(ctx, f, nest, w.value));
    for (const Expr* i : w.index) out.index.push_back(flatten(ctx, f, params, i));
    out.buffer = params.of(w.array, true);
    out.dtype = array.dtype;
    out.address = params.address(ctx, w.array, out.index);
    out.push = w.push;
    out.join = w.join;
    if (w.push && !in_range(ctx, out.index, array.shape)) out.in_range = range_condition(ctx, out.index, array.shape);
    flat.writes.push_back(std::move(out));
  }
  flat.scan_dim = nest.scan_dim;
  flat.scan_combiner = nest.scan_combiner;
  flat.scan_exclusive = nest.scan_exclusive;
  flat.scan_reverse = nest.scan_reverse;
  flat.params = params.list;
  return flat;
}

namespace {

// Channels of a picture: a loop over fewer points than a vector has lanes is worth what it costs to merge it with one that is compared.
constexpr int64_t kFewPoints = 4;

// Rewrites expressions from dims a (outer) and b (inner) to their product; fails where an address does not walk through
// both without a gap, or where a or b is used for anything else but comparisons of a beside few points of b.
class Merge {
 public:
  Merge(ir::Context& ctx, const ir::Dim* a, const ir::Dim* b) : ctx_(ctx), a_(ctx.dim(a)), b_(ctx.dim(b)) {}

  bool address_fits(const Expr* e) {
    const Expr* leaves[] = {a_, b_};
    auto lin = ir::linear_in(ctx_, e, leaves);
    return lin && lin->coefficients[0] == ctx_.mul(lin->coefficients[1], b_->dim->extent);
  }
  const ir::Dim* merged() {
    if (!merged_)
      merged_ = ctx_.declare_dim(a_->dim->name + "." + b_->dim->name, ctx_.mul(a_->dim->extent, b_->dim->extent));
    return merged_;
  }
  std::optional<const Expr*> address(const Expr* e) {
    const Expr* leaves[] = {a_, b_};
    auto lin = ir::linear_in(ctx_, e, leaves);
    if (!lin || lin->coefficients[0] != ctx_.mul(lin->coefficients[1], b_->dim->extent)) return std::nullopt;
    return ctx_.add(lin->rest, ctx_.mul(lin->coefficients[1], ctx_.dim(merged())));
  }
  std::optional<const Expr*> value(const Expr* e) {
    bool fits = true;
    const Expr* r = ctx_.rewrite(e, [&](const Expr* x) -> const Expr* {
      if (!fits) return x;
      if (x == a_ || x == b_) {
        fits = false;
        return x;
      }
      if (const Expr* compared = comparison(x)) return compared;
      if (x->op != Op::Load) return nullptr;
      auto at = address(x->args[0]);
      if (!at) {
        fits = false;
        return x;
      }
      if (*at == x->args[0] && x->args.size() == 1) return x;
      Expr node = *x;
      std::vector<const Expr*> args{*at};
      for (size_t k = 1; k < x->args.size(); ++k) args.push_back(x->args[k]);
      return ctx_.raw(node, std::move(args));
    });
    Facts facts;
    if (!fits || (facts.dims(r) & (facts.bit(a_->dim) | facts.bit(b_->dim)))) return std::nullopt;
    return r;
  }

 private:
  // A comparison of dim a as one of the merged dim m: floor(m / n) < e where m < n e, e <= floor(m / n) where n e <= m. Null: it is none, or
  // a is compared with what is read, where n e might wrap.
  const Expr* comparison(const Expr* x) {
    const bool may_be = x->op == Op::Le || x->op == Op::Lt;
    if (!may_be || x->args[0]->type != ir::Type(DType::I64) || !b_->dim->extent->is_const() || b_->dim->extent->i > kFewPoints) return nullptr;
    const Expr* leaves[] = {a_, b_};
    const auto lin = ir::linear_in(ctx_, ctx_.sub(x->args[0], x->args[1]), leaves);
    if (!lin || !lin->coefficients[1]->is_int(0) || !(lin->coefficients[0]->is_int(1) || lin->coefficients[0]->is_int(-1))) return nullptr;
    bool is_read = false;
    ir::walk(lin->rest, [&](const Expr* e) { is_read = is_read || e->op == Op::Load || e->op == Op::Var; });
    if (is_read) return nullptr;
    // +-a + rest < 0
    const Expr *n = b_->dim->extent, *m = ctx_.dim(merged()), *zero = ctx_.integer(0);
    const Expr* rest = x->op == Op::Lt ? lin->rest : ctx_.sub(lin->rest, ctx_.integer(1));
    if (lin->coefficients[0]->is_int(1)) return ctx_.binary(Op::Lt, m, ctx_.mul(n, ctx_.sub(zero, rest)));
    return ctx_.binary(Op::Le, ctx_.mul(n, ctx_.add(rest, ctx_.integer(1))), m);
  }

  ir::Context& ctx_;
  const Expr *a_, *b_;
  const ir::Dim* merged_ = nullptr;
};

bool merge_map_dims(ir::Context& ctx, FlatNest& n, size_t a, size_t b) {
  Merge merge(ctx, n.dims[a], n.dims[b]);
  for (const FlatWrite& w : n.writes)
    if (!merge.address_fits(w.address)) return false;
  if (n.where) {
    Facts facts;
    if (facts.depends(n.where, n.dims[a]) || facts.depends(n.where, n.dims[b])) return false;
  }
  std::vector<std::pair<const Expr*, const Expr*>> rewritten;
  for (const FlatWrite& w : n.writes) {
    auto at = merge.address(w.address), value = merge.value(w.value);
    if (!at || !value) return false;
    rewritten.emplace_back(*at, *value);
  }
  for (size_t k = 0; k < n.writes.size(); ++k) std::tie(n.writes[k].address, n.writes[k].value) = rewritten[k];
  n.dims[a] = merge.merged();
  n.dims.erase(n.dims.begin() + static_cast<ptrdiff_t>(b));
  return true;
}

// Folds over the same points, with two of their dims merged, or with a dim of extent one dropped; nothing if that cannot be
// done to all of them. What sums the same points goes on doing so.
std::vector<const Expr*> smaller_folds(ir::Context& ctx, const std::vector<const Expr*>& folds) {
  const ir::Fold& fold = *folds[0]->fold;
  std::vector<const Expr*> bodies;
  for (const Expr* e : folds) bodies.insert(bodies.end(), e->args.begin(), e->args.end());
  const auto rebuilt = [&](const ir::Fold& f, const std::vector<const Expr*>& all) {
    std::vector<const Expr*> out;
    auto at = all.begin();
    for (const Expr* e : folds) {
      const auto end = at + static_cast<ptrdiff_t>(e->args.size());
      out.push_back(ctx.fold(f, {at, end}));
      at = end;
    }
    return out;
  };
  for (size_t k = 0; k < fold.dims.size() && fold.dims.size() > 1; ++k) {
    if (!fold.dims[k]->extent->is_int(1)) continue;
    ir::Fold f = fold;
    f.dims.erase(f.dims.begin() + static_cast<ptrdiff_t>(k));
    std::unordered_map<const Expr*, const Expr*> zero{{ctx.dim(fold.dims[k]), ctx.integer(0)}};
    for (const Expr*& b : bodies) b = ctx.substitute(b, zero);
    if (f.where) f.where = ctx.substitute(f.where, zero);
    if (f.where && f.where->is_int(1)) f.where = nullptr;
    return rebuilt(f, bodies);
  }
  Facts facts;
  for (size_t a = 0; a < fold.dims.size(); ++a)
    for (size_t b = 0; b < fold.dims.size(); ++b) {
      if (a == b || (!fold.combiner->commutative && b != a + 1)) continue;
      if (fold.where && (facts.depends(fold.where, fold.dims[a]) || facts.depends(fold.where, fold.dims[b]))) continue;
      Merge merge(ctx, fold.dims[a], fold.dims[b]);
      std::vector<const Expr*> merged;
      for (const Expr* body : bodies) {
        auto m = merge.value(body);
        if (!m) break;
        merged.push_back(*m);
      }
      if (merged.size() != bodies.size()) continue;
      ir::Fold f = fold;
      f.dims[a] = merge.merged();
      f.dims.erase(f.dims.begin() + static_cast<ptrdiff_t>(b));
      return rebuilt(f, merged);
    }
  return {};
}

bool shrink_a_fold(ir::Context& ctx, FlatNest& n) {
  for (FlatWrite& w : n.writes) {
    std::vector<const Expr*> folds;
    ir::walk(w.value, [&](const Expr* e) {
      if (e->op == Op::Fold) folds.push_back(e);
    });
    for (const Expr* e : folds) {
      std::vector<const Expr*> alike;
      for (const Expr* o : folds)
        if (o->fold->combiner == e->fold->combiner && o->fold->dims == e->fold->dims && o->fold->where == e->fold->where) alike.push_back(o);
      const std::vector<const Expr*> smaller = smaller_folds(ctx, alike);
      if (smaller.empty()) continue;
      std::unordered_map<const Expr*, const Expr*> replaced;
      for (size_t k = 0; k < alike.size(); ++k) replaced.emplace(alike[k], smaller[k]);
      for (FlatWrite& x : n.writes) x.value = ctx.substitute(x.value, replaced);
      return true;
    }
  }
  return false;
}

}  // namespace

const Expr* guarded(ir::Context& ctx, Facts& facts, const Expr* e, const ir::Dim* d) {
  return ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
    if (x->op != Op::Load || x->access != Access::Clamped || !facts.depends(x, d)) return nullptr;
    return ctx.load(x->array, x->type, {x->args.begin(), x->args.end()}, Access::Proved);
  });
}

void substitute(ir::Context& ctx, FlatNest& n, const std::unordered_map<const Expr*, const Expr*>& map) {
  for (FlatWrite& w : n.writes) {
    w.address = ctx.substitute(w.address, map);
    w.value = ctx.substitute(w.value, map);
    if (w.in_range) w.in_range = ctx.substitute(w.in_range, map);
    for (const Expr*& i : w.index) i = ctx.substitute(i, map);
  }
  if (n.where) n.where = ctx.substitute(n.where, map);
}

void collapse(ir::Context& ctx, FlatNest& n) {
  bool push = std::any_of(n.writes.begin(), n.writes.end(), [](const FlatWrite& w) { return w.push; });
  for (size_t k = 0; k < n.dims.size();) {  // dims of extent one
    if (!n.dims[k]->extent->is_int(1) || n.dims[k] == n.scan_dim) {
      ++k;
      continue;
    }
    substitute(ctx, n, {{ctx.dim(n.dims[k]), ctx.integer(0)}});
    n.dims.erase(n.dims.begin() + static_cast<ptrdiff_t>(k));
  }
  if (n.where && n.where->is_int(1)) n.where = nullptr;
  for (int round = 0; round < 64 && shrink_a_fold(ctx, n); ++round) {}
  if (push) return;  // the order of points is part of what a push means
  for (bool again = true; again;) {
    again = false;
    for (size_t a = 0; a < n.dims.size() && !again; ++a)
      for (size_t b = 0; b < n.dims.size() && !again; ++b) {
        if (a == b || n.dims[a] == n.scan_dim || n.dims[b] == n.scan_dim) continue;
        again = merge_map_dims(ctx, n, a, b);
      }
  }
}

}  // namespace mlc::lower
