// Products whose B lies beyond L2: its panels come before they are needed, and stay until they are not.
//
//   fetch   while a group is used, each of its row tiles asks for a part of the next one, a line or two for each turn of its loop.
//           Without that, the time for memory is added to the time for arithmetic: the first tile of each group waits. More
//           than one line makes it slower where there are two tiles: they read as fast as memory answers.
//   parts   a group of panels that is longer than its share of L2 would come anew for each row tile. Parts of k of it go by for
//           all rows of a block, one after the other. The sums wait in scratch memory in between: the same sums in the same order.
#include "packager/lower/gemm.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kLineBytes = 64;

}  // namespace

int64_t Gemm::bytes_of_b() const { return bytes_of(c_.b->type.dtype); }

void Gemm::enter(size_t l) {
  // Behind the columns, outside of all rows.
  if (l > 0 && steps_[l - 1].dim == c_.n && how_.blocks.depth == 0) plan_fetch(columns_);
}

void Gemm::around_rows(const std::function<void()>& tiles) {
  const int64_t depth = how_.blocks.depth;
  if (depth == 0) return tiles();
  k_.b.with_for(ctx_.integer(0), c_.k->extent, depth, [&](const Expr* begin) {
    s_.scoped([&] {
      part_begin_ = begin;
      plan_fetch(columns_);
      tiles();
      part_begin_ = nullptr;
    });
  });
}

// How far behind what is read now lies what comes next: the same group further along k, or the group behind it.
const Expr* Gemm::next_of_group(const Group& g) {
  const Expr *stride = s_.value(c_.b_panel), *next = ctx_.mul(ctx_.integer(width_ / nest::kPanel), stride);
  const Expr* exists = ctx_.binary(Op::Lt, ctx_.add(g.first, ctx_.integer(width_)), end_of_columns_);
  if (!part_begin_) return ctx_.select(exists, next, ctx_.integer(0));
  const int64_t depth = how_.blocks.depth;
  const Expr *group = ctx_.integer(c_.group), *b_k = s_.value(c_.b_k), *done = ctx_.mul(ctx_.floordiv(part_begin_, group), b_k);
  const Expr* more = ctx_.binary(Op::Lt, ctx_.add(part_begin_, ctx_.integer(depth)), c_.k->extent);
  return ctx_.select(more, ctx_.mul(ctx_.integer(depth / c_.group), b_k), ctx_.select(exists, ctx_.sub(next, done), ctx_.integer(0)));
}

// What is fetched lies in one piece, or in one per panel. The row tiles are dealt out to the pieces, equally many to each.
void Gemm::plan_fetch(const Group& g) {
  fetch_.from = nullptr;
  const bool is_whole = !g.limit && int64_t{g.vectors} * g.lanes == width_;
  if (!how_.blocks.fetch || !is_whole || width_ % nest::kPanel != 0 || !c_.m) return;
  const int64_t panels = width_ / nest::kPanel, depth = part_begin_ ? how_.blocks.depth : k_total_->i;
  const bool one_piece = !part_begin_ && s_.value(c_.b_panel)->is_int(depth * nest::kPanel);
  const int64_t pieces = one_piece ? 1 : panels, piece = depth * width_ / pieces, line = kLineBytes / bytes_of_b();
  const Expr* begin = nullptr;  // of what is read now
  s_.scoped([&] {
    s_.bind(c_.k, part_begin_ ? part_begin_ : ctx_.integer(0));
    for (const ir::Dim* d : c_.taps) s_.bind(d, ctx_.integer(0));
    begin = k_.b.let(ctx_.add(s_.value(c_.b_rest), ctx_.mul(s_.value(c_.b_panel), ctx_.floordiv(g.first, ctx_.integer(nest::kPanel)))));
  });
  const Range rows = tiles_of_rows();
  const Expr* tiles = ctx_.sub(rows.end, rows.begin);
  if (outer_inside_) {
    const Range outer = part_of(c_.m_outer).range;
    tiles = ctx_.mul(tiles, ctx_.sub(outer.end, outer.begin));
  }
  const Expr* per_piece = k_.b.let(ctx_.max(ctx_.floordiv(tiles, ctx_.integer(pieces)), ctx_.integer(1)));
  const Expr* most = ctx_.select(ctx_.binary(Op::Lt, per_piece, ctx_.integer(3)), ctx_.integer(1), ctx_.integer(2));
  fetch_.from = k_.b.let(ctx_.add(begin, next_of_group(g)));
  fetch_.pieces = pieces;
  fetch_.tiles_per_piece = per_piece;
  fetch_.per_tile = k_.b.let(ctx_.floordiv(ctx_.integer(piece), per_piece));
  fetch_.per_step = k_.b.let(ctx_.ceildiv(ctx_.integer(piece / depth * c_.step()), per_piece));
  fetch_.most = k_.b.let(ctx_.mul(ctx_.integer(line), one_piece ? most : ctx_.integer(1)));
}

