// Products whose B lies beyond L2: its panels come before they are needed, and stay until they are not.
//
//   fetch   while a group is used, each of its row tiles asks for a part of the next one, a line or two for each turn of its loop.
//           Without that, the time for memory is added to the time for arithmetic: the first tile of each group waits. More
//           than one line makes it slower where there are two tiles: they read as fast as memory answers.
//   parts   a group of panels that is longer than its share of L2 would come anew for each row tile. Parts of k of it go by for
//           all rows of a block, one after the other. The sums wait in scratch memory in between: the same sums in the same order.
//   beside  a residual is read once, where the result is written: a few lines of each row, which was not fetched before. Each
//           tile asks for its own as it begins, so that the epilogue does not wait.
#include "packager/lower/product/gemm.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {


}  // namespace

int64_t Gemm::bytes_of_b() const { return bytes_of(c_.b()->type.dtype); }

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

// B's element at the beginning of panel `panel`, for the taps and the k that this part begins with.
// Of the first panel. Where elements lie in groups along k, `b_rest` does not know k.
const Expr* Gemm::start_of_part() {
  const Expr* rest = s_.value(c_.b_rest);
  if (!part_begin_ || c_.group == 1) return rest;
  return ctx_.add(rest, ctx_.mul(ctx_.floordiv(part_begin_, ctx_.integer(c_.group)), s_.value(c_.b_k)));
}

const Expr* Gemm::start_of_panel(const Expr* panel) {
  const Expr* start = nullptr;
  s_.scoped([&] {
    s_.bind(c_.k, part_begin_ ? part_begin_ : ctx_.integer(0));
    for (const ir::Dim* d : c_.taps) s_.bind(d, ctx_.integer(0));
    start = ctx_.add(start_of_part(), ctx_.mul(s_.value(c_.b_panel), panel));
  });
  return start;
}

// The innermost dim of the batch that B has; null: it is the same for all of the batch.
const ir::Dim* Gemm::batch_of_b() {
  for (size_t k = c_.batch.size(); k-- > 0;)
    if (s_.facts.depends(c_.b_rest, c_.batch[k])) return c_.batch[k];
  return nullptr;
}

// Where what comes next begins: the same group further along k, the group behind it, the first one of the next point of the batch; where
// nothing does, the group itself, which is there.
const Expr* Gemm::start_of_next(const Group& g, const Expr* begin) {
  const Expr *panel = ctx_.floordiv(g.first, ctx_.integer(nest::kPanel)), *next = ctx_.add(panel, ctx_.integer(width_ / nest::kPanel));
  const Expr* exists = ctx_.binary(Op::Lt, ctx_.add(g.first, ctx_.integer(width_)), end_of_columns_);
  const Expr* from = begin;
  if (const ir::Dim* d = batch_of_b()) {
    const Expr *point = ctx_.add(s_.bound(d), ctx_.integer(1)), *more = ctx_.binary(Op::Lt, point, d->extent);
    s_.scoped([&] {
      s_.bind(d, k_.b.let(ctx_.select(more, point, s_.bound(d))));
      from = start_of_panel(ctx_.integer(0));
    });
    from = ctx_.select(more, from, begin);
  }
  if (!part_begin_) return ctx_.select(exists, start_of_panel(next), from);
  const int64_t depth = how_.blocks.depth;
  const Expr *group = ctx_.integer(c_.group), *b_k = s_.value(c_.b_k), *done = ctx_.mul(ctx_.floordiv(part_begin_, group), b_k);
  const Expr* more = ctx_.binary(Op::Lt, ctx_.add(part_begin_, ctx_.integer(depth)), c_.k->extent);
  return ctx_.select(more, ctx_.add(begin, ctx_.mul(ctx_.integer(depth / c_.group), b_k)), ctx_.sub(ctx_.select(exists, start_of_panel(next), from), done));
}

// What is fetched lies in one piece, or in one per panel. The row tiles are dealt out to the pieces, equally many to each.
void Gemm::plan_fetch(const Group& g) {
  fetch_.from = nullptr;
  const bool is_whole = !g.limit && int64_t{g.vectors} * g.lanes == width_;
  if (!how_.blocks.fetch || width_ % nest::kPanel != 0 || !c_.m) return;
  if (!is_whole && !batch_of_b()) return;  // behind the columns that are left over comes the next point of the batch, or nothing
  const int64_t panels = width_ / nest::kPanel, depth = part_begin_ ? how_.blocks.depth : k_total_->i;
  const bool one_piece = !part_begin_ && s_.value(c_.b_panel)->is_int(depth * nest::kPanel);
  const int64_t pieces = one_piece ? 1 : panels, piece = depth * width_ / pieces, line = job_.processor().line_bytes / bytes_of_b();
  const Expr* begin = k_.b.let(start_of_panel(ctx_.floordiv(g.first, ctx_.integer(nest::kPanel))));  // of what is read now
  const Range rows = tiles_of_rows();
  const Expr* tiles = ctx_.sub(rows.end, rows.begin);
  if (outer_inside_) {
    const Range outer = part_of(c_.m_outer).range;
    tiles = ctx_.mul(tiles, ctx_.sub(outer.end, outer.begin));
  }
  const Expr* per_piece = k_.b.let(ctx_.max(ctx_.floordiv(tiles, ctx_.integer(pieces)), ctx_.integer(1)));
  const Expr* most = ctx_.select(ctx_.binary(Op::Lt, per_piece, ctx_.integer(3)), ctx_.integer(1), ctx_.integer(2));
  fetch_.from = k_.b.let(start_of_next(g, begin));
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
  k_.b.prefetch(c_.b()->array, fetch_.at);
  if (fetch_.pieces == 1) k_.b.prefetch(c_.b()->array, ctx_.add(fetch_.at, ctx_.integer(job_.processor().line_bytes / bytes_of_b())));
  k_.b.assign(fetch_.at, ctx_.add(fetch_.at, ctx_.min(ctx_.mul(fetch_.per_step, ctx_.integer(steps)), fetch_.most)));
}

void Gemm::find_beside() {
  if (!c_.m || c_.along_k() || (k_total_->is_const() && k_total_->i < job_.processor().fetch_steps)) return;
  ir::walk(n_.writes[0].value, [&](const Expr* e) {
    if (e->op != Op::Load || e == c_.a() || e == c_.b() || e->array >= n_.params.size() || s_.facts.needs_guard(e)) return;
    const Expr* at = e->args[0];
    bool plain = s_.facts.depends(at, c_.m) && is_contiguous(ctx_, at, c_.n);
    ir::walk(at, [&](const Expr* x) { plain &= x->op != Op::Load && x->op != Op::Fold; });
    if (plain && std::find(beside_.begin(), beside_.end(), e) == beside_.end()) beside_.push_back(e);
  });
}

void Gemm::fetch_beside(const Group& g) {
  for (const Expr* load : beside_)
    for (unsigned r = 0; r < height_; ++r)
      for (int64_t column = 0; column < int64_t{g.vectors} * g.lanes; column += job_.processor().line_bytes / bytes_of(load->type.dtype))
        s_.scoped([&] {
          s_.bind(c_.m, ctx_.add(first_row_, ctx_.integer(r)));
          s_.bind(c_.n, ctx_.add(g.first, ctx_.integer(column)));
          k_.b.prefetch(load->array, s_.value(load->args[0]));
        });
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
