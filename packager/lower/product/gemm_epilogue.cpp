// What becomes of the sums of a register tile: the epilogue, on accumulators or by way of scratch memory.
#include <utility>

#include "packager/lower/product/gemm.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

const Expr* Gemm::total_of(const Group& g, unsigned r, unsigned j) {
  std::vector<const Expr*> parts;
  for (unsigned ch = 0; ch < chains_; ++ch) parts.push_back(acc(ch, r, j, g));
  const Expr* total = joined(std::move(parts));
  if (c_.along_k()) return k_.b.let(loop::lanes_fold(ctx_, Op::SumLanes, total));
  return chains_ > 1 ? k_.b.let(total) : total;
}

const Expr* Gemm::sum_of_row(unsigned r) {
  if (!c_.product.sum_of_a) return nullptr;
  std::vector<const Expr*> parts;
  for (unsigned ch = 0; ch < chains_; ++ch) parts.push_back(row_sums_[ch * height_ + r]);
  return k_.b.let(joined(std::move(parts)));
}

void Gemm::epilogue(const Group& g) {
  if (epilogue_lanes_ > 1) return epilogue_along_rows(g);
  if (!through_memory_) {
    for (unsigned r = 0; r < height_; ++r) {
      const Expr* row_sum = sum_of_row(r);
      for (unsigned j = 0; j < g.vectors; ++j)
        finish_vector(g, total_of(g, r, j), row_sum, ctx_.integer(r), ctx_.integer(j * int64_t{lanes_}), column_mask(g, ctx_.integer(j * int64_t{lanes_})));
    }
    return;
  }
  // A long one is code only once: accumulators go through scratch memory, which stays in L1.
  if (late_.next) late_rows(g, late_.next, late_.end);
  if (is_tiled_) keep_tiles(g);
  for (unsigned r = 0; r < height_ && !is_tiled_; ++r) {
    for (unsigned j = 0; j < g.vectors; ++j) k_.b.store(scratch_, place_in_tile(g, ctx_.integer(r), j), total_of(g, r, j));
    if (c_.product.sum_of_a) k_.b.store(scratch_of_sums_, ctx_.integer(r), lanes_ > 1 ? loop::extract(ctx_, sum_of_row(r), 0) : sum_of_row(r));
  }
  if (late_.next) return keep_for_later();
  // Column by column: what only these know (bias, scale) is read once for all rows.
  k_.b.with_for(ctx_.integer(0), ctx_.integer(g.vectors * int64_t{lanes_}), lanes_, [&](const Expr* column) {
    k_.b.with_for(ctx_.integer(0), ctx_.integer(height_), 1, [&](const Expr* r) { finish_kept(g, r, column); });
  });
}

const Expr* Gemm::place_in_tile(const Group& g, const Expr* row, unsigned j) {
  if (is_tiled_) return place_of_tiled(row, ctx_.integer(j * int64_t{lanes_}));
  return ctx_.add(ctx_.mul(row, ctx_.integer(g.vectors * int64_t{lanes_})), ctx_.integer(j * int64_t{lanes_}));
}

const Expr* Gemm::place_of_column(const Group& g, const Expr* row, const Expr* column) {
  return is_tiled_ ? place_of_tiled(row, column) : ctx_.add(place_in_tile(g, row, 0), column);
}

// The epilogue on sums in scratch memory.
void Gemm::finish_kept(const Group& g, const Expr* row, const Expr* column) {
  const Expr* row_sum = c_.product.sum_of_a ? k_.b.let(loop::vec_load(ctx_, scratch_of_sums_, {DType::I32, 1}, row)) : nullptr;
  const Expr* at = place_of_column(g, row, column);
  const Expr* total = k_.b.let(loop::vec_load(ctx_, scratch_, {c_.fold()->type.dtype, static_cast<uint16_t>(lanes_)}, at));
  finish_vector(g, total, row_sum, row, column, column_mask(g, column));
}

// ---- late: the sums of a tile wait for the next one ----
//
// Requantising is a chain of some twenty operations, most of them on other ports than products of codes: beside these it is nearly
// free, behind them it takes as long as a quarter of a 3x3 convolution of 32 channels. So each tap of a tile finishes a row or so of the tile
// before it; the last tile of a group of columns has none to wait for.

void Gemm::in_columns(size_t l, const std::function<void()>& body) {
  const unsigned whole = std::exchange(lanes_, columns_.lanes);
  at_columns_of(l, body);
  lanes_ = whole;
}

