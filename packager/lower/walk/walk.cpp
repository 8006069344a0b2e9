#include "packager/lower/walk/walk.h"

#include <algorithm>
#include <cassert>

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using schedule::Bind;
using schedule::Loop;
using schedule::Tail;

namespace {
constexpr unsigned kPanelLanes = 16;
constexpr int64_t kMostKnownRows = 4096;

std::vector<const ir::Dim*> row_taps_of(Facts& facts, const Anchor& anchor) {
  std::vector<const ir::Dim*> found;
  for (const ir::Dim* tap : anchor.taps)
    if (std::any_of(anchor.row_terms.begin(), anchor.row_terms.end(), [&](const Expr* t) { return facts.depends(t, tap); })) found.push_back(tap);
  return found;
}

// Whether the taps `at` reach this row. Only where may_peel_rows holds: then each term is a constant at such a point.
bool reaches(ir::Context& ctx, const Anchor& anchor, std::unordered_map<const Expr*, const Expr*> at, int64_t row) {
  at[ctx.dim(anchor.row)] = ctx.integer(row);
  return std::all_of(anchor.row_terms.begin(), anchor.row_terms.end(), [&](const Expr* term) {
    const Expr* holds = ctx.substitute(term, at);
    assert(holds->is_const() && "a tap is peeled whose reach only the run knows");
    return !holds->is_const() || holds->i;
  });
}

}  // namespace

bool may_peel_rows(ir::Context& ctx, Facts& facts, const Anchor& anchor) {
  (void)ctx;
  const ir::Dim* row = anchor.row;
  if (!row || anchor.row_terms.empty() || !row->extent->is_const() || row->extent->i > kMostKnownRows) return false;
  DimSet mentioned = 0, allowed = facts.bit(row);
  bool constant = true;
  for (const Expr* term : anchor.row_terms) {
    mentioned |= facts.dims(term);
    // Variables: the first row of a block of a group, whose place in the row is dynamic.
    ir::walk(term, [&](const Expr* e) { constant &= e->op != Op::Sym && e->op != Op::Var && e->op != Op::Load; });
  }
  int64_t combinations = 1;
  for (const ir::Dim* d : row_taps_of(facts, anchor)) {
    if (!d->extent->is_const() || d->extent->i > anchor.most_copies) return false;
    combinations *= d->extent->i;
    if (combinations > anchor.most_copies) return false;
    allowed |= facts.bit(d);
  }
  return constant && !(mentioned & ~allowed);
}

std::vector<bool> edges_of(ir::Context& ctx, Facts& facts, const Anchor& anchor, int64_t height) {
  const int64_t rows = anchor.row->extent->i, total = (rows + height - 1) / height;
  std::vector<bool> edges(static_cast<size_t>(std::max<int64_t>(total, 0)));
  if (total <= 0) return edges;
  const int64_t base = rows / total, extra = rows - base * total;
  for_each_tap(ctx, row_taps_of(facts, anchor), [&](const auto& at) {
    for (int64_t i = 0; i < total; ++i) {
      const int64_t first = i * base + std::min(i, extra), last = first + base + (i < extra) - 1;
      if (!reaches(ctx, anchor, at, first) || !reaches(ctx, anchor, at, last)) edges[static_cast<size_t>(i)] = true;
    }
  });
  return edges;
}

size_t num_edges(ir::Context& ctx, Facts& facts, const Anchor& anchor, int64_t height) {
  const std::vector<bool> edges = edges_of(ctx, facts, anchor, height);
  return static_cast<size_t>(std::count(edges.begin(), edges.end(), true));
}

int64_t reached_in_edges(ir::Context& ctx, Facts& facts, const Anchor& anchor, int64_t height) {
  const std::vector<bool> edges = edges_of(ctx, facts, anchor, height);
  const int64_t rows = anchor.row->extent->i, total = static_cast<int64_t>(edges.size());
  int64_t reached = 0;
  for_each_tap(ctx, row_taps_of(facts, anchor), [&](const auto& at) {
    for (int64_t i = 0; i < total; ++i) {
      const int64_t base = rows / total, extra = rows - base * total, first = i * base + std::min(i, extra);
      for (int64_t row = first; edges[static_cast<size_t>(i)] && row < first + base + (i < extra); ++row) reached += reaches(ctx, anchor, at, row);
    }
  });
  return reached;
}

