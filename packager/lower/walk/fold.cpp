// Folds as loops over accumulators.
//
// Conditions that are affine in a fold dim become the bounds of its loop; others an If, or a select where they differ
// between lanes. If the fold does not depend on the vector dim it is itself vectorised along its contiguous dim, with
// several accumulators (the latency of an addition is four cycles) that are joined in a fixed order: results do not
// depend on the number of threads.
#include <algorithm>
#include <array>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Join;
using ir::Op;

using Tuple = std::vector<const Expr*>;

Tuple Body::join(const ir::Combiner& c, const Tuple& left, Tuple right) {
  if (c.join != Join::Custom) {
    // a + x*y in one rounding where the hardware has it.
    const Expr* r = right[0];
    if (c.join == Join::Sum && r->op == Op::Mul && is_float(r->type.dtype) && target.has_fma)
      return {loop::vec_fma(ctx, r->args[0], r->args[1], left[0])};
    return builtin_join(ctx, c, left, right);
  }
  for (const Expr*& r : right) r = b.let(r);
  Tuple joined;
  open_scope().isolated = true;
  auto saved = vars_;
  for (size_t k = 0; k < left.size(); ++k) {
    vars_[c.left[k]] = left[k];
    vars_[c.right[k]] = right[k];
  }
  unsigned lanes = 1;
  for (const Expr* e : left) lanes = std::max<unsigned>(lanes, e->type.lanes);
  for (const Expr* e : right) lanes = std::max<unsigned>(lanes, e->type.lanes);
  for (const Expr* j : c.joins) joined.push_back(loop::splat(ctx, value(j), lanes));
  vars_ = std::move(saved);
  close_scope();
  return joined;
}

Tuple Body::across_lanes(const ir::Combiner& c, Tuple fields) {
  if (fields[0]->type.lanes == 1) return fields;
  switch (c.join) {
    case Join::Sum: return {loop::lanes_fold(ctx, Op::SumLanes, fields[0])};
    case Join::Prod: return {loop::lanes_fold(ctx, Op::ProdLanes, fields[0])};
    case Join::Min: return {loop::lanes_fold(ctx, Op::MinLanes, fields[0])};
    case Join::Max: return {loop::lanes_fold(ctx, Op::MaxLanes, fields[0])};
    case Join::Any: return {any_lane(fields[0])};
    case Join::All: return {ctx.unary(Op::Not, any_lane(loop::vec_unary(ctx, Op::Not, fields[0])))};
    case Join::Last: case Join::Custom: break;
  }
  // Halves onto each other, as SumLanes does.
  for (unsigned lanes = fields[0]->type.lanes; lanes > 1; lanes /= 2) {
    Tuple low, high;
    for (const Expr* f : fields) {
      f = b.let(f);
      Tuple l, h;
      for (unsigned k = 0; k < lanes / 2; ++k) {
        l.push_back(loop::extract(ctx, f, k));
        h.push_back(loop::extract(ctx, f, k + lanes / 2));
      }
      low.push_back(lanes == 2 ? b.let(l[0]) : b.let(loop::widen(ctx, l)));
      high.push_back(lanes == 2 ? b.let(h[0]) : b.let(loop::widen(ctx, h)));
    }
    fields = join(c, low, high);
  }
  return fields;
}

class FoldLowering {
 public:
  FoldLowering(Body& body, const Expr* e, const Expr* guard)
      : s_(body), ctx_(body.ctx), e_(e), fold_(*e->fold), order_(fold_.dims), guard_(guard) {}

  Tuple run() {
    if (s_.depends_on_lanes(e_)) lanes_ = s_.lanes();
    else choose_vector_dim();
    split_conditions();
    accumulators_.push_back(units(vector_ ? width_ : lanes_));
    if (vector_) {
      for (unsigned g = 1; g < groups_; ++g) accumulators_.push_back(units(width_));
      if (scalar_tail_) tail_accumulator_ = units(1);
    }
    auto loops = [&](const Expr* mask) { level(0, mask); };
    under(outer_, guard_, loops);
    if (!vector_) return accumulators_[0];
    Tuple total = accumulators_[0];
    for (size_t g = 1; g < accumulators_.size(); ++g) {
      total = s_.join(*fold_.combiner, total, accumulators_[g]);
      for (const Expr*& t : total) t = s_.b.let(t);
    }
    total = s_.across_lanes(*fold_.combiner, total);
    if (scalar_tail_) total = s_.join(*fold_.combiner, total, tail_accumulator_);
    for (const Expr*& t : total) t = s_.b.let(t);
    return total;
  }

 private:
  Tuple units(unsigned lanes) {
    Tuple t;
    for (unsigned k = 0; k < e_->args.size(); ++k)
      t.push_back(
          s_.b.local(loop::splat(ctx_, s_.value(unit_of(ctx_, *fold_.combiner, k, e_->args[k]->type.dtype)), lanes)));
    return t;
  }

