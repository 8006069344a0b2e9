// Products whose B lies beyond L2: its panels come before they are needed, and stay until they are not.
//
//   fetch   while the first row tiles of a group multiply, each asks for the lines of one panel of the next group, one per step.
//           Without that, the time for memory is added to the time for arithmetic: the first tile of each group waits.
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
constexpr int64_t kPartBytes = 160 << 10;   // of a group that goes by in parts

}  // namespace

void Gemm::choose_parts() {
  if (c_.along_k() || !c_.padded_panels || width_ % nest::kPanel != 0 || !k_total_->is_const() || !columns_->is_const()) return;
  const int64_t bytes = c_.codes() ? 1 : bytes_of(c_.b->type.dtype);
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

// Elements that a tile of any height keeps.
int64_t Gemm::sums_of_tile() const {
  constexpr int64_t kMostChained = 16;  // a tile of few sums has several of each
  return std::max<int64_t>(tile_.rows * int64_t{tile_.vectors}, kMostChained) * lanes_;
}

const Expr* Gemm::ahead_of(const Group& g, const Expr* index, unsigned height) {
  slot_ = ctx_.sub(index, row_begin_);
  if (!fetches_ || !g.has_next || height == 1) return nullptr;  // a single row reads each panel once: there is nothing to wait behind
  const int64_t panels = width_ / nest::kPanel;
  const Expr* number = slot_;
  if (c_.m_outer) number = ctx_.add(ctx_.mul(ctx_.sub(s_.bound(c_.m_outer), row_begin_), num_row_tiles_), index);
  const Expr* panel = ctx_.mul(number, s_.value(c_.b_panel));
  const Expr* next_group = ctx_.mul(ctx_.integer(panels), s_.value(c_.b_panel));
  const Expr* exists = g.has_next;
  if (part_begin_) {
    const Expr *b_k = s_.value(c_.b_k), *more = ctx_.binary(Op::Lt, ctx_.add(part_begin_, ctx_.integer(part_)), c_.k->extent);
    next_group = ctx_.select(more, ctx_.mul(ctx_.integer(part_), b_k), ctx_.sub(next_group, ctx_.mul(part_begin_, b_k)));
    exists = ctx_.binary(Op::Or, exists, more);
  }
  const Expr* fetches = ctx_.binary(Op::And, exists, ctx_.binary(Op::Lt, number, ctx_.integer(panels)));
  return k_.b.let(ctx_.select(fetches, ctx_.add(panel, next_group), ctx_.integer(0)));  // 0: what is read now, and costs nothing
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
