// The family that takes every nest.
//
// Loops follow the memory order of the write; the contiguous dim is innermost and vectorised, with a masked or scalar
// rest. A launch may be cut along the outermost dims that are not of one point; on a device these are spread over the lanes of
// blocks. Folds that do not depend on inner loops are evaluated outside of them (a softmax's maximum once per row).
#include <algorithm>
#include <bit>
#include <cmath>

#include "packager/ir/broadcast.h"
#include "packager/lower/maps/pieces.h"
#include "packager/lower/walk/walk.h"

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

unsigned natural_lanes(const Job& job, const FlatNest& nest, const ir::Dim* d) {
  constexpr unsigned kScalarBytes = 4;  // of a register that holds one lane, as vector_bytes counts it
  unsigned bytes = 1;
  Facts facts;
  for (const FlatWrite& w : nest.writes) {
    // Addresses do not count: they are scalar, or gathers that cost what they cost. Nor does what is one number for all lanes, and
    // what becomes of a place that a fold found: it is done once for all points of the fold.
    std::vector<const Expr*> stack;
    if (d) ir::walk(w.value, [&](const Expr* e) {
      if (e->op == Op::Field && facts.depends(e, d)) stack.push_back(e);
    });
    if (stack.empty()) {
      bytes = std::max(bytes, bytes_of(w.value->type.dtype));
      stack.push_back(w.value);
    }
    std::unordered_map<const Expr*, bool> seen;
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!seen.try_emplace(e, true).second || (d && !facts.depends(e, d))) continue;
      if (e->op != Op::Const && e->op != Op::Dim && e->op != Op::Sym) bytes = std::max(bytes, bytes_of(e->type.dtype));
      if (e->op != Op::Load)
        for (const Expr* a : e->args) stack.push_back(a);
    }
  }
  if (!job.target.has_vectors) bytes = std::max(bytes, kScalarBytes);
  unsigned lanes = std::min(64u, std::max(1u, job.vector_bytes() / bytes));
  if (d && d->extent->is_const())
    while (lanes > 1 && static_cast<int64_t>(lanes) > d->extent->i) lanes /= 2;
  return lanes;
}

int64_t line_quantum(const Job& job, const FlatNest& nest, int64_t lanes) { return std::max<int64_t>(lanes, job.processor().line_bytes / bytes_of(nest.writes[0].dtype)); }

schedule::Tail tail_of_lanes(const targets::Target& target) { return target.has_masks ? schedule::Tail::Mask : schedule::Tail::Narrow; }

