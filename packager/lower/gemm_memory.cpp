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

constexpr int64_t kFetchFrom = 512 << 10;   // bytes of B; less stays in L2 from one use to the next
constexpr int64_t kLongGroup = 160 << 10;   // bytes of a group's panels: two of them beside a block of A in a common L2
constexpr int64_t kLineBytes = 64;
constexpr int64_t kPartBytes = 160 << 10;   // of a group that goes by in parts

}  // namespace

void Gemm::choose_parts() {
  if (c_.along_k() || !c_.padded_panels || width_ % nest::kPanel != 0 || !k_total_->is_const() || !columns_->is_const()) return;
  const int64_t bytes = bytes_of_b();
  if (k_total_->i < 1 || columns_->i < 1 || k_total_->i > INT32_MAX || columns_->i > INT32_MAX) return;
  fetches_ = k_total_->i * columns_->i > kFetchFrom / bytes;
  const int64_t group = k_total_->i * int64_t{width_} * bytes, k = c_.k->extent->i;
  if (!fetches_ || group <= kLongGroup || c_.codes() || c_.m_outer || !c_.taps.empty() || !c_.m) return;
  const int64_t least = (group + kPartBytes - 1) / kPartBytes;
  for (int64_t parts = least; parts <= 2 * least && part_ == 0; ++parts)
    if (k % (2 * parts) == 0) part_ = k / parts;
  if (part_ == 0) return;
  const int64_t tiles = std::max<int64_t>(1, kBlockBytes / 4 / (part_ * tile_.rows));
  schedule += " by parts of " + std::to_string(part_);
  scratch_of_parts_ = k_.scratch("parts", c_.fold->type.dtype, ctx_.integer(tiles * sums_of_tile()));
}

int64_t Gemm::bytes_of_b() const { return c_.codes() ? 1 : bytes_of(c_.b->type.dtype); }

// Elements that a tile of any height keeps.
int64_t Gemm::sums_of_tile() const {
  constexpr int64_t kMostChained = 16;  // a tile of few sums has several of each
  return std::max<int64_t>(tile_.rows * int64_t{tile_.vectors}, kMostChained) * lanes_;
}

// What is fetched lies in one piece, or in one per panel. The row tiles are dealt out to the pieces, equally many to each.
void Gemm::plan_fetch(const Group& g) {
  fetch_.from = nullptr;
  if (!fetches_ || !g.has_next) return;
  const int64_t panels = width_ / nest::kPanel, depth = part_ > 0 ? part_ : k_total_->i;
  const bool one_piece = part_ == 0 && s_.value(c_.b_panel)->is_int(depth * nest::kPanel);
  const int64_t pieces = one_piece ? 1 : panels, piece = depth * width_ / pieces, line = kLineBytes / bytes_of_b();
  const Expr *stride = s_.value(c_.b_panel), *next = ctx_.mul(ctx_.integer(panels), stride), *exists = g.has_next;
  if (part_begin_) {
    const Expr *b_k = s_.value(c_.b_k), *more = ctx_.binary(Op::Lt, ctx_.add(part_begin_, ctx_.integer(part_)), c_.k->extent);
    next = ctx_.select(more, ctx_.mul(ctx_.integer(part_), b_k), ctx_.sub(next, ctx_.mul(part_begin_, b_k)));
    exists = ctx_.binary(Op::Or, exists, more);
  }
  const Expr* begin = nullptr;  // of what is read now
  s_.scoped([&] {
    s_.bind(c_.k, part_begin_ ? part_begin_ : ctx_.integer(0));
    for (const ir::Dim* d : c_.taps) s_.bind(d, ctx_.integer(0));
    begin = k_.b.let(ctx_.add(s_.value(c_.b_rest), ctx_.mul(stride, ctx_.floordiv(g.first, ctx_.integer(nest::kPanel)))));
  });
  const Expr* tiles = ctx_.sub(row_end_, row_begin_);
  if (c_.m_outer) tiles = ctx_.mul(tiles, num_row_tiles_);
  const Expr* per_piece = k_.b.let(ctx_.max(ctx_.floordiv(tiles, ctx_.integer(pieces)), ctx_.integer(1)));
  const Expr* most = ctx_.select(ctx_.binary(Op::Lt, per_piece, ctx_.integer(3)), ctx_.integer(1), ctx_.integer(2));
  fetch_.from = k_.b.let(ctx_.add(begin, ctx_.select(exists, next, ctx_.integer(0))));
  fetch_.pieces = pieces;
  fetch_.tiles_per_piece = per_piece;
  fetch_.per_tile = k_.b.let(ctx_.floordiv(ctx_.integer(piece), per_piece));
  fetch_.per_step = k_.b.let(ctx_.ceildiv(ctx_.integer(piece / depth * c_.step()), per_piece));
  fetch_.most = k_.b.let(ctx_.mul(ctx_.integer(line), one_piece ? most : ctx_.integer(1)));
}

void Gemm::begin_fetch(const Expr* index, unsigned height) {
  fetch_.at = nullptr;
  slot_ = ctx_.sub(index, row_begin_);
  if (!fetch_.from || height == 1) return;  // a single row reads each panel once: there is nothing to wait behind
  const Expr* tile = slot_;
  if (c_.m_outer) tile = ctx_.add(ctx_.mul(ctx_.sub(s_.bound(c_.m_outer), row_begin_), num_row_tiles_), index);
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

void Gemm::in_parts(const std::function<void()>& body) {
  if (part_ == 0) return body();
  k_.b.with_for(ctx_.integer(0), c_.k->extent, part_, [&](const Expr* begin) {
    s_.scoped([&] {
      part_begin_ = begin;
      body();
      part_begin_ = nullptr;
    });
  });
}

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