std::optional<Ends> ends_of(ir::Context& ctx, Facts& facts, const Anchor& anchor) {
  if (!anchor.row) return std::nullopt;
  int64_t combinations = 1;
  for (const ir::Dim* d : row_taps_of(facts, anchor)) {
    if (!d->extent->is_const() || d->extent->i < 1 || d->extent->i > anchor.most_copies) return std::nullopt;
    combinations *= d->extent->i;
    if (combinations > anchor.most_copies) return std::nullopt;
  }
  Ends ends{0, 0, anchor.row->extent};
  bool known = true;
  for_each_tap(ctx, row_taps_of(facts, anchor), [&](const auto& at) {
    for (const Expr* term : anchor.row_terms) {
      const Expr* here = ctx.substitute(term, at);
      if (here->is_const()) {
        known &= here->i != 0;
        continue;
      }
      const auto bound = bound_of(ctx, here, anchor.row);
      known &= bound.has_value() && (!bound->begin || bound->begin->is_const());
      if (!known) return;
      if (bound->begin) ends.begin = std::max(ends.begin, bound->begin->i);
      if (!bound->end) continue;
      const Expr* before = ctx.sub(ends.end, bound->end);
      known &= before->is_const();
      if (!known || before->i <= 0) continue;
      ends.end = bound->end;
      ends.last += before->i;
    }
  });
  if (!known || ends.begin > kMostKnownRows || ends.last > kMostKnownRows) return std::nullopt;
  return ends;
}

bool may_peel_window(ir::Context& ctx, Facts& facts, const Anchor& anchor, const ir::Dim* tap) {
  if (!tap->extent->is_const() || tap->extent->i < 1) return false;
  return std::all_of(anchor.tap_terms.begin(), anchor.tap_terms.end(), [&](const Expr* term) {
    if (!facts.depends(term, tap)) return true;
    const auto mentioned = std::count_if(anchor.taps.begin(), anchor.taps.end(), [&](const ir::Dim* d) { return facts.depends(term, d); });
    return mentioned == 1 && bound_of(ctx, term, tap) && term->op != Op::Eq && !facts.needs_guard(term);
  });
}

Walk::Walk(const Job& job, const FlatNest& nest, Skeleton& k, const schedule::Schedule& how, const DimNames& names, Anchor anchor)
    : Stage(job, nest, k), how_(how), anchor_(std::move(anchor)) {
  schedule = schedule::print(how_);
  for (const Loop& l : how_.loops) all_.push_back({names.dim(l.dim), &l});
  for (const Step& s : all_) {
    if (s.how->reduces) continue;
    if (s.how->bind != Bind::Cut && s.how->bind != Bind::Grid && s.how->bind != Bind::Cluster) {
      steps_.push_back(s);
    } else if (last_loop_of(s.dim) == s.how) {
      batch.push_back(s.dim);
    } else {
      axis_dims_.push_back(s.dim);
      axes.push_back({ctx_.ceildiv(s.dim->extent, ctx_.integer(s.how->step))});
    }
  }
  outer_terms_ = anchor_.tap_terms;
  for (const ir::Dim* tap : anchor_.taps) {
    terms_.emplace_back();
    const Loop* l = last_loop_of(tap);
    if (l->bind == Bind::Unroll && l->peel) peeled_.push_back(tap);
  }
  std::erase_if(outer_terms_, [&](const Expr* term) {
    for (size_t level = anchor_.taps.size(); level-- > 0;)
      if (s_.facts.depends(term, anchor_.taps[level])) return terms_[level].push_back(term), true;
    return false;
  });
  row_taps_ = row_taps_of(s_.facts, anchor_);
  tile_.checked = !anchor_.row_terms.empty();
  const Loop* rows = anchor_.row ? loop_of(anchor_.row, Bind::Rows) : nullptr;
  if (rows && rows->even) num_row_tiles_ = ctx_.ceildiv(anchor_.row->extent, ctx_.integer(rows->step));
  if (rows && rows->even && rows->peel) edges_ = edges_of(ctx_, s_.facts, anchor_, rows->step);
}