void emit_write(Body& s, loop::Builder& b, const FlatWrite& w, const Expr* mask) {
  ir::Context& ctx = s.ctx;
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

void emit_writes(Body& s, loop::Builder& b, const FlatNest& nest, const Expr* mask) {
  for (const FlatWrite& w : nest.writes) emit_write(s, b, w, mask);
}

namespace {

constexpr unsigned kScanVectors = 8;  // side by side: steps that wait for none of the others
constexpr unsigned kFoldVectors = 4;     // accumulators of a light fold
constexpr unsigned kFunctionVectors = 2;  // that share the constants of an exponential
constexpr unsigned kMostLanes = 64;

// A plain write at which the values of `inner` are contiguous, and those of `outer` behind each other without a gap.
bool takes_turns(ir::Context& ctx, const FlatNest& nest, const ir::Dim* inner, const ir::Dim* outer) {
  if (nest.where || nest.scan_dim || nest.writes.size() != 1 || nest.writes[0].push || nest.writes[0].in_range) return false;
  if (!inner->extent->is_const() || inner->extent->i < 2 || inner->extent->i > kMostTurns) return false;
  const Expr* leaves[] = {ctx.dim(inner), ctx.dim(outer)};
  const auto lin = ir::linear_in(ctx, nest.writes[0].address, leaves);
  return lin && lin->coefficients[0]->is_int(1) && lin->coefficients[1]->is_int(inner->extent->i);
}

class Map final : public Walk {
 public:
  Map(const Job& job, const FlatNest& nest, Skeleton& k, const schedule::Schedule& how, const DimNames& names) : Walk(job, nest, k, how, names, {}) {
    s_.keep(n_.kept);
    double lanes = 1;
    for (const Step& s : steps_)
      if (s.how->bind == schedule::Bind::Lanes) vector_ = s.dim, lanes = static_cast<double>(s.how->step);
    if (vector_ && !steps_.empty() && steps_.back().dim == vector_) middle_ = middle_piece(ctx_, s_.facts, n_, vector_);
    if (how_.block) neighbours = neighbours_of_lane();
    const Expr* per_point = ctx_.number(0, DType::F64);
    for (const FlatWrite& w : n_.writes)
      per_point = ctx_.binary(Op::Add, per_point, ctx_.binary(Op::Add, k_.operations(w.value), ctx_.number(1, DType::F64)));
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : n_.dims) extents.push_back(d->extent);
    work = k_.takes(job_.operation_ns() / lanes, extents, per_point);
  }

 private:
  // Where so many lanes are left that they have enough under way.
  int64_t neighbours_of_lane() const {
    if (batch.empty() || !steps_.empty() || n_.scan_dim || !n_.kept.empty()) return 1;
    double points = 1;
    for (const ir::Dim* d : batch) points *= estimate(d->extent);
    int64_t n = neighbours_in_writes(job_, n_, batch.back());
    while (n > 1 && points / static_cast<double>(n) < job_.device().all_lanes) n /= 2;
    return n;
  }

  void around(const std::function<void()>& loops) override {
    if (how_.block) return loops();  // a lane has no vectors
    halves_rest_ = n_.scan_dim != nullptr;
    s_.by_steps(vector_steps(), loops);
  }

  void enter(size_t l) override {
    if (n_.where) return;
    DimSet inner = n_.scan_dim ? s_.facts.bit(n_.scan_dim) : 0;
    for (size_t k = l; k < steps_.size(); ++k) inner |= s_.facts.bit(steps_[k].dim);
    for (const FlatWrite& w : n_.writes) s_.hoist(w.value, inner);
  }

  std::optional<Range> inner_points(size_t l, const Range& all) override {
    if (!middle_ || l + 1 != steps_.size()) return std::nullopt;
    const Expr *begin = all.begin, *end = all.end;
    for (const Expr* e : middle_->begins) begin = ctx_.max(begin, s_.value(e));
    for (const Expr* e : middle_->ends) end = ctx_.min(end, s_.value(e));
    begin = k_.b.let(ctx_.min(begin, all.end));
    return Range{begin, k_.b.let(ctx_.max(end, begin))};
  }

  void leaf() override {
    n_.scan_dim ? scan() : at_columns([&] { point(); });
  }

  // Vectors of neighbours whose copies are written in turns (the channels of pixels): side by side, as they are to be stored in memory.
  void copies(size_t l) override {
    const ir::Dim* d = steps_[l].dim;
    const auto n = static_cast<unsigned>(d->extent->i);
    const bool whole = l + 1 == steps_.size() && columns_.lanes > 1 && !columns_.mask && !columns_.limit;
    if (!whole || n_.writes.size() != 1 || !takes_turns(ctx_, n_, d, columns_.dim)) return Walk::copies(l);
    const FlatWrite& w = n_.writes[0];
    const unsigned lanes = columns_.lanes;
    std::vector<const Expr*> values(n);
    at_columns([&] {
      for (unsigned u = 0; u < n; ++u)
        s_.scoped([&] {
          s_.bind(d, ctx_.integer(u));
          values[u] = k_.b.let(loop::splat(ctx_, s_.value(w.value), lanes));
        });
    });
    if (!s_.error().empty()) return;
    s_.bind(d, ctx_.integer(0));
    const Expr* first = k_.b.let(s_.scalar(w.address));
    for (unsigned u = 0; u < n; ++u) {
      std::vector<const Expr*> elements;
      for (unsigned k = u * lanes; k < (u + 1) * lanes; ++k) elements.push_back(loop::extract(ctx_, values[k % n], k / n));
      k_.b.store(w.buffer, ctx_.add(first, ctx_.integer(u * int64_t{lanes})), loop::widen(ctx_, std::move(elements)));
    }
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

  void point() {
    if (inner_) {
      for (const FlatWrite& w : middle_->writes) emit_write(s_, k_.b, w, nullptr);
      return;
    }
    if (!n_.where) return emit_writes(s_, k_.b, n_, nullptr);
    const Expr* c = s_.value(n_.where);
    if (c->type.lanes > 1) return emit_writes(s_, k_.b, n_, c);
    k_.b.with_if(c, [&] { s_.scoped([&] { emit_writes(s_, k_.b, n_, nullptr); }); });
  }

  // Vectors side by side go along together: a step of each is done while those of the others are under way, and memory is read line by line.
  void scan() {
    const ir::Combiner& c = *n_.scan_combiner;
    const unsigned lanes = columns_.lanes, vectors = columns_.vectors;
    std::vector<std::vector<const Expr*>> acc(vectors);
    std::vector<const Expr*> masks(vectors, columns_.mask);
    for (unsigned u = 0; u < vectors; ++u) {
      for (size_t k = 0; k < n_.writes.size(); ++k) {
        const Expr* unit = unit_of(ctx_, c, static_cast<unsigned>(k), n_.writes[k].value->type.dtype);
        acc[u].push_back(k_.b.local(loop::splat(ctx_, s_.value(unit), lanes)));
      }
      if (columns_.limit && !masks[u] && lanes > 1)
        masks[u] = k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, column(u), lanes), loop::splat(ctx_, columns_.limit, lanes)));
    }
    const ir::Dim* d = n_.scan_dim;
    k_.b.with_for(ctx_.integer(0), d->extent, 1, [&](const Expr* i) {
      s_.scoped([&] {
        s_.bind(d, n_.scan_reverse ? ctx_.sub(ctx_.sub(d->extent, ctx_.integer(1)), i) : i);
        for (unsigned u = 0; u < vectors; ++u) {
          if (lanes == 1) at_columns([&] { scan_step(c, acc[u]); });
          else s_.scoped([&] {
            s_.bind(columns_.dim, column(u));
            s_.vectorised(columns_.dim, lanes, masks[u], [&] { scan_step(c, acc[u]); });
          });
        }
      });
    });
  }
  const Expr* column(unsigned vector) { return ctx_.add(columns_.first, ctx_.integer(int64_t{vector} * columns_.lanes)); }

  void scan_step(const ir::Combiner& c, const std::vector<const Expr*>& acc) {
    const unsigned lanes = s_.lanes();
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

  const ir::Dim* vector_ = nullptr;
  std::optional<Piece> middle_;  // of it
};

