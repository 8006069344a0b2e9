// One register tile of a contraction: loops over taps and k, then the epilogue on the accumulators.
#include "packager/lower/gemm.h"

#include <algorithm>
#include <cmath>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

void Gemm::begin_tile(const Expr* first_row, unsigned height, const Group& g) {
  first_row_ = first_row;
  height_ = height;
  chains_ = chains_for(height, g.vectors);
  acc_.clear();
  const Expr* zero = loop::splat(ctx_, ctx_.number(0, DType::F32), accumulator_lanes());
  for (unsigned k = 0; k < chains_ * height * g.vectors; ++k) acc_.push_back(k_.b.local(zero));
}

const Expr*& Gemm::acc(unsigned chain, unsigned row, unsigned j, const Group& g) {
  return acc_[(chain * height_ + row) * g.vectors + j];
}

void Gemm::tile(const Group& g, const Expr* first_row, unsigned height, bool check_rows) {
  begin_tile(first_row, height, g);
  taps(0, {}, [&] {
    if (!check_rows) return k_loop(g, 0, height, {});
    std::vector<const Expr*> reached;
    const Expr* any = ctx_.boolean(false);
    for (unsigned r = 0; r < height; ++r) {
      s_.scoped([&] {
        s_.bind(c_.m, ctx_.add(first_row, ctx_.integer(r)));
        const Expr* all = ctx_.boolean(true);
        for (const Expr* term : row_terms_) all = ctx_.binary(Op::And, all, s_.value(term));
        reached.push_back(k_.b.let(all));
      });
      any = ctx_.binary(Op::Or, any, reached.back());
    }
    // Conditions are affine in the row: what holds at both ends holds between.
    const Expr* whole = ctx_.binary(Op::And, reached.front(), reached.back());
    k_.b.with_if(whole, [&] { s_.scoped([&] { k_loop(g, 0, height, {}); }); },
                 [&] { k_.b.with_if(any, [&] { s_.scoped([&] { k_loop(g, 0, height, reached); }); }); });
  });
  epilogue(g);
}

// Loops over the taps that are not in `done`, with bounds from their conditions.
void Gemm::taps(size_t level, const std::vector<const ir::Dim*>& done, const std::function<void()>& body) {
  auto is_done = [&](const ir::Dim* d) { return std::find(done.begin(), done.end(), d) != done.end(); };
  if (level == 0) {  // conditions on none of the loops below
    const Expr* outer = nullptr;
    for (const Expr* term : tap_terms_)
      if (std::none_of(c_.taps.begin(), c_.taps.end(),
                       [&](const ir::Dim* d) { return !is_done(d) && s_.facts.depends(term, d); }))
        outer = s_.both(outer, s_.value(term));
    if (outer) {
      k_.b.with_if(outer, [&] { s_.scoped([&] { tap_loop(0, done, body); }); });
      return;
    }
  }
  tap_loop(level, done, body);
}

void Gemm::tap_loop(size_t level, const std::vector<const ir::Dim*>& done, const std::function<void()>& body) {
  while (level < c_.taps.size() && std::find(done.begin(), done.end(), c_.taps[level]) != done.end()) ++level;
  if (level == c_.taps.size()) return body();
  const ir::Dim* d = c_.taps[level];
  const Expr *begin = ctx_.integer(0), *end = d->extent;
  const Expr* test = nullptr;
  std::vector<const Expr*> tests;
  for (const Expr* term : tap_terms_) {
    if (!s_.facts.depends(term, d)) continue;
    bool inner = false;  // mentions a dim of a deeper loop: belongs there
    for (size_t k = level + 1; k < c_.taps.size(); ++k)
      inner |= std::find(done.begin(), done.end(), c_.taps[k]) == done.end() && s_.facts.depends(term, c_.taps[k]);
    if (inner) continue;
    auto bound = bound_of(ctx_, term, d);
    if (!bound) {
      tests.push_back(term);
      continue;
    }
    if (bound->begin) begin = ctx_.max(begin, bound->begin);
    if (bound->end) end = ctx_.min(end, bound->end);
  }
  const Expr* lo = k_.b.let(s_.value(begin));
  const Expr* hi = k_.b.let(s_.value(end));
  s_.with_for(d, lo, hi, 1, [&] {
    for (const Expr* t : tests) test = s_.both(test, s_.value(t));
    if (!test) return tap_loop(level + 1, done, body);
    k_.b.with_if(test, [&] { s_.scoped([&] { tap_loop(level + 1, done, body); }); });
  });
}