const Loop* Walk::loop_of(const ir::Dim* d, Bind bind) const {
  for (const Step& s : all_)
    if (s.dim == d && s.how->bind == bind) return s.how;
  return nullptr;
}

const Loop* Walk::last_loop_of(const ir::Dim* d) const {
  const Loop* last = nullptr;
  for (const Step& s : all_)
    if (s.dim == d) last = s.how;
  return last;
}

void Walk::part(const std::vector<Range>& ranges) {
  parts_.clear();
  for (size_t k = 0; k < ranges.size(); ++k) {
    const int64_t step = loop_of(axis_dims_[k], Bind::Cut)->step;
    parts_[axis_dims_[k]] = {ranges[k], step, step};
  }
  const Loop* rows = anchor_.row ? loop_of(anchor_.row, Bind::Rows) : nullptr;
  if (rows && rows->even) {
    const Expr* extent = anchor_.row->extent;
    if (extent->is_const()) {
      row_base_ = ctx_.integer(extent->i / std::max<int64_t>(num_row_tiles_->i, 1));
      row_extra_ = ctx_.integer(extent->i - row_base_->i * num_row_tiles_->i);
    } else {
      row_base_ = k_.b.let(ctx_.floordiv(extent, ctx_.max(num_row_tiles_, ctx_.integer(1))));
      row_extra_ = k_.b.let(ctx_.sub(extent, ctx_.mul(row_base_, num_row_tiles_)));
    }
  }
  around([&] {
    const auto outside = parts_;
    for (const Step& s : steps_)
      if (s.how->bind != Bind::Rows) in_points(s.dim);
    walk(0);
    parts_ = outside;
  });
}

Walk::Part Walk::part_of(const ir::Dim* d) const {
  const auto at = parts_.find(d);
  return at == parts_.end() ? Part{{ctx_.integer(0), d->extent}, 1, 0} : at->second;
}

Range Walk::tiles_of_rows() const {
  const auto at = parts_.find(anchor_.row);
  return at == parts_.end() ? Range{ctx_.integer(0), num_row_tiles_} : at->second.range;
}

void Walk::in_points(const ir::Dim* d) {
  const auto at = parts_.find(d);
  if (at == parts_.end()) return;
  at->second.range = points_of(k_, at->second.range, at->second.quantum, d->extent);
  at->second.quantum = 1;
}

void Walk::walk(size_t l) {
  if (l == steps_.size()) return leaf();
  enter(l);
  switch (steps_[l].how->bind) {
    case Bind::Serial: return serial(l);
    case Bind::Lanes: return lanes(l);
    case Bind::Rows: return rows(l);
    case Bind::Unroll: return copies(l);
    case Bind::Cut: case Bind::Grid: case Bind::Cluster: return s_.fail("no loop of a map");
  }
}

void Walk::copies(size_t l) {
  const ir::Dim* d = steps_[l].dim;
  for (int64_t u = 0; u < d->extent->i; ++u)
    s_.scoped([&] {
      s_.bind(d, ctx_.integer(u));
      walk(l + 1);
    });
}

void Walk::serial(size_t l) {
  const auto [d, how] = steps_[l];
  const auto [lo, hi] = part_of(d).range;
  if (how->step == 1) return s_.with_for(d, lo, hi, 1, [&] { walk(l + 1); });
  const auto saved = parts_;
  k_.b.with_for(lo, hi, how->step, [&, d = d, how = how, hi = hi](const Expr* first) {
    s_.scoped([&] {
      parts_[d] = {{first, k_.b.let(ctx_.min(ctx_.add(first, ctx_.integer(how->step)), hi))}, 1, how->step};
      walk(l + 1);
    });
  });
  parts_ = saved;
}

// ---- vectors ----

