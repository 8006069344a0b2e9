// Emits a contraction as register tiles (design: kernels.md sections 6 to 8).
//
//   tile of the launch   batch point, range of rows, range of column groups, as the launch is cut
//     block of groups    where B is larger than L2 and rows are few: as many groups as stay there; else all
//       block of rows    as many as stay in L2 while all of these groups go by
//         column group   as many columns as a register tile is wide; B's panels of it stay in L1 or L2
//           outer row dim  (output rows of a convolution)
//             row tile   heights differ by one at most, so that there is never a one-row tail
//               taps, k  accumulators are locals; rows of a tile that a tap does not reach are left out
//               epilogue
//
// Rows outside the image: where sizes are constants, the tiles at the edge are code of their own that leaves the rows
// out; where they are symbols, a tap that does not reach all rows of a tile reads zeros for the others.
#include "packager/lower/gemm.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kBlockSteps = 2'000'000;  // products of numbers in a block
constexpr int64_t kMinRows = 64;            // fewer rows per block would read B from beyond L2 too often
constexpr int64_t kManyBlocks = 8;          // of rows: all of A is better read once then than all of B
constexpr int64_t kSharedBytes = 16 << 20;  // of B: more comes from memory each time, while A stays in the shared cache
constexpr double kStepNs = 0.25;            // of a vector: two at once
constexpr size_t kMaxEdgeTiles = 6;
constexpr double kLongEpilogue = 14;        // operations: more than bias, residual, activation by min and max
constexpr int64_t kMaxUnrolledTaps = 16;

}  // namespace

Gemm::Gemm(const Job& job, const FlatNest& nest, Skeleton& k, Contraction c) : Stage(job, nest, k), c_(std::move(c)) {
  lanes_ = c_.along_k() ? 1 : std::min(16u, std::max(1u, job.target.f32_lanes()));
  rows_ = c_.m ? c_.m->extent : ctx_.integer(1);
  columns_ = c_.n->extent;
  tile_ = c_.along_k() ? choose_tile_along_k(job_.target, estimate(rows_), rows_->is_const(), static_cast<unsigned>(columns_->i))
                       : choose_tile(job_.target, estimate(rows_), rows_->is_const(), estimate(columns_), c_.sum_of_a ? 1 : 0);
  width_ = tile_.vectors * lanes_;
  schedule = "contraction " + std::to_string(tile_.rows) + "x" + std::to_string(width_);
  if (c_.group > 1) schedule += c_.codes() ? " of codes" : " of pairs";
  if (c_.along_k()) schedule += " along k x" + std::to_string(c_.k_lanes);
  num_row_tiles_ = ctx_.ceildiv(rows_, ctx_.integer(tile_.rows));
  num_groups_ = ctx_.ceildiv(columns_, ctx_.integer(width_));
  for (const Expr* term : c_.conditions)
    (c_.outside || s_.facts.depends(term, c_.m ? c_.m : c_.n) ? row_terms_ : tap_terms_).push_back(term);
  row_space_ = c_.m_outer ? c_.m_outer->extent : num_row_tiles_;
  unit_rows_ = c_.m_outer ? rows_ : ctx_.integer(tile_.rows);
  std::vector<const Expr*> depths;
  for (const ir::Dim* d : c_.fold->fold->dims) depths.push_back(d->extent);
  k_total_ = ctx_.product(depths);
  find_edges();
  long_epilogue_ = s_.facts.cost(n_.writes[0].value) - s_.facts.cost(c_.fold) > kLongEpilogue && job_.target.f32_lanes() > 1;
  choose_epilogue_lanes();
  choose_parts();
  if (long_epilogue_ || epilogue_lanes_ > 1)
    scratch_ = k_.scratch("tile", c_.fold->type.dtype, ctx_.integer(tile_.rows * int64_t{width_}));
  if (long_epilogue_ && c_.sum_of_a) scratch_of_sums_ = k_.scratch("sums", DType::I32, ctx_.integer(tile_.rows));

  batch = c_.batch;
  const Expr* bytes = ctx_.integer(bytes_of(c_.b->type.dtype));  // of an element
  axes = {{row_space_, product({bytes, c_.k->extent, unit_rows_})}, {num_groups_, product({bytes, k_total_, ctx_.integer(width_)})}};
  std::vector<const Expr*> extents{rows_, columns_, k_total_};
  for (const ir::Dim* d : c_.batch) extents.push_back(d->extent);
  if (c_.m_outer) extents.push_back(c_.m_outer->extent);
  work = k_.takes(kStepNs / std::max(lanes_, c_.k_lanes) / static_cast<double>(c_.group), extents);
}