// acc[r] += A[row r] * B for all of k, rows lo .. hi-1. `reached`: which rows exist (empty: all).
void Gemm::k_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const Expr*>& reached) {
  const Expr* zero = ctx_.integer(0);
  s_.bind(c_.k, zero);
  if (c_.m) s_.bind(c_.m, first_row_);
  const Expr* a_base = k_.b.let(s_.value(c_.a->args[0]));
  const Expr *a_m = s_.value(c_.a_m), *a_k = s_.value(c_.a_k), *b_k = s_.value(c_.b_k);
  const auto column_at = [&](const Expr* panel, const Expr* lane) {
    return ctx_.add(ctx_.mul(s_.value(c_.b_panel), panel), c_.b_n ? ctx_.mul(s_.value(c_.b_n), lane) : lane);
  };
  const Expr* sixteen = ctx_.integer(16);
  const Expr* b_base = k_.b.let(ctx_.add(s_.value(c_.b_rest), column_at(ctx_.floordiv(g.first, sixteen), ctx_.floormod(g.first, sixteen))));
  std::vector<const Expr*> row_offset(hi), column_offset(g.vectors), mask(g.vectors);
  for (unsigned r = lo; r < hi; ++r) {
    const Expr* at = ctx_.mul(a_m, ctx_.integer(r));
    // A row that does not exist reads the first elements of the buffer instead and counts as zero.
    if (!reached.empty()) at = ctx_.select(reached[r], at, ctx_.sub(zero, a_base));
    row_offset[r] = k_.b.let(at);
  }
  for (unsigned j = 0; j < g.vectors; ++j) {
    int64_t column = j * int64_t{lanes_};
    column_offset[j] = k_.b.let(column_at(ctx_.integer(column / 16), ctx_.integer(column % 16)));
    const Expr* m = c_.padded_panels ? nullptr : column_mask(g, ctx_.integer(column));
    mask[j] = m && !m->is_const() ? k_.b.let(m) : nullptr;
  }

  auto step = [&](const Expr* a_at, const Expr* b_at, unsigned u) {
    const Expr* bu = ctx_.mul(b_k, ctx_.integer(int64_t{u} * c_.k_lanes));
    const Expr* au = ctx_.mul(a_k, ctx_.integer(int64_t{u} * c_.k_lanes));
    std::vector<const Expr*> b(g.vectors);
    for (unsigned j = 0; j < g.vectors; ++j)
      b[j] = k_.b.let(operand(c_.b, accumulator_lanes(), ctx_.add(ctx_.add(b_at, bu), column_offset[j]), mask[j]));
    for (unsigned r = lo; r < hi; ++r) {
      const Expr* a = operand(c_.a, c_.k_lanes, ctx_.add(ctx_.add(a_at, au), row_offset[r]), nullptr);
      a = loop::splat(ctx_, a, accumulator_lanes());
      if (!reached.empty())
        a = loop::vec_select(ctx_, reached[r], a, loop::splat(ctx_, ctx_.number(0, DType::F32), accumulator_lanes()));
      a = k_.b.let(a);
      for (unsigned j = 0; j < g.vectors; ++j) {
        const Expr* x = acc(u % chains_, r, j, g);
        k_.b.assign(x, loop::vec_fma(ctx_, a, b[j], x));
      }
    }
  };

  const Expr* count = ctx_.floordiv(s_.scalar(c_.k->extent), ctx_.integer(c_.k_lanes));
  int64_t unroll = 2;
  if (count->is_const() && count->i <= 8) unroll = std::max<int64_t>(count->i, 1);
  else if (tile_.rows * tile_.vectors >= 28 || job_.target.vector_registers <= 16)
    unroll = 1;  // no register to spare
  unroll = std::max<int64_t>(unroll, chains_);
  auto loop_over = [&](const Expr* begin, const Expr* end, int64_t by) {
    auto body = [&](const Expr* k) {
      const Expr* vector = ctx_.mul(k, ctx_.integer(c_.k_lanes));
      const Expr* a_at = k_.b.let(ctx_.add(a_base, ctx_.mul(vector, a_k)));
      const Expr* b_at = k_.b.let(ctx_.add(b_base, ctx_.mul(vector, b_k)));
      for (int64_t u = 0; u < by; ++u) step(a_at, b_at, static_cast<unsigned>(u));
    };
    if (begin->is_const() && end->is_const() && begin->i >= end->i) return;
    if (begin->is_const() && end->is_const() && end->i - begin->i == by) return body(begin);
    k_.b.with_for(begin, end, by, body);
  };
  const Expr* whole = k_.b.let(ctx_.mul(ctx_.floordiv(count, ctx_.integer(unroll)), ctx_.integer(unroll)));
  loop_over(zero, whole, unroll);
  if (unroll > 1) loop_over(whole, count, 1);
}

// Elements of a factor in f32.
const Expr* Gemm::operand(const Expr* load, unsigned lanes, const Expr* at, const Expr* mask) {
  const auto count = static_cast<uint16_t>(lanes);
  const Expr* elements = loop::vec_load(ctx_, load->array, {load->type.dtype, count}, at, mask);
  return load->type.dtype == DType::F32 ? elements : ctx_.convert(Op::Cast, {DType::F32, count}, elements);
}

