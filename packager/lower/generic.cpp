// The template that takes every nest.
//
// Loops follow the memory order of the write; the contiguous dim is innermost and vectorised, with a masked or scalar
// rest. A tile is a point of the outermost dims and a range of the next one, sized to some ten microseconds. Folds that
// do not depend on inner loops are evaluated outside of them (a softmax's maximum once per row).
#include <algorithm>
#include <bit>
#include <cmath>

#include "packager/ir/broadcast.h"
#include "packager/lower/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Join;
using ir::Op;

const ir::Dim* contiguous_dim(ir::Context& ctx, const FlatNest& nest) {
  for (const ir::Dim* d : nest.dims) {
    const Expr* leaf[] = {ctx.dim(d)};
    bool all = !nest.writes.empty();
    for (const FlatWrite& w : nest.writes) {
      auto lin = ir::linear_in(ctx, w.address, leaf);
      all &= lin && lin->coefficients[0]->is_int(1);
    }
    if (all) return d;
  }
  return nullptr;
}

unsigned natural_lanes(const targets::Target& target, const FlatNest& nest) {
  unsigned bytes = 1;
  for (const FlatWrite& w : nest.writes) {
    // Addresses do not count: they are scalar, or gathers that cost what they cost.
    std::vector<const Expr*> stack{w.value};
    std::unordered_map<const Expr*, bool> seen;
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!seen.try_emplace(e, true).second) continue;
      if (e->op != Op::Const && e->op != Op::Dim && e->op != Op::Sym) bytes = std::max(bytes, bytes_of(e->type.dtype));
      if (e->op != Op::Load)
        for (const Expr* a : e->args) stack.push_back(a);
    }
  }
  return std::min(64u, std::max(1u, target.vector_bytes / bytes));
}

void emit_writes(Body& s, loop::Builder& b, const FlatNest& nest, const Expr* mask) {
  ir::Context& ctx = s.ctx;
  for (const FlatWrite& w : nest.writes) {
    const Expr* value = s.value(w.value, mask);
    if (!s.error().empty()) return;
    const Expr* store_mask = mask;
    if (w.in_range) {
      const Expr* ok = s.value(w.in_range, mask);
      if (!s.error().empty()) return;
      const Expr* bad = s.both(mask, loop::vec_unary(ctx, Op::Not, ok));
      if (!bad) bad = ctx.boolean(true);  // never in range
      if (s.tail() && bad->type.lanes > 1) bad = s.both(s.tail(), bad);
      b.fault(bad, 1);
      store_mask = mask;
    }
    const Expr* index;
    if (s.vector_dim() && s.facts.depends(w.address, s.vector_dim())) {
      const Expr* leaf[] = {ctx.dim(s.vector_dim())};
      auto lin = ir::linear_in(ctx, w.address, leaf);
      index = lin && lin->coefficients[0]->is_int(1) ? s.scalar(w.address, mask)
                                                     : loop::splat(ctx, s.value(w.address, mask), s.lanes());
      value = loop::splat(ctx, value, s.lanes());
      store_mask = s.both(store_mask, s.tail());
    } else {
      index = s.value(w.address, mask);
    }
    if (w.push && w.join != Join::Last) {
      const Expr* old = loop::vec_load(ctx, w.buffer, value->type, index, store_mask);
      value = builtin_join(ctx, *ctx.builtin(w.join), {old}, {value})[0];
    }
    if (store_mask) store_mask = loop::splat(ctx, store_mask, value->type.lanes);
    b.store(w.buffer, index, value, store_mask);
  }
}

namespace {

class Generic {
 public:
  Generic(const Job& job, const FlatNest& nest)
      : job_(job), n_(nest), ctx_(job.ctx), k_(job), s_(job.ctx, job.target, job.expand, k_.b) {}