void Gemm::part(const std::vector<Range>& ranges) {
  if (rows_->is_const()) {
    row_base_ = ctx_.integer(rows_->i / std::max<int64_t>(num_row_tiles_->i, 1));
    row_extra_ = ctx_.integer(rows_->i - row_base_->i * num_row_tiles_->i);
  } else {
    row_base_ = k_.b.let(ctx_.floordiv(rows_, ctx_.max(num_row_tiles_, ctx_.integer(1))));
    row_extra_ = k_.b.let(ctx_.sub(rows_, ctx_.mul(row_base_, num_row_tiles_)));
  }
  in_blocks(ranges[0], ranges[1]);
}

const Expr* Gemm::product(std::initializer_list<const Expr*> factors) { return ctx_.product(std::vector<const Expr*>(factors)); }

const Expr* Gemm::about(int64_t all, const Expr* each) {
  const Expr* n = ctx_.max(each, ctx_.integer(1));
  return ctx_.max(ctx_.floordiv(ctx_.add(ctx_.integer(all), ctx_.floordiv(n, ctx_.integer(2))), n), ctx_.integer(1));
}

const Expr* Gemm::at_most(int64_t all, const Expr* each) {
  return ctx_.max(ctx_.floordiv(ctx_.integer(all), ctx_.max(each, ctx_.integer(1))), ctx_.integer(1));
}

void Gemm::in_blocks(const Range& rows, const Range& groups_range) {
  const Expr* step = product({k_total_, columns_, unit_rows_});
  const Expr* wanted = ctx_.max(about(kBlockSteps, step), about(kMinRows, unit_rows_));
  const Expr* depth = part_ > 0 ? ctx_.integer(part_) : c_.k->extent;
  const Expr* block = k_.b.let(ctx_.min(wanted, at_most(kBlockBytes / 4, product({depth, unit_rows_}))));
  const Expr* span = k_.b.let(ctx_.sub(rows.end, rows.begin));
  const Expr* all_of_b = ctx_.mul(k_total_, columns_);
  const Expr* few_rows = ctx_.binary(Op::Or, ctx_.binary(Op::Le, span, ctx_.mul(block, ctx_.integer(kManyBlocks))), ctx_.binary(Op::Lt, ctx_.integer(kSharedBytes / 4), all_of_b));
  const Expr* groups_outside = ctx_.binary(Op::And, ctx_.binary(Op::Lt, ctx_.integer(kBlockBytes / 4), all_of_b), few_rows);
  const Expr* rows_at_once = ctx_.mul(unit_rows_, ctx_.min(block, span));
  const Expr* few_groups = at_most(kBlockSteps, product({k_total_, ctx_.integer(width_), rows_at_once}));
  const Expr* group_block = k_.b.let(ctx_.select(groups_outside, few_groups, num_groups_));
  even_parts(groups_range, group_block, [&](const Range& some) {
    even_parts(rows, block, [&](const Range& part) {
      row_begin_ = part.begin;
      row_end_ = part.end;
      groups(some.begin, some.end, groups_range.end);
    });
  });
}

void Gemm::even_parts(const Range& range, const Expr* most, const std::function<void(const Range&)>& body) {
  const Expr* length = ctx_.sub(range.end, range.begin);
  const Expr* parts = k_.b.let(ctx_.ceildiv(length, ctx_.max(most, ctx_.integer(1))));
  if (parts->is_int(1)) return body(range);
  const auto begin_of = [&](const Expr* part) {
    return ctx_.add(range.begin, ctx_.floordiv(ctx_.mul(part, length), ctx_.max(parts, ctx_.integer(1))));
  };
  k_.b.with_for(ctx_.integer(0), parts, 1, [&](const Expr* part) {
    s_.scoped([&] { body({k_.b.let(begin_of(part)), k_.b.let(begin_of(ctx_.add(part, ctx_.integer(1))))}); });
  });
}

// Sums across lanes are scalars: the epilogue takes several rows at once, where they are written side by side or it is long.
void Gemm::choose_epilogue_lanes() {
  if (!c_.along_k() || !c_.m) return;
  const Expr* leaf[] = {ctx_.dim(c_.m)};
  auto lin = ir::linear_in(ctx_, n_.writes[0].address, leaf);
  const bool side_by_side = lin && lin->coefficients[0]->is_int(1);
  if (!side_by_side && !long_epilogue_) return;
  epilogue_lanes_ = natural_lanes(job_.target, n_);
  while (epilogue_lanes_ / 2 >= tile_.rows) epilogue_lanes_ /= 2;
}