void Walk::lanes(size_t l) {
  const Part part = part_of(steps_[l].dim);
  const auto inner = inner_points(l, part.range);
  if (!inner) return vectors(l, part, false);
  const bool repeats = may_repeat() && steps_[l].how->tail == Tail::Narrow && steps_[l].how->count == 1;
  const auto between = [&](const Range& range, bool is_whole) {
    if (range.begin->is_const() && range.end->is_const() && range.begin->i >= range.end->i) return;
    s_.scoped([&] {
      inner_ = true;
      repeats_from_ = repeats ? range.begin : nullptr;
      vectors(l, {range, 1, 1}, is_whole);
      repeats_from_ = nullptr;
      inner_ = false;
    });
  };
  if (!has_masked_borders(l)) {
    border(l, part.range.begin, inner->begin);
    between(*inner, false);
    return border(l, inner->end, part.range.end);
  }
  // All vectors begin where they would without borders: what is left over is in the last part alone.
  const auto [lo, hi] = part.range;
  const Expr* size = ctx_.integer(steps_[l].how->step * steps_[l].how->count);
  const auto vectors_to = [&](const Expr* to) { return ctx_.add(lo, ctx_.mul(ctx_.floordiv(ctx_.max(ctx_.sub(to, lo), ctx_.integer(0)), size), size)); };
  const Expr* begun = ctx_.add(lo, ctx_.mul(ctx_.ceildiv(ctx_.sub(inner->begin, lo), size), size));
  const Expr* first = k_.b.let(ctx_.min(begun, vectors_to(hi)));
  const Expr* last = k_.b.let(ctx_.max(vectors_to(inner->end), first));
  vectors(l, {{lo, first}, 1, 1}, true);
  between({first, last}, true);
  repeats_from_ = repeats ? lo : nullptr;
  vectors(l, {{last, hi}, 1, 1}, false);
  repeats_from_ = nullptr;
}

// Whole vectors, and what is left over point by point: a few as a rule.
void Walk::border(size_t l, const Expr* from, const Expr* to) {
  const auto [d, how] = steps_[l];
  const Expr* width = ctx_.integer(how->step);
  const Expr* whole = k_.b.let(ctx_.add(from, ctx_.mul(ctx_.floordiv(ctx_.max(ctx_.sub(to, from), ctx_.integer(0)), width), width)));
  if (how->step > 1) s_.with_for(d, from, whole, how->step, [&, how = how] { columns(l, static_cast<unsigned>(how->step), 1, nullptr); });
  s_.with_for(d, whole, to, 1, [&] { columns(l, 1, 1, nullptr); });
}

void Walk::vectors(size_t l, const Part& part, bool is_whole) {
  const auto [d, how] = steps_[l];
  const Expr *lo = part.range.begin, *hi = part.range.end;
  const int64_t size = how->step * how->count;
  const Expr* width = ctx_.integer(size);
  // Where a part begins at a multiple of the width, the extent alone says what is left over, in the last part.
  const bool aligned = part.align % size == 0;
  const auto whole = [&](const Expr* points) { return ctx_.mul(ctx_.floordiv(points, width), width); };
  const Expr* from = is_whole ? hi : k_.b.let(aligned ? whole(d->extent) : ctx_.add(lo, whole(ctx_.max(ctx_.sub(hi, lo), ctx_.integer(0)))));
  const Expr* end = aligned && hi != d->extent ? k_.b.let(ctx_.min(hi, from)) : from;
  s_.with_for(d, lo, end, size, [&, how = how] { columns(l, static_cast<unsigned>(how->step), how->count, nullptr); });
  if (is_whole) return;
  std::optional<int64_t> rest;
  if (aligned && d->extent->is_const()) rest = d->extent->i % size;
  else if (lo->is_const() && hi->is_const()) rest = std::max<int64_t>(hi->i - lo->i, 0) % size;
  const Expr* more = ctx_.binary(Op::Lt, from, hi);
  if ((rest && *rest == 0) || (more->is_const() && !more->i)) return;
  k_.b.with_if(more, [&, hi = hi] { s_.scoped([&] { repeats_from_ ? again(l, from, hi, rest) : rest_of_lanes(l, from, hi, rest); }); });
}