class Maps {
 public:
  Maps(const Job& job, const FlatNest& nest) : job_(job), n_(nest), ctx_(job.ctx) {
    order_dims();
    choose_vector();
  }

  Schedules run() {
    Schedules s;
    s.space.family = schedule::Family::Map;
    s.space.block = job_.target.block_lanes;
    if (n_.scan_dim) s.space.most_vectors = kScanVectors;
    const bool pushing = pushes();
    // Dims that do not separate come last, as their order is part of the meaning.
    std::vector<const ir::Dim*> dims = order_;
    std::stable_partition(dims.begin(), dims.end(), [&](const ir::Dim* d) { return !pushing || separates(d); });
    for (const ir::Dim* d : dims) {
      schedule::Space::Dim& dim = s.space.dims.emplace_back();
      dim.name = name_[d] = names_.add(d);
      dim.extent = d->extent->is_const() ? d->extent->i : -1;
      dim.cut = dim.block = !pushing || separates(d);
      s.space.ordered += !dim.cut;
      if (d == vector_) dim.lanes = width_;
      dim.unroll = d == turns_;
    }
    s.ranked.push_back(best());
    s.build = [&job = job_, &nest = n_, names = names_](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
      return std::make_unique<Map>(job, nest, k, how, names);
    };
    return s;
  }