void Gemm::groups(const Expr* begin, const Expr* end, const Expr* end_of_all) {
  const Expr* full = ctx_.floordiv(columns_, ctx_.integer(width_));
  const Expr* last_full = ctx_.min(end, full);
  k_.b.with_for(begin, last_full, 1, [&](const Expr* g) {
    s_.scoped([&] {
      const Expr* has_next = ctx_.binary(Op::Lt, ctx_.add(g, ctx_.integer(1)), ctx_.min(end_of_all, full));
      outer_rows({k_.b.let(ctx_.mul(g, ctx_.integer(width_))), tile_.vectors, nullptr, has_next});
    });
  });
  const Expr* first = ctx_.mul(full, ctx_.integer(width_));
  const Expr* rest = ctx_.sub(columns_, first);
  if (rest->is_int(0)) return;
  const Expr* here = ctx_.binary(Op::Lt, full, end);
  if (rest->is_const()) {
    unsigned vectors = static_cast<unsigned>((rest->i + lanes_ - 1) / lanes_);
    k_.b.with_if(here, [&] {
      s_.scoped([&] { outer_rows({first, vectors, rest->i % lanes_ ? columns_ : nullptr}); });
    });
    return;
  }
  unsigned narrow = std::min(width_, 16u);  // one panel after the other
  k_.b.with_if(here, [&] {
    first = k_.b.let(first);
    k_.b.with_for(first, columns_, narrow, [&](const Expr* n0) {
      s_.scoped([&] { outer_rows({n0, narrow / lanes_, columns_}); });
    });
  });
}

// The lanes of the vector at this column of the group that exist; null: all.
const Expr* Gemm::column_mask(const Group& g, const Expr* column) {
  if (!g.limit) return nullptr;
  const Expr* at = ctx_.add(g.first, column);
  if (at->is_const() && g.limit->is_const() && at->i + int64_t{lanes_} <= g.limit->i) return nullptr;
  if (lanes_ == 1) return ctx_.binary(Op::Lt, at, g.limit);
  return loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, at, lanes_), loop::splat(ctx_, g.limit, lanes_));
}

void Gemm::outer_rows(const Group& g) {
  if (!c_.m_outer)
    return in_parts([&] {
      plan_fetch(g);
      row_tiles(g, row_begin_, row_end_);
    });
  plan_fetch(g);
  s_.with_for(c_.m_outer, row_begin_, row_end_, 1, [&] { row_tiles(g, ctx_.integer(0), num_row_tiles_); });
}

void Gemm::row_tiles(const Group& g, const Expr* begin, const Expr* end) {
  if (!rows_->is_const()) {  // each height once; a height occurs for one range of tiles
    for (unsigned h = tile_.rows; h >= 1; --h) {
      const Expr* n = ctx_.integer(h);
      const Expr* lower = ctx_.binary(Op::Eq, row_base_, n);
      const Expr* upper = ctx_.binary(Op::Eq, ctx_.add(row_base_, ctx_.integer(1)), n);
      const Expr* lo = ctx_.select(lower, row_extra_, ctx_.integer(0));
      const Expr* hi = ctx_.select(lower, num_row_tiles_, ctx_.select(upper, row_extra_, ctx_.integer(0)));
      run_of_tiles(g, ctx_.max(begin, lo), ctx_.min(end, hi), h, !row_terms_.empty());
    }
    return;
  }
  int64_t base = row_base_->i, extra = row_extra_->i, total = num_row_tiles_->i;
  if (edges_.empty()) {
    run_of_tiles(g, ctx_.max(begin, ctx_.integer(0)), ctx_.min(end, ctx_.integer(extra)),
                 static_cast<unsigned>(base + 1), !row_terms_.empty());
    run_of_tiles(g, ctx_.max(begin, ctx_.integer(extra)), ctx_.min(end, ctx_.integer(total)),
                 static_cast<unsigned>(base), !row_terms_.empty());
    return;
  }
  for (int64_t i = 0; i < total;) {
    unsigned h = static_cast<unsigned>(base + (i < extra));
    int64_t first = i * base + std::min(i, extra);
    if (edges_[static_cast<size_t>(i)]) {
      const Expr* at = ctx_.integer(i);
      const Expr* is_here = ctx_.binary(Op::And, ctx_.binary(Op::Le, begin, at), ctx_.binary(Op::Lt, at, end));
      const auto tile = [&] { s_.scoped([&] { pruned_tile(g, at, first, h); }); };
      if (is_here->is_const()) tile();
      else k_.b.with_if(is_here, tile);
      ++i;
      continue;
    }
    int64_t stop = i;
    while (stop < total && !edges_[static_cast<size_t>(stop)] && base + (stop < extra) == h) ++stop;
    run_of_tiles(g, ctx_.max(begin, ctx_.integer(i)), ctx_.min(end, ctx_.integer(stop)), h, false);
    i = stop;
  }
}