// A whole vector that ends at `to`, if there are as many points before.
void Walk::again(size_t l, const Expr* from, const Expr* to, std::optional<int64_t> rest) {
  const auto [d, how] = steps_[l];
  const Expr* first = ctx_.sub(to, ctx_.integer(how->step));
  const Expr* fits = ctx_.binary(Op::Le, repeats_from_, first);
  const auto whole = [&, d = d, how = how] {
    s_.scoped([&] {
      s_.bind(d, k_.b.let(first));
      columns(l, static_cast<unsigned>(how->step), 1, nullptr);
    });
  };
  if (fits->is_const()) return fits->i ? whole() : rest_of_lanes(l, from, to, rest);
  k_.b.with_if(fits, whole, [&] { s_.scoped([&] { rest_of_lanes(l, from, to, rest); }); });
}

void Walk::rest_of_lanes(size_t l, const Expr* from, const Expr* to, std::optional<int64_t> rest) {
  const auto [d, how] = steps_[l];
  const auto step = static_cast<unsigned>(how->step);
  // Half as many vectors side by side, and so on, down to `narrow` lanes.
  const auto halves = [&, d = d, how = how](unsigned narrow) {
    for (unsigned w = step * how->count / 2; w > narrow; w /= 2) {
      const unsigned whole = w / step * step;
      const Expr* end = k_.b.let(ctx_.add(from, ctx_.mul(ctx_.floordiv(ctx_.sub(to, from), ctx_.integer(whole)), ctx_.integer(whole))));
      s_.with_for(d, from, end, whole, [&] { columns(l, step, whole / step, nullptr); });
      from = end;
    }
  };
  if (how->tail == Tail::Mask) {
    if (how->count > 1 && !rest) {  // one panel after the other
      const unsigned narrow = std::min(step * how->count, kPanelLanes);
      if (halves_rest_) halves(narrow);
      return s_.with_for(d, from, to, narrow, [&] { columns(l, step, narrow / step, to); });
    }
    const unsigned vectors = rest ? static_cast<unsigned>((*rest + step - 1) / step) : 1;
    const int64_t last = rest ? *rest - int64_t{vectors - 1} * step : step;
    s_.bind(d, from);
    if (last > step / 2 || !may_halve(step)) return columns(l, step, vectors, rest && *rest % step == 0 ? nullptr : to);
    if (vectors > 1) s_.scoped([&] { columns(l, step, vectors - 1, nullptr); });
    s_.bind(d, ctx_.add(from, ctx_.integer(int64_t{vectors - 1} * step)));
    return columns(l, step / 2, 1, last == step / 2 ? nullptr : to);
  }
  if (how->tail == Tail::Narrow && how->count > 1) {
    halves(step - 1);
    if (rest) *rest %= step;
  }
  if (how->tail == Tail::Narrow && rest)
    for (unsigned w = step / 2; w >= 4; w /= 2) {
      const int64_t turns = *rest / w * w;
      const Expr* end = ctx_.add(from, ctx_.integer(turns));
      if (turns > 0) s_.with_for(d, from, end, w, [&] { columns(l, w, 1, nullptr); });
      from = end;
      *rest -= turns;
    }
  if (rest && *rest == 0) return;
  s_.with_for(d, from, to, 1, [&] { columns(l, 1, 1, nullptr); });
}

void Walk::columns(size_t l, unsigned lanes, unsigned vectors, const Expr* limit) {
  const Columns outer = columns_;
  const ir::Dim* d = steps_[l].dim;
  columns_ = {d, s_.bound(d), lanes, vectors, limit, nullptr};
  if (limit && steps_[l].how->count == 1 && lanes > 1 && how_.instruction.empty())
    columns_.mask = k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, columns_.first, lanes), loop::splat(ctx_, limit, lanes)));
  in_columns(l, [&] { walk(l + 1); });
  columns_ = outer;
}

void Walk::at_columns(const std::function<void()>& body) {
  if (columns_.lanes == 1) return body();
  s_.vectorised(columns_.dim, columns_.lanes, columns_.mask, body);
}

// ---- rows ----