// Of the tile that begins here.
void Gemm::begin_fetch() {
  fetch_.at = nullptr;
  const Range rows = tiles_of_rows();
  if (tile_.index) slot_ = ctx_.sub(tile_.index, rows.begin);
  if (!fetch_.from || !tile_.index || tile_.height == 1) return;  // a single row reads each panel once: there is nothing to wait behind
  const Expr* tile = slot_;
  if (outer_inside_) {
    const Expr* before = ctx_.sub(s_.bound(c_.m_outer), part_of(c_.m_outer).range.begin);
    tile = ctx_.add(ctx_.mul(before, ctx_.sub(rows.end, rows.begin)), tile);
  }
  const Expr* at = fetch_.from;
  if (fetch_.pieces > 1) {
    const Expr* piece = k_.b.let(ctx_.min(ctx_.floordiv(tile, fetch_.tiles_per_piece), ctx_.integer(fetch_.pieces - 1)));
    at = ctx_.add(at, ctx_.mul(piece, s_.value(c_.b_panel)));
    tile = ctx_.sub(tile, ctx_.mul(piece, fetch_.tiles_per_piece));
  }
  fetch_.at = k_.b.local(ctx_.add(at, ctx_.mul(tile, fetch_.per_tile)));
}

void Gemm::fetch(int64_t steps) {
  if (!fetch_.at) return;
  k_.b.prefetch(c_.b->array, fetch_.at);
  if (fetch_.pieces == 1) k_.b.prefetch(c_.b->array, ctx_.add(fetch_.at, ctx_.integer(kLineBytes / bytes_of_b())));
  k_.b.assign(fetch_.at, ctx_.add(fetch_.at, ctx_.min(ctx_.mul(fetch_.per_step, ctx_.integer(steps)), fetch_.most)));
}

// Elements that a tile of any height keeps; one of few sums has several of each.
int64_t Gemm::sums_of_tile() const { return std::max<int64_t>(most_rows_ * (width_ / lanes_), 2 * int64_t{most_chains_}) * lanes_; }

const Expr* Gemm::place_of_sum(size_t number) {
  return ctx_.add(ctx_.mul(slot_, ctx_.integer(sums_of_tile())), ctx_.integer(static_cast<int64_t>(number) * lanes_));
}

void Gemm::take_sums() {
  if (!part_begin_) return;
  k_.b.with_if(ctx_.binary(Op::Lt, ctx_.integer(0), part_begin_), [&] {
    for (size_t k = 0; k < acc_.size(); ++k) k_.b.assign(acc_[k], loop::vec_load(ctx_, scratch_of_parts_, acc_[k]->type, place_of_sum(k)));
  });
}

void Gemm::keep_sums() {
  for (size_t k = 0; k < acc_.size(); ++k) k_.b.store(scratch_of_parts_, place_of_sum(k), acc_[k]);
}

}  // namespace mlc::lower