void Gemm::run_of_tiles(const Group& g, const Expr* begin, const Expr* end, unsigned height, bool check_rows) {
  if (height == 0 || (begin->is_const() && end->is_const() && begin->i >= end->i)) return;
  auto body = [&](const Expr* i) {
    s_.scoped([&] {
      const Expr* first = k_.b.let(ctx_.add(ctx_.mul(i, row_base_), ctx_.min(i, row_extra_)));
      begin_fetch(i, height);
      tile(g, first, height, check_rows);
    });
  };
  if (begin->is_const() && end->is_const() && end->i - begin->i == 1) return body(begin);
  k_.b.with_for(begin, end, 1, body);
}

// With constant sizes: which row tiles some tap does not reach completely.
void Gemm::find_edges() {
  if (row_terms_.empty() || !rows_->is_const() || !c_.m || c_.outside) return;  // rows that read something else stay
  DimSet mentioned = 0, allowed = s_.facts.bit(c_.m);
  for (const Expr* term : row_terms_) mentioned |= s_.facts.dims(term);
  int64_t combinations = 1;
  for (const ir::Dim* d : c_.taps) {
    if (!(mentioned & s_.facts.bit(d))) continue;
    if (!d->extent->is_const() || d->extent->i > kMaxUnrolledTaps) return;
    combinations *= d->extent->i;
    if (combinations > kMaxUnrolledTaps) return;
    allowed |= s_.facts.bit(d);
    edge_taps_.push_back(d);
  }
  if (mentioned & ~allowed) return;
  bool constant = true;
  for (const Expr* term : row_terms_)
    ir::walk(term, [&](const Expr* e) { constant &= e->op != Op::Sym && e->op != Op::Load; });
  if (!constant || rows_->i > 4096) return;

  int64_t total = num_row_tiles_->i, base = rows_->i / total, extra = rows_->i - base * total;
  std::vector<bool> edges(static_cast<size_t>(total));
  for (int64_t i = 0; i < total; ++i)
    for (int64_t combo = 0; combo < combinations; ++combo) {
      int64_t first = i * base + std::min(i, extra), h = base + (i < extra);
      if (!reaches(first, combo) || !reaches(first + h - 1, combo)) edges[static_cast<size_t>(i)] = true;
    }
  if (static_cast<size_t>(std::count(edges.begin(), edges.end(), true)) <= kMaxEdgeTiles) edges_ = std::move(edges);
}

// The value of edge tap `k` in a combination.
int64_t Gemm::tap_value(size_t k, int64_t combo) const {
  for (size_t j = edge_taps_.size(); j-- > k + 1;) combo /= edge_taps_[j]->extent->i;
  return combo % edge_taps_[k]->extent->i;
}

bool Gemm::reaches(int64_t row, int64_t combo) {
  std::unordered_map<const Expr*, const Expr*> at{{ctx_.dim(c_.m), ctx_.integer(row)}};
  for (size_t k = 0; k < edge_taps_.size(); ++k) at[ctx_.dim(edge_taps_[k])] = ctx_.integer(tap_value(k, combo));
  for (const Expr* term : row_terms_) {
    const Expr* holds = ctx_.substitute(term, at);
    if (!holds->is_const() || !holds->i) return false;
  }
  return true;
}

void Gemm::pruned_tile(const Group& g, const Expr* index, int64_t first, unsigned height) {
  begin_fetch(index, height);
  begin_tile(ctx_.integer(first), height, g);
  int64_t combinations = 1;
  for (const ir::Dim* d : edge_taps_) combinations *= d->extent->i;
  for (int64_t combo = 0; combo < combinations; ++combo) {
    unsigned lo = 0, hi = height;
    while (lo < hi && !reaches(first + lo, combo)) ++lo;
    while (hi > lo && !reaches(first + hi - 1, combo)) --hi;
    if (lo == hi) continue;
    s_.scoped([&] {
      for (size_t k = 0; k < edge_taps_.size(); ++k) s_.bind(edge_taps_[k], ctx_.integer(tap_value(k, combo)));
      taps(0, edge_taps_, [&] { k_loop(g, lo, hi, {}); });
    });
  }
  epilogue(g);
}

}  // namespace mlc::lower