void Walk::rows(size_t l) {
  const Tile outer = tile_;
  // Here, if the window's place is known here; else where its taps are.
  bool placed = true;
  for (size_t k = l + 1; k < steps_.size(); ++k)
    for (const Expr* term : anchor_.tap_terms) placed &= !s_.facts.depends(term, steps_[k].dim);
  const auto tiles = [&] { steps_[l].how->even ? around_rows([&] { even_rows(l); }) : fixed_rows(l); };
  placed ? by_window(tiles) : tiles();
  tile_ = outer;
}

void Walk::tile(size_t l, const Tile& tile) {
  tile_ = tile;
  walk(l + 1);
}

void Walk::even_rows(size_t l) {
  const bool checked = !anchor_.row_terms.empty() && !steps_[l].how->peel;
  const ir::Dim* d = anchor_.row;
  tile_.checked = checked;
  const auto [begin, end] = tiles_of_rows();
  if (!d->extent->is_const()) {  // each height once; a height occurs for one range of tiles
    int64_t most = steps_[l].how->step;
    while (most > 1 && ir::proves(ctx_, ctx_.binary(Op::Lt, d->extent, ctx_.integer(most)))) --most;  // as a remainder of a division
    for (auto h = static_cast<unsigned>(most); h >= 1; --h) {
      const Expr* n = ctx_.integer(h);
      const Expr* lower = ctx_.binary(Op::Eq, row_base_, n);
      const Expr* upper = ctx_.binary(Op::Eq, ctx_.add(row_base_, ctx_.integer(1)), n);
      const Expr* lo = ctx_.select(lower, row_extra_, ctx_.integer(0));
      const Expr* hi = ctx_.select(lower, num_row_tiles_, ctx_.select(upper, row_extra_, ctx_.integer(0)));
      run_of_tiles(l, ctx_.max(begin, lo), ctx_.min(end, hi), h);
    }
    return;
  }
  const int64_t base = row_base_->i, extra = row_extra_->i, total = num_row_tiles_->i;
  const auto is_edge = [&](int64_t i) { return !edges_.empty() && edges_[static_cast<size_t>(i)]; };
  for (int64_t i = 0; i < total;) {
    const auto h = static_cast<unsigned>(base + (i < extra));
    const int64_t first = i * base + std::min(i, extra);
    if (is_edge(i)) {
      const Expr* at = ctx_.integer(i);
      const Expr* is_here = ctx_.binary(Op::And, ctx_.binary(Op::Le, begin, at), ctx_.binary(Op::Lt, at, end));
      const auto one = [&] { s_.scoped([&] { tile(l, {ctx_.integer(first), h, true, false, false, at}); }); };
      if (is_here->is_const()) one();
      else k_.b.with_if(is_here, one);
      ++i;
      continue;
    }
    int64_t stop = i;
    while (stop < total && !is_edge(stop) && base + (stop < extra) == h) ++stop;
    run_of_tiles(l, ctx_.max(begin, ctx_.integer(i)), ctx_.min(end, ctx_.integer(stop)), h);
    i = stop;
  }
}

void Walk::run_of_tiles(size_t l, const Expr* begin, const Expr* end, unsigned height) {
  if (height == 0 || (begin->is_const() && end->is_const() && begin->i >= end->i)) return;
  const bool checked = tile_.checked;
  const auto body = [&](const Expr* i) {
    s_.scoped([&] { tile(l, {k_.b.let(ctx_.add(ctx_.mul(i, row_base_), ctx_.min(i, row_extra_))), height, false, checked, false, i}); });
  };
  if (begin->is_const() && end->is_const() && end->i - begin->i == 1) return body(begin);
  k_.b.with_for(begin, end, 1, body);
  tile_.checked = checked;
}