 private:
  schedule::Schedule best() {
    schedule::Schedule s;
    s.vector_bytes = job_.vector_bytes();
    s.block = job_.target.block_lanes;
    if (s.block) {
      for (size_t k = 0; k < order_.size(); ++k)
        s.loops.push_back({.dim = name_[order_[k]], .bind = k < parallel_ ? schedule::Bind::Grid : schedule::Bind::Serial});
      return s;
    }
    size_t cuts = 0;
    for (size_t k = 0; k < parallel_ && cuts < kMostCuts; ++k) {
      const ir::Dim* d = order_[k];
      if (d->extent->is_int(1) || d == turns_) continue;
      s.loops.push_back({.dim = name_[d], .step = d == vector_ ? line_quantum(job_, n_, width_) : 1, .bind = schedule::Bind::Cut});
      ++cuts;
    }
    for (const ir::Dim* d : order_) {
      schedule::Loop l{.dim = name_[d]};
      if (d == vector_) l.step = width_, l.bind = schedule::Bind::Lanes, l.tail = tail_of_lanes(job_.target), l.count = vectors_side_by_side();
      if (d == turns_) l.bind = schedule::Bind::Unroll, l.count = 0;
      s.loops.push_back(l);
    }
    return s;
  }

  // Of running folds, as many as there are and registers hold.
  unsigned vectors_side_by_side() const {
    if (!n_.scan_dim) return 1;
    const auto most = static_cast<unsigned>(kScanVectors / std::max<size_t>(n_.writes.size(), 1));
    const double there = vector_->extent->is_const() ? static_cast<double>(vector_->extent->i) / width_ : most;
    return std::max(1u, static_cast<unsigned>(std::min<double>(most, there)));
  }

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
      bool plain = lin && facts_.dims(lin->coefficients[0]) == 0;
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
    if (const ir::Dim* along = read_along(v)) {
      turns_ = v;
      vector_ = along;
      width_ = natural_lanes(job_, n_, along);
      std::erase(order_, along);
      std::erase(order_, v);
      order_.insert(order_.end(), {along, v});
      return;
    }
    const unsigned lanes = natural_lanes(job_, n_, v);
    if (lanes < 2) return;
    if (fold_is_better(v, lanes)) {
      // Small dims go outside, so that what depends on them only stays in registers in the loops inside.
      if (!pushes())
        std::stable_partition(order_.begin(), order_.end(),
                              [](const ir::Dim* d) { return d->extent->is_const() && d->extent->i <= 4; });
      return;
    }
    width_ = lanes * std::max(folds_side_by_side(v, lanes), functions_side_by_side(v, lanes));
    vector_ = v;
    if (static_cast<size_t>(at - order_.begin()) < parallel_) --parallel_;
    order_.erase(at);
    order_.push_back(v);
    if (!pushes()) parallel_ = order_.size();
  }

  // Vectors of columns that one vector of the nest stands for, where each point is a fold that computes next to nothing: their additions
  // wait for none of each other, and memory is read by whole lines. With masks, what is left over would take as long as a whole one.
  unsigned folds_side_by_side(const ir::Dim* v, unsigned lanes) {
    if (job_.target.is_device() || job_.target.has_masks) return 1;
    bool any = false, light = true;
    for (const FlatWrite& w : n_.writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Fold) return;
        any = true;
        light &= facts_.depends(e, v) && e->fold->combiner->join != Join::Custom && is_light(e->args[0], v);  // masks of choices are of one vector
      });
    unsigned vectors = 1;
    if (!any || !light) return vectors;
    while (2 * vectors <= kFoldVectors && 2 * vectors * lanes <= kMostLanes && 2.0 * vectors * lanes <= estimate(v->extent)) vectors *= 2;
    return vectors;
  }

  // Vectors that one vector of the nest stands for, where each point is a function with a dozen constants: there are too few registers for
  // these beside what is computed, so they are read again for each vector, and several share them.
  unsigned functions_side_by_side(const ir::Dim* v, unsigned lanes) {
    if (job_.target.is_device() || job_.target.has_masks || n_.scan_dim || n_.where || n_.writes.size() != 1 || n_.writes[0].push) return 1;
    bool any = false, plain = true;
    ir::walk(n_.writes[0].value, [&](const Expr* e) {
      any |= e->op >= Op::Exp && e->op <= Op::Erf && e->type.dtype == DType::F32 && facts_.depends(e, v);
      plain &= e->op != Op::Fold && !facts_.needs_guard(e) && (e->op != Op::Load || !facts_.depends(e, v) || is_contiguous(ctx_, e->args[0], v));
    });
    return any && plain && lanes * kFunctionVectors <= kMostLanes && estimate(v->extent) >= 4.0 * lanes * kFunctionVectors ? kFunctionVectors : 1;
  }

  // An element of an array, its size or its square, or a number for all columns.
  bool is_light(const Expr* e, const ir::Dim* v) {
    switch (e->op) {
      case Op::Load: return is_contiguous(ctx_, e->args[0], v) && !facts_.needs_guard(e);
      case Op::Cast: case Op::Abs: case Op::Neg: return is_light(e->args[0], v);
      case Op::Mul: return e->args[0] == e->args[1] && is_light(e->args[0], v);
      default: return !facts_.depends(e, v);
    }
  }

  // Few values are contiguous in the write, and all that is read is contiguous along another dim, whose points follow them: vectors
  // run along that one.
  const ir::Dim* read_along(const ir::Dim* v) {
    const auto takes = [&](const ir::Dim* d) {
      if (d == v || estimate(d->extent) < 2 * natural_lanes(job_, n_, d) || natural_lanes(job_, n_, d) < 4 || !takes_turns(ctx_, n_, v, d)) return false;
      bool reads = false, fits = !facts_.has_fold(n_.writes[0].value);
      ir::walk(n_.writes[0].value, [&](const Expr* e) {
        if (e->op != Op::Load) return;
        fits &= e->args.size() == 1 && !facts_.needs_guard(e) && (!facts_.depends(e, d) || is_contiguous(ctx_, e->args[0], d));
        reads |= facts_.depends(e, d) && !is_contiguous(ctx_, e->args[0], v);
      });
      return fits && reads;
    };
    const auto at = std::find_if(n_.dims.begin(), n_.dims.end(), takes);
    return at == n_.dims.end() ? nullptr : *at;
  }

  // Loads of a long fold would be gathers along `v`, but are contiguous along a dim of the fold.
  bool fold_is_better(const ir::Dim* v, unsigned lanes) {
    bool better = false;
    for (const FlatWrite& w : n_.writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Fold || !facts_.depends(e, v) || !e->fold->combiner->commutative) return;
        for (const ir::Dim* d : e->fold->dims) {
          if (d->extent->is_const() && d->extent->i < 2 * static_cast<int64_t>(lanes)) continue;
          int gathers = 0, rows = 0, others = 0;
          for (const Expr* body : e->args)
            ir::walk(body, [&](const Expr* x) {
              if (x->op != Op::Load) return;
              auto unit = [&](const ir::Dim* dim) { return is_contiguous(ctx_, x->args[0], dim); };
              if (facts_.depends(x, v) && !unit(v)) ++gathers;
              if (!facts_.depends(x, d)) return;
              if (unit(d)) rows += facts_.depends(x, v) || distinct_values(x->args[0], d) > kFewValues;
              else others += distinct_values(x->args[0], d) > kFewValues;
            });
          better |= gathers > 0 && rows > 0 && others == 0;
        }
      });
    return better;
  }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  Facts facts_;
  std::vector<const ir::Dim*> order_;  // outer to inner
  size_t parallel_ = 0;                // along the first so many a launch may be cut
  const ir::Dim *vector_ = nullptr, *turns_ = nullptr;  // `turns_`: innermost, in copies
  unsigned width_ = 1;
  DimNames names_;
  std::unordered_map<const ir::Dim*, std::string> name_;
};

}  // namespace

Schedules maps(const Job& job, const FlatNest& nest) { return Maps(job, nest).run(); }

}  // namespace mlc::lower