  // A dim along which most loads are contiguous and none is worse than constant is worth vectors of its own.
  void choose_vector_dim() {
    if (!fold_.combiner->commutative || fold_.combiner->join == Join::Last) return;
    unsigned bytes = 1;
    for (const Expr* body : e_->args) bytes = std::max(bytes, bytes_of(body->type.dtype));
    unsigned width = s_.vector_bytes / bytes;
    int best = 0;
    for (const ir::Dim* d : fold_.dims) {
      int good = 0, bad = 0;
      for (const Expr* body : e_->args)
        ir::walk(body, [&](const Expr* x) {
          if (x->op != Op::Load || !s_.facts.depends(x, d)) return;
          if (is_contiguous(ctx_, x->args[0], d)) ++good;
          else if (distinct_values(x->args[0], d) > kFewValues) ++bad;
        });
      if (good <= bad || good <= best) continue;
      unsigned w = width;
      if (d->extent->is_const())
        while (w > 1 && static_cast<int64_t>(w) > d->extent->i) w /= 2;
      // A narrower vector that leaves no rest beats a wide one with masked lanes.
      if (d->extent->is_const() && w >= 8 && d->extent->i % w != 0 && d->extent->i % (w / 2) == 0) w /= 2;
      if (w < 4 && w < width) continue;
      best = good;
      vector_ = d;
      width_ = w;
    }
    if (!vector_ || width_ < 2) {
      vector_ = nullptr;
      return;
    }
    std::erase(order_, vector_);
    order_.push_back(vector_);
    groups_ = fold_.combiner->join == Join::Custom || (computes_functions() && s_.target.vector_registers <= 16) ? 2 : 4;
    if (vector_->extent->is_const())
      while (groups_ > 1 && static_cast<int64_t>(groups_ * width_) > vector_->extent->i) groups_ /= 2;
    scalar_tail_ = !s_.target.has_masks;
  }

  // Four exponentials at once, each with its constants, are more than 16 registers hold; two have no additions to wait for.
  bool computes_functions() const {
    bool any = false;
    for (const Expr* body : e_->args) ir::walk(body, [&](const Expr* x) { any |= x->op >= Op::Exp && x->op <= Op::Erf; });
    return any;
  }

  // A term that may be evaluated only where the terms before it hold goes no further out than they do.
  void split_conditions() {
    conditions_.resize(order_.size());
    size_t least = 0;  // 0: outside of all loops, k + 1: in loop k
    for (const Expr* term : conjuncts(ctx_, fold_.where)) {
      size_t level = s_.facts.needs_guard(term) ? least : 0;
      for (size_t k = order_.size(); k-- > level;)
        if (s_.facts.depends(term, order_[k])) {
          level = k + 1;
          break;
        }
      (level == 0 ? outer_ : conditions_[level - 1]).push_back(term);
      least = std::max(least, level);
    }
  }

  // Runs `body` where all of `terms` hold: inside an If, or with a mask where lanes differ.
  void under(const std::vector<const Expr*>& terms, const Expr* mask, const std::function<void(const Expr*)>& body) {
    const Expr* scalar = nullptr;
    for (const Expr* t : terms) {
      const Expr* v = s_.value(t, s_.both(mask, scalar));
      if (v->type.lanes == 1) scalar = s_.both(scalar, v);
      else mask = s_.both(mask, v);
    }
    if (!scalar) return body(mask);
    s_.b.with_if(scalar, [&] { s_.scoped([&] { body(mask); }); });
  }

  void level(size_t l, const Expr* mask) {
    if (l == order_.size()) return leaf(accumulators_[0], mask);
    const ir::Dim* d = order_[l];
    DimSet inner = 0;
    for (size_t k = l; k < order_.size(); ++k) inner |= s_.facts.bit(order_[k]);
    if (!mask)
      for (const Expr* body : e_->args)
        if (!s_.facts.needs_guard(body)) s_.hoist(body, inner);

    const auto [begin, end, tests] = points_under(ctx_, d, conditions_[l], [&](const Expr* term, const DimBound& bound) {
      // A bound is evaluated before the loop, where the terms before it in this loop do not hold yet.
      const bool in_order = term == conditions_[l].front() || !s_.facts.needs_guard(term);
      return in_order && !(bound.begin && s_.depends_on_lanes(bound.begin)) && !(bound.end && s_.depends_on_lanes(bound.end));
    });
    const Expr* lo = s_.b.let(s_.scalar(begin, mask));
    const Expr* hi = s_.b.let(s_.scalar(end, mask));
    if (d == vector_) return vector_loop(d, lo, hi, tests);
    s_.with_for(d, lo, hi, 1, [&, &tests = tests] { under(tests, mask, [&](const Expr* m) { level(l + 1, m); }); });
  }