// Tiles of one height in the part of the row that the window reaches completely; all others row by row.
void Walk::fixed_rows(size_t l) {
  const ir::Dim* d = anchor_.row;
  const int64_t size = steps_[l].how->step;
  if (steps_[l].how->peel)
    if (const auto ends = ends_of(ctx_, s_.facts, anchor_)) return rows_between_ends(l, *ends);
  const Expr *lo = ctx_.integer(0), *hi = d->extent;
  for_each_tap(ctx_, row_taps_, [&](const auto& at) {
    for (const Expr* term : anchor_.row_terms) {
      const Expr* here = ctx_.substitute(term, at);
      if (here->is_const() && !here->i) hi = ctx_.integer(0);  // of none
      const auto bound = bound_of(ctx_, here, d);
      if (!bound) continue;  // holds for all of the row
      if (bound->begin) lo = ctx_.max(lo, bound->begin);
      if (bound->end) hi = ctx_.min(hi, bound->end);
    }
  });
  lo = k_.b.let(ctx_.min(s_.value(lo), s_.value(d->extent)));
  hi = k_.b.let(ctx_.max(s_.value(hi), lo));
  const auto one_by_one = [&](const Expr* from, const Expr* to) {
    s_.with_for(d, from, to, 1, [&] { tile(l, {s_.bound(d), 1, false, false, true}); });
  };
  const auto tiles = [&](const Expr* from, const Expr* to, int64_t height) {
    k_.b.with_for(from, to, height, [&](const Expr* at) {
      s_.scoped([&] { tile(l, {at, static_cast<unsigned>(height), false, false, false}); });
    });
  };
  one_by_one(ctx_.integer(0), lo);
  const Expr* whole = k_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(ctx_.sub(hi, lo), ctx_.integer(size)), ctx_.integer(size))));
  tiles(lo, whole, size);
  if (size > 1) tiles(whole, hi, 1);
  one_by_one(hi, d->extent);
}

// Where an image is wide enough, each tap reaches the same of the rows at its ends, whatever its width.
void Walk::rows_between_ends(size_t l, const Ends& ends) {
  const ir::Dim* d = anchor_.row;
  const int64_t size = steps_[l].how->step;
  const Expr *begin = ctx_.integer(ends.begin), *end = k_.b.let(s_.value(ends.end));
  const auto one_by_one = [&](const Expr* from, const Expr* to) {
    s_.with_for(d, from, to, 1, [&] { tile(l, {s_.bound(d), 1, false, false, true}); });
  };
  const auto edge = [&](const Expr* from, int64_t count, Tile::Side side) {
    for (int64_t at = 0; at < count; at += size)
      s_.scoped([&] {
        const auto height = static_cast<unsigned>(std::min(size, count - at));
        tile(l, {k_.b.let(ctx_.add(from, ctx_.integer(at))), height, true, false, false, nullptr, side, at});
      });
  };
  const auto inner = [&](const Expr* from, const Expr* to, int64_t height, const Expr* last) {
    k_.b.with_for(from, to, height, [&](const Expr* at) {
      s_.scoped([&] { tile(l, {last ? k_.b.let(ctx_.min(at, last)) : at, static_cast<unsigned>(height), false, false, false}); });
    });
  };
  const auto all = [&] {
    edge(ctx_.integer(0), ends.begin, Tile::Side::First);
    if (may_repeat()) {  // what is left over behind whole tiles is a tile that ends where they end
      const Expr* last = k_.b.let(ctx_.sub(end, ctx_.integer(size)));
      k_.b.with_if(ctx_.binary(Op::Le, begin, last), [&] { inner(begin, end, size, last); }, [&] { inner(begin, end, 1, nullptr); });
    } else {
      const Expr* whole = k_.b.let(ctx_.add(begin, ctx_.mul(ctx_.floordiv(ctx_.sub(end, begin), ctx_.integer(size)), ctx_.integer(size))));
      inner(begin, whole, size, nullptr);
      inner(whole, end, 1, nullptr);
    }
    edge(end, ends.last, Tile::Side::Last);
  };
  const Expr* wide = ctx_.binary(Op::Le, begin, end);
  if (wide->is_const()) return wide->i ? all() : one_by_one(ctx_.integer(0), d->extent);
  k_.b.with_if(wide, [&] { s_.scoped(all); }, [&] { one_by_one(ctx_.integer(0), d->extent); });
}