const Expr* Gemm::total_of(const Group& g, unsigned r, unsigned j) {
  std::vector<const Expr*> parts;
  for (unsigned ch = 0; ch < chains_; ++ch) parts.push_back(acc(ch, r, j, g));
  while (parts.size() > 1) {
    for (size_t k = 0; k < parts.size() / 2; ++k)
      parts[k] = loop::vec_binary(ctx_, Op::Add, parts[k], parts[k + parts.size() / 2]);
    parts.resize(parts.size() / 2);
  }
  if (c_.along_k()) return k_.b.let(loop::lanes_fold(ctx_, Op::SumLanes, parts[0]));
  return chains_ > 1 ? k_.b.let(parts[0]) : parts[0];
}

void Gemm::epilogue(const Group& g) {
  if (epilogue_lanes_ > 1) return epilogue_along_rows(g);
  if (!long_epilogue_) {
    for (unsigned r = 0; r < height_; ++r)
      for (unsigned j = 0; j < g.vectors; ++j)
        finish_vector(g, total_of(g, r, j), ctx_.integer(r), ctx_.integer(j * int64_t{lanes_}),
                      column_mask(g, ctx_.integer(j * int64_t{lanes_})));
    return;
  }
  // A long one is code only once: accumulators go through scratch memory, which stays in L1.
  const int64_t row = g.vectors * int64_t{lanes_};
  for (unsigned r = 0; r < height_; ++r)
    for (unsigned j = 0; j < g.vectors; ++j)
      k_.b.store(scratch_, ctx_.integer(r * row + j * int64_t{lanes_}), total_of(g, r, j));
  k_.b.with_for(ctx_.integer(0), ctx_.integer(height_), 1, [&](const Expr* r) {
    k_.b.with_for(ctx_.integer(0), ctx_.integer(row), lanes_, [&](const Expr* column) {
      const Expr* at = ctx_.add(ctx_.mul(r, ctx_.integer(row)), column);
      const Expr* total = k_.b.let(loop::vec_load(ctx_, scratch_, {DType::F32, static_cast<uint16_t>(lanes_)}, at));
      finish_vector(g, total, r, column, column_mask(g, column));
    });
  });
}

// The epilogue on the sums of one row and one vector of columns.
// Scalars of several rows, column after column: through scratch memory they become vectors.
void Gemm::epilogue_along_rows(const Group& g) {
  for (unsigned j = 0; j < g.vectors; ++j)
    for (unsigned r = 0; r < height_; ++r) k_.b.store(scratch_, ctx_.integer(int64_t{j} * tile_.rows + r), total_of(g, r, j));
  for (unsigned r = 0, lanes = epilogue_lanes_; r < height_; r += lanes) {
    const unsigned rest = height_ - r;
    if (!job_.target.has_masks)
      while (lanes > rest) lanes /= 2;
    const Expr* exists = nullptr;
    if (lanes > rest)
      exists = k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, ctx_.integer(0), lanes), loop::splat(ctx_, ctx_.integer(rest), lanes)));
    k_.b.with_for(ctx_.integer(0), ctx_.integer(g.vectors), 1, [&](const Expr* j) {
      s_.scoped([&] {
        const Expr* at = ctx_.add(ctx_.mul(j, ctx_.integer(tile_.rows)), ctx_.integer(r));
        const Expr* sums = k_.b.let(loop::vec_load(ctx_, scratch_, {DType::F32, static_cast<uint16_t>(lanes)}, at, exists));
        s_.bind(c_.n, ctx_.add(g.first, j));
        s_.bind(c_.m, ctx_.add(first_row_, ctx_.integer(r)));
        const auto finish = [&] {
          s_.define(c_.fold, sums);
          emit_writes(s_, k_.b, n_, nullptr);
        };
        lanes > 1 ? s_.vectorised(c_.m, lanes, exists, finish) : finish();
      });
    });
  }
}

void Gemm::finish_vector(const Group& g, const Expr* total, const Expr* row, const Expr* column, const Expr* mask) {
  s_.scoped([&] {
    if (c_.m) s_.bind(c_.m, ctx_.add(first_row_, row));
    s_.bind(c_.n, ctx_.add(g.first, column));
    if (mask) mask = k_.b.let(mask);
    if (lanes_ == 1) {
      auto one = [&] { s_.scoped([&] { s_.define(c_.fold, total); emit_writes(s_, k_.b, n_, nullptr); }); };
      return mask ? k_.b.with_if(mask, one) : one();
    }
    s_.vectorised(c_.n, lanes_, mask, [&] {
      s_.define(c_.fold, total);
      emit_writes(s_, k_.b, n_, nullptr);
    });
  });
}

}  // namespace mlc::lower