  Result<Kernels> run() {
    k_.kernel.params = n_.params;
    order_dims();
    choose_vector();
    k_.kernel.schedule = "generic x" + std::to_string(width_);
    choose_tiles();
    std::vector<const Expr*> extents;
    for (size_t k = 0; k < split_; ++k) extents.push_back(order_[k]->extent);
    if (chunked_) extents.push_back(ctx_.ceildiv(order_[split_]->extent, ctx_.integer(chunk_)));
    k_.over_tiles(extents, [&](const std::vector<const Expr*>& at) {
      s_.scoped([&] {
        for (size_t k = 0; k < split_; ++k) s_.bind(order_[k], at[k]);
        s_.by_steps(vector_steps(), [&] {
          if (!chunked_) return level(split_, ctx_.integer(0), split_ < order_.size() ? order_[split_]->extent : nullptr);
          const Expr* lo = k_.b.let(ctx_.mul(at.back(), ctx_.integer(chunk_)));
          const Expr* hi = k_.b.let(ctx_.min(ctx_.add(lo, ctx_.integer(chunk_)), order_[split_]->extent));
          level(split_, lo, hi);
        });
      });
    });
    MLC_ASSIGN(loop::Kernel kernel, k_.finish(s_));
    Kernels r;
    r.push_back(std::move(kernel));
    return r;
  }

 private:
  bool pushes() const {
    return std::any_of(n_.writes.begin(), n_.writes.end(), [](const FlatWrite& w) { return w.push; });
  }
  // Points with different values of `d` never write to one place: one axis of every write is `d` itself.
  bool separates(const ir::Dim* d) const {
    for (const FlatWrite& w : n_.writes)
      if (std::find(w.index.begin(), w.index.end(), ctx_.dim(d)) == w.index.end()) return false;
    return true;
  }

  void order_dims() {
    order_ = n_.dims;
    if (pushes()) {
      // Dims that separate first, they may run in parallel; the others in their order, which is part of the meaning.
      std::stable_partition(order_.begin(), order_.end(), [&](const ir::Dim* d) { return separates(d); });
      parallel_ = static_cast<size_t>(
          std::count_if(order_.begin(), order_.end(), [&](const ir::Dim* d) { return separates(d); }));
      return;
    }
    std::unordered_map<const ir::Dim*, double> stride;
    for (const ir::Dim* d : order_) {
      const Expr* leaf[] = {ctx_.dim(d)};
      auto lin = ir::linear_in(ctx_, n_.writes[0].address, leaf);
      bool plain = lin && s_.facts.dims(lin->coefficients[0]) == 0;
      if (plain) ir::walk(lin->coefficients[0], [&](const Expr* e) { plain &= e->op != Op::Load; });
      stride[d] = plain ? std::abs(estimate(lin->coefficients[0])) : 0;
    }
    bool known = std::all_of(order_.begin(), order_.end(), [&](const ir::Dim* d) { return stride[d] > 0; });
    if (known) std::stable_sort(order_.begin(), order_.end(), [&](auto a, auto b) { return stride[a] > stride[b]; });
    parallel_ = order_.size();
    if (n_.scan_dim) {
      std::erase(order_, n_.scan_dim);
      parallel_ = order_.size();
    }
  }

  void choose_vector() {
    const ir::Dim* v = contiguous_dim(ctx_, n_);
    auto at = std::find(order_.begin(), order_.end(), v);
    if (!v || at == order_.end() || v == n_.scan_dim) return;
    if (pushes() && !separates(v)) return;
    unsigned lanes = natural_lanes(job_.target, n_);
    if (v->extent->is_const())
      while (lanes > 1 && static_cast<int64_t>(lanes) > v->extent->i) lanes /= 2;
    if (lanes < 2) return;
    if (fold_is_better(v, lanes)) {
      // Small dims go outside, so that what depends on them only stays in registers in the loops inside.
      if (!pushes())
        std::stable_partition(order_.begin(), order_.end(),
                              [](const ir::Dim* d) { return d->extent->is_const() && d->extent->i <= 4; });
      return;
    }
    width_ = lanes;
    vector_ = v;
    if (static_cast<size_t>(at - order_.begin()) < parallel_) --parallel_;
    order_.erase(at);
    order_.push_back(v);
    if (!pushes()) parallel_ = order_.size();
  }