void Gemm::at_columns_of(size_t l, const std::function<void()>& body) {
  if (!is_late_) return body();
  s_.scoped([&] {
    late_.next = k_.b.local(ctx_.integer(0));
    late_.end = k_.b.local(ctx_.integer(0));
    late_.first_row = k_.b.local(ctx_.integer(0));
    late_.dims.clear();
    for (size_t k = l + 1; k < steps_.size(); ++k)
      if (steps_[k].how->bind == schedule::Bind::Serial) late_.dims.emplace_back(steps_[k].dim, k_.b.local(ctx_.integer(0)));
    body();
    late_rows(columns_, late_.next, late_.end);
    late_ = {};
  });
}

void Gemm::keep_for_later() {
  k_.b.assign(late_.next, ctx_.integer(0));
  k_.b.assign(late_.end, ctx_.integer(height_));
  k_.b.assign(late_.first_row, first_row_);
  for (const auto& [d, at] : late_.dims) k_.b.assign(at, s_.bound(d));
}

void Gemm::late_rows(const Group& g, const Expr* begin, const Expr* end) {
  k_.b.with_for(begin, end, 1, [&](const Expr* row) { late_row(g, row); });
}

void Gemm::late_row(const Group& g, const Expr* row) {
  s_.scoped([&] {
    const Expr* first = std::exchange(first_row_, late_.first_row);
    for (const auto& [d, at] : late_.dims) s_.bind(d, at);
    for (unsigned j = 0; j < g.vectors; ++j) finish_kept(g, row, ctx_.integer(j * int64_t{lanes_}));
    first_row_ = first;
  });
}

// What one tap finishes, so that all of them finish a tile.
void Gemm::some_late_rows(const Group& g) {
  if (!late_.next) return;
  int64_t taps = 1;
  for (const ir::Dim* d : c_.taps) taps *= d->extent->i;
  for (int64_t k = 0; k < ctx_.ceildiv(ctx_.integer(most_rows_), ctx_.integer(taps))->i; ++k)
    k_.b.with_if(ctx_.binary(Op::Lt, late_.next, late_.end), [&] {
      late_row(g, late_.next);
      k_.b.assign(late_.next, ctx_.add(late_.next, ctx_.integer(1)));
    });
}

// Scalars of several rows, column after column: through scratch memory they become vectors.
void Gemm::epilogue_along_rows(const Group& g) {
  for (unsigned j = 0; j < g.vectors; ++j)
    for (unsigned r = 0; r < height_; ++r) k_.b.store(scratch_, ctx_.integer(j * most_rows_ + r), total_of(g, r, j));
  for (unsigned r = 0, lanes = epilogue_lanes_; r < height_; r += lanes) {
    const unsigned rest = height_ - r;
    if (!job_.target.has_masks)
      while (lanes > rest) lanes /= 2;
    const Expr* exists = nullptr;
    if (lanes > rest)
      exists = k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, ctx_.integer(0), lanes), loop::splat(ctx_, ctx_.integer(rest), lanes)));
    k_.b.with_for(ctx_.integer(0), ctx_.integer(g.vectors), 1, [&](const Expr* j) {
      s_.scoped([&] {
        const Expr* at = ctx_.add(ctx_.mul(j, ctx_.integer(most_rows_)), ctx_.integer(r));
        const Expr* sums = k_.b.let(loop::vec_load(ctx_, scratch_, {c_.acc(), static_cast<uint16_t>(lanes)}, at, exists));
        s_.bind(c_.n, ctx_.add(g.first, j));
        s_.bind(c_.m, ctx_.add(first_row_, ctx_.integer(r)));
        const auto finish = [&] {
          s_.define(c_.fold(), sums);
          emit_writes(s_, k_.b, n_, nullptr);
        };
        lanes > 1 ? s_.vectorised(c_.m, lanes, exists, finish) : finish();
      });
    });
  }
}

// The epilogue on the sums of one row and one vector of columns.
void Gemm::finish_vector(const Group& g, const Expr* total, const Expr* row_sum, const Expr* row, const Expr* column, const Expr* mask) {
  const auto finish = [&] {
    s_.define(c_.fold(), total);
    if (row_sum) s_.define(c_.product.sum_of_a, row_sum);
    emit_writes(s_, k_.b, n_, nullptr);
  };
  s_.scoped([&] {
    if (c_.m) s_.bind(c_.m, ctx_.add(first_row_, row));
    s_.bind(c_.n, ctx_.add(g.first, column));
    if (mask) mask = k_.b.let(mask);
    if (lanes_ > 1) return s_.vectorised(c_.n, lanes_, mask, finish);
    const auto one = [&] { s_.scoped(finish); };
    mask ? k_.b.with_if(mask, one) : one();
  });
}

}  // namespace mlc::lower