// Whether the taps at hand reach a row of a tile at the edge.
bool Walk::reached(unsigned row) {
  if (tile_.side == Tile::Side::None) return reaches(ctx_, anchor_, at_tap_, tile_.first->i + row);
  const Expr* end = tile_.side == Tile::Side::Last ? ends_of(ctx_, s_.facts, anchor_)->end : nullptr;
  return std::all_of(anchor_.row_terms.begin(), anchor_.row_terms.end(), [&](const Expr* term) {
    const auto bound = bound_of(ctx_, ctx_.substitute(term, at_tap_), anchor_.row);
    if (!bound) return true;
    if (!end) return !bound->begin || bound->begin->i <= tile_.first->i + row;
    return !bound->end || tile_.behind_end + row < ctx_.sub(bound->end, end)->i;
  });
}

// ---- taps ----

void Walk::by_window(const std::function<void()>& body) {
  if (peeled_.empty() || whole_) return body();
  // Terms are affine in the one tap that they mention: what holds for the first and the last holds between.
  const Expr* inside = ctx_.boolean(true);
  for (const Expr* term : anchor_.tap_terms)
    for (const ir::Dim* d : peeled_)
      for (const int64_t corner : {int64_t{0}, d->extent->i - 1})
        if (s_.facts.depends(term, d)) inside = ctx_.binary(Op::And, inside, s_.value(ctx_.substitute(term, {{ctx_.dim(d), ctx_.integer(corner)}})));
  const auto with = [&](bool whole) {
    s_.scoped([&] {
      whole_ = whole;
      body();
      whole_.reset();
    });
  };
  k_.b.with_if(inside, [&] { with(true); }, [&] { with(false); });
}

bool Walk::in_copies(const ir::Dim* tap) const {
  const Loop* l = last_loop_of(tap);
  if (tile_.edge && std::find(row_taps_.begin(), row_taps_.end(), tap) != row_taps_.end()) return true;
  return l->bind == Bind::Unroll && (!l->peel || *whole_);
}

void Walk::taps(const std::function<void(unsigned, unsigned)>& body) {
  by_window([&] {
    const Expr* outer = nullptr;
    for (const Expr* term : outer_terms_) outer = s_.both(outer, s_.value(term));
    if (!outer) return tap_level(0, body);
    k_.b.with_if(outer, [&] { s_.scoped([&] { tap_level(0, body); }); });
  });
}

void Walk::tap_level(size_t level, const std::function<void(unsigned, unsigned)>& body) {
  unsigned lo = 0, hi = tile_.height;
  if (tile_.edge && std::all_of(row_taps_.begin(), row_taps_.end(), [&](const ir::Dim* d) { return at_tap_.contains(ctx_.dim(d)); })) {
    while (lo < hi && !reached(lo)) ++lo;
    while (hi > lo && !reached(hi - 1)) --hi;
    if (lo == hi) return;
  }
  if (level == anchor_.taps.size()) return body(lo, hi);
  const ir::Dim* d = anchor_.taps[level];
  if (!in_copies(d)) return tap_loop(level, body);
  const bool whole = whole_.value_or(false) && last_loop_of(d)->peel;
  for (int64_t u = 0; u < d->extent->i; ++u)
    s_.scoped([&] {
      s_.bind(d, ctx_.integer(u));
      at_tap_[ctx_.dim(d)] = ctx_.integer(u);
      const Expr* test = nullptr;
      for (const Expr* term : terms_[level])
        if (!whole) test = s_.both(test, s_.value(term));
      if (!test) tap_level(level + 1, body);
      else k_.b.with_if(test, [&] { s_.scoped([&] { tap_level(level + 1, body); }); });
      at_tap_.erase(ctx_.dim(d));
    });
}

void Walk::tap_loop(size_t level, const std::function<void(unsigned, unsigned)>& body) {
  const ir::Dim* d = anchor_.taps[level];
  const PointsOf points = points_under(ctx_, d, terms_[level], {});
  const Expr* lo = k_.b.let(s_.value(points.begin));
  const Expr* hi = k_.b.let(s_.value(points.end));
  s_.with_for(d, lo, hi, 1, [&] {
    const Expr* test = nullptr;
    for (const Expr* term : points.tests) test = s_.both(test, s_.value(term));
    if (!test) return tap_level(level + 1, body);
    k_.b.with_if(test, [&] { s_.scoped([&] { tap_level(level + 1, body); }); });
  });
}

}  // namespace mlc::lower