  void vector_loop(const ir::Dim* d, const Expr* lo, const Expr* hi, const std::vector<const Expr*>& tests) {
    int64_t w = width_, step = w * groups_;
    const Expr* span = ctx_.max(ctx_.sub(hi, lo), ctx_.integer(0));
    auto cut = [&](int64_t unit) {
      return s_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(span, ctx_.integer(unit)), ctx_.integer(unit))));
    };
    auto vectors = [&](const Expr* at, const Tuple& acc, const Expr* tail) {
      s_.vectorised(d, width_, tail, [&] {
        s_.bind(d, at);
        under(tests, nullptr, [&](const Expr* m) { leaf(acc, s_.both(tail, m)); });
      });
    };
    const Expr* main_end = cut(step);
    s_.with_for(d, lo, main_end, step, [&] {
      const Expr* at = s_.bound(d);
      for (unsigned g = 0; g < groups_; ++g) vectors(ctx_.add(at, ctx_.integer(g * w)), accumulators_[g], nullptr);
    });
    const Expr* vector_end = main_end;
    if (groups_ > 1) {
      vector_end = cut(w);
      s_.with_for(d, main_end, vector_end, w, [&] { vectors(s_.bound(d), accumulators_[0], nullptr); });
    }
    const Expr* more = ctx_.binary(Op::Lt, vector_end, hi);
    if (more->is_const() && !more->i) return;
    if (scalar_tail_) {
      s_.with_for(d, vector_end, hi, 1, [&] {
        under(tests, nullptr, [&](const Expr* m) { leaf(tail_accumulator_, m); });
      });
      return;
    }
    s_.b.with_if(more, [&] {
      s_.scoped([&] {
        const Expr* exists =
            loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, vector_end, width_), loop::splat(ctx_, hi, width_));
        vectors(vector_end, accumulators_[0], s_.b.let(exists));
      });
    });
  }

  void leaf(const Tuple& acc, const Expr* mask) {
    write_kept();
    Tuple x;
    for (const Expr* body : e_->args) x.push_back(s_.value(body, mask));
    if (!s_.error().empty()) return;
    Tuple joined = s_.join(*fold_.combiner, acc, x);
    for (size_t k = 0; k < acc.size(); ++k) {
      const Expr* j = loop::splat(ctx_, joined[k], acc[k]->type.lanes);
      if (mask) j = loop::vec_select(ctx_, mask, j, acc[k]);
      joined[k] = acc.size() > 1 ? s_.b.let(j) : j;
    }
    for (size_t k = 0; k < acc.size(); ++k) s_.b.assign(acc[k], joined[k]);
  }

  // Computed once, and before anything is written: it may lie where it was read.
  void write_kept() {
    for (const Kept& k : s_.kept_) {
      if (k.fold != e_) continue;
      s_.define(k.write.value, s_.b.let(s_.value(k.write.value)));
      emit_write(s_, s_.b, k.write, nullptr);
    }
  }

  Body& s_;
  ir::Context& ctx_;
  const Expr* e_;
  const ir::Fold& fold_;
  std::vector<const ir::Dim*> order_;
  const Expr* guard_;
  unsigned lanes_ = 1;                // of the accumulators, if the fold depends on the vector dim
  const ir::Dim* vector_ = nullptr;   // fold dim that is vectorised
  unsigned width_ = 1, groups_ = 1;
  bool scalar_tail_ = false;
  std::vector<Tuple> accumulators_;
  Tuple tail_accumulator_;
  std::vector<const Expr*> outer_;                    // conditions free of the fold's dims
  std::vector<std::vector<const Expr*>> conditions_;  // per level: those whose innermost dim it is
};

Tuple Body::fold(const Expr* e, const Expr* guard) {
  if (guard && !facts.needs_guard(e)) guard = nullptr;
  DimSet blocked = 0;
  for (size_t k = scopes_.size(); k-- > 0;) {
    for (const Expr* when : {guard, static_cast<const Expr*>(nullptr)})
      if (auto it = scopes_[k].folds.find({e, when}); it != scopes_[k].folds.end()) return it->second;
    blocked |= scopes_[k].hidden;
    if (scopes_[k].isolated || (facts.dims(e) & blocked)) break;
  }
  Tuple r;
  bool by_lanes = depends_on_lanes(e);
  if (guard && (guard->type.lanes == 1 || !by_lanes)) {
    // Under a scalar condition the loops run inside an If.
    unsigned lanes = by_lanes ? lanes_ : 1;
    for (unsigned k = 0; k < e->args.size(); ++k)
      r.push_back(b.local(loop::splat(ctx, value(unit_of(ctx, *e->fold->combiner, k, e->args[k]->type.dtype)), lanes)));
    b.with_if(needed_by_any(guard), [&] {
      scoped([&] {
        Tuple inner = fold(e, nullptr);
        for (size_t k = 0; k < r.size(); ++k) b.assign(r[k], inner[k]);
      });
    });
  } else if (!by_lanes && vdim_) {
    vectorised(vdim_, 1, nullptr, [&] { r = FoldLowering(*this, e, guard).run(); });
  } else {
    r = FoldLowering(*this, e, guard).run();
  }
  scopes_.back().folds[{e, guard}] = r;
  return r;
}

}  // namespace mlc::lower