  // Steps that decide whether a load along vectors, of the nest or of a fold, is one of neighbours or of one element.
  std::vector<const Expr*> vector_steps() {
    std::vector<const Expr*> steps;
    for (const FlatWrite& w : n_.writes) {
      std::vector<const ir::Dim*> dims;
      if (vector_) dims.push_back(vector_);
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op == Op::Fold) dims.insert(dims.end(), e->fold->dims.begin(), e->fold->dims.end());
      });
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Load) return;
        for (const ir::Dim* d : dims)
          if (s_.facts.depends(e->args[0], d) && is_contiguous(ctx_, e->args[0], d)) {
            const Expr* leaf[] = {ctx_.dim(d)};
            for (const Expr* step : ir::steps_in(ir::linear_in(ctx_, e->args[0], leaf)->coefficients[0]))
              if (std::find(steps.begin(), steps.end(), step) == steps.end()) steps.push_back(step);
          }
      });
    }
    return steps;
  }

  // Loads of a long fold would be gathers along `v`, but lie side by side along a dim of the fold.
  bool fold_is_better(const ir::Dim* v, unsigned lanes) {
    bool better = false;
    for (const FlatWrite& w : n_.writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Fold || !s_.facts.depends(e, v) || !e->fold->combiner->commutative) return;
        for (const ir::Dim* d : e->fold->dims) {
          if (d->extent->is_const() && d->extent->i < 2 * static_cast<int64_t>(lanes)) continue;
          int gathers = 0, rows = 0, others = 0;
          for (const Expr* body : e->args)
            ir::walk(body, [&](const Expr* x) {
              if (x->op != Op::Load) return;
              auto unit = [&](const ir::Dim* dim) { return is_contiguous(ctx_, x->args[0], dim); };
              if (s_.facts.depends(x, v) && !unit(v)) ++gathers;
              if (s_.facts.depends(x, d) && distinct_values(x->args[0], d) > kFewValues) ++(unit(d) ? rows : others);
            });
          better |= gathers > 0 && rows > 0 && others == 0;
        }
      });
    return better;
  }

  void choose_tiles() {
    double per_point = 1;
    for (const FlatWrite& w : n_.writes) per_point += s_.facts.cost(w.value) + 1;
    if (n_.scan_dim) per_point *= std::max(1.0, estimate(n_.scan_dim->extent));
    double work = per_point;  // of everything inside loop k
    size_t k = order_.size();
    while (k > 0) {
      double n = std::max(1.0, estimate(order_[k - 1]->extent));
      double inner = work * (order_[k - 1] == vector_ ? std::ceil(n / width_) : n);
      if (inner > kTileWork && k <= parallel_) {
        split_ = k - 1;
        chunked_ = true;
        double points = std::max(1.0, std::floor(kTileWork / work)) * (order_[k - 1] == vector_ ? width_ : 1);
        chunk_ = static_cast<int64_t>(std::min(points, 1e9));
        if (order_[k - 1] == vector_ && chunk_ > 1024) chunk_ = chunk_ / 1024 * 1024;
        if (order_[k - 1]->extent->is_const() && chunk_ >= order_[k - 1]->extent->i)
          chunk_ = std::max<int64_t>(order_[k - 1]->extent->i, 1);
        return;
      }
      work = inner;
      --k;
    }
    split_ = 0;
    chunked_ = false;
    if (!order_.empty() && parallel_ > 0) {  // one tile by estimate; symbols may be larger than estimated
      bool symbolic =
          std::any_of(order_.begin(), order_.end(), [](const ir::Dim* d) { return !d->extent->is_const(); });
      double n = std::max(1.0, estimate(order_[0]->extent));
      if (symbolic) {
        chunked_ = true;
        double points = std::max(1.0, std::floor(kTileWork / (work / n)));
        chunk_ = static_cast<int64_t>(std::min(points, 1e9));
        if (order_[0] == vector_) chunk_ = (chunk_ + width_ - 1) / width_ * width_;
      }
    }
  }

  void level(size_t l, const Expr* lo, const Expr* hi) {
    if (l == order_.size()) return point();
    const ir::Dim* d = order_[l];
    DimSet inner = n_.scan_dim ? s_.facts.bit(n_.scan_dim) : 0;
    for (size_t k = l; k < order_.size(); ++k) inner |= s_.facts.bit(order_[k]);
    if (!n_.where)
      for (const FlatWrite& w : n_.writes) s_.hoist(w.value, inner);
    auto next = [&] { level(l + 1, ctx_.integer(0), l + 1 < order_.size() ? order_[l + 1]->extent : nullptr); };
    if (d != vector_) return s_.with_for(d, lo, hi, 1, next);

    // Whole vectors; then narrower ones where the rest is a constant; then masked lanes, or one at a time.
    const Expr* at = lo;
    const Expr* span = ctx_.max(ctx_.sub(hi, lo), ctx_.integer(0));
    bool fixed = lo->is_const() && hi->is_const();
    for (unsigned w = width_; w >= 2; w /= 2) {
      if (w != width_ && (!fixed || w < 4)) break;
      const Expr* end = k_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(span, ctx_.integer(w)), ctx_.integer(w))));
      s_.with_for(d, at, end, w, [&] { s_.vectorised(d, w, nullptr, next); });
      at = end;
      if (job_.target.has_masks) break;
    }
    const Expr* more = ctx_.binary(Op::Lt, at, hi);
    if (more->is_const() && !more->i) return;
    if (!job_.target.has_masks) return s_.with_for(d, at, hi, 1, next);
    k_.b.with_if(more, [&] {
      s_.scoped([&] {
        s_.bind(d, at);
        const Expr* exists =
            loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, at, width_), loop::splat(ctx_, hi, width_));
        s_.vectorised(d, width_, k_.b.let(exists), next);
      });
    });
  }

  void point() {
    if (n_.scan_dim) return scan();
    if (!n_.where) return emit_writes(s_, k_.b, n_, nullptr);
    const Expr* c = s_.value(n_.where);
    if (c->type.lanes > 1) return emit_writes(s_, k_.b, n_, c);
    k_.b.with_if(c, [&] { s_.scoped([&] { emit_writes(s_, k_.b, n_, nullptr); }); });
  }

  void scan() {
    const ir::Combiner& c = *n_.scan_combiner;
    const unsigned lanes = s_.lanes();
    std::vector<const Expr*> acc;
    for (size_t k = 0; k < n_.writes.size(); ++k) {
      const Expr* unit = unit_of(ctx_, c, static_cast<unsigned>(k), n_.writes[k].value->type.dtype);
      acc.push_back(k_.b.local(loop::splat(ctx_, s_.value(unit), lanes)));
    }
    const ir::Dim* d = n_.scan_dim;
    k_.b.with_for(ctx_.integer(0), d->extent, 1, [&](const Expr* i) {
      s_.scoped([&] {
        s_.bind(d, n_.scan_reverse ? ctx_.sub(ctx_.sub(d->extent, ctx_.integer(1)), i) : i);
        const Expr* mask = n_.where ? s_.value(n_.where) : nullptr;
        std::vector<const Expr*> x, joined;
        for (const FlatWrite& w : n_.writes) x.push_back(loop::splat(ctx_, s_.value(w.value, mask), lanes));
        if (!s_.error().empty()) return;
        if (c.join == Join::Custom) joined = s_.join(c, acc, x);
        else
          for (size_t k = 0; k < acc.size(); ++k) joined.push_back(builtin_join(ctx_, c, {acc[k]}, {x[k]})[0]);
        for (const Expr*& j : joined) j = k_.b.let(j);
        for (size_t k = 0; k < acc.size(); ++k) {
          const FlatWrite& w = n_.writes[k];
          const Expr* m = mask ? loop::splat(ctx_, mask, lanes) : nullptr;
          const Expr* next = m ? loop::vec_select(ctx_, m, joined[k], acc[k]) : joined[k];
          store(w, n_.scan_exclusive ? acc[k] : next, mask, s_.both(m, s_.tail()));
          k_.b.assign(acc[k], next);
        }
      });
    });
  }
  void store(const FlatWrite& w, const Expr* value, const Expr* guard, const Expr* mask) {
    const Expr* index = s_.scalar(w.address, guard);
    if (vector_ && s_.vector_dim()) {
      const Expr* leaf[] = {ctx_.dim(vector_)};
      auto lin = ir::linear_in(ctx_, w.address, leaf);
      if (!lin || !lin->coefficients[0]->is_int(1)) index = loop::splat(ctx_, s_.value(w.address, guard), s_.lanes());
    }
    k_.b.store(w.buffer, index, value, mask);
  }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  Skeleton k_;
  Body s_;
  std::vector<const ir::Dim*> order_;  // outer to inner
  size_t parallel_ = 0;                // the first so many may be split over tiles
  const ir::Dim* vector_ = nullptr;
  unsigned width_ = 1;
  size_t split_ = 0;                   // dims before this one are decoded from the tile
  bool chunked_ = false;               // order_[split_] is cut into ranges of chunk_
  int64_t chunk_ = 1;
};

}  // namespace

Result<Kernels> generic(const Job& job, const FlatNest& nest) { return Generic(job, nest).run(); }

}  // namespace mlc::lower
