// Emits a contraction as register tiles (design: kernels.md sections 6 to 8).
//
//   tile of the launch   batch point, range of rows, range of column groups
//     column group       as many columns as a register tile is wide; B's panels of it stay in L1 or L2
//       outer row dim    (output rows of a convolution)
//         row tile       heights differ by one at most, so that there is never a one-row tail
//           taps, k      accumulators are locals; rows of a tile that a tap does not reach are left out
//           epilogue
//
// Rows outside the image: where sizes are constants, the tiles at the edge are code of their own that leaves the rows
// out; where they are symbols, a tap that does not reach all rows of a tile reads zeros for the others.
#include <algorithm>
#include <cmath>

#include "packager/lower/contraction.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using ir::Type;

namespace {

constexpr double kTileFlops = 4e6;        // some 20 to 40 us of one core
constexpr double kBlockBytes = 384 << 10; // of A that one tile reads: within half of a common L2
constexpr double kMinRows = 64;           // fewer rows per tile would read B from beyond L2 too often
constexpr size_t kMaxEdgeTiles = 6;
constexpr double kLongEpilogue = 14;        // operations: more than bias, residual, activation by min and max
constexpr int64_t kMaxUnrolledTaps = 16;

class Gemm {
 public:
  Gemm(const Job& job, const FlatNest& nest, const Contraction& c)
      : job_(job), n_(nest), c_(c), ctx_(job.ctx), k_(job), s_(job.ctx, job.target, job.expand, k_.b) {
    lanes_ = std::min(16u, std::max(1u, job.target.f32_lanes()));
    rows_ = c.m ? c.m->extent : ctx_.integer(1);
    columns_ = c.n->extent;
  }

  Result<loop::Kernel> run() {
    k_.kernel.params = n_.params;
    tile_ = choose_tile(job_.target, estimate(rows_), rows_->is_const(), estimate(columns_));
    width_ = tile_.vectors * lanes_;
    k_.kernel.schedule = "contraction " + std::to_string(tile_.rows) + "x" + std::to_string(width_);
    num_row_tiles_ = ctx_.ceildiv(rows_, ctx_.integer(tile_.rows));
    num_groups_ = ctx_.ceildiv(columns_, ctx_.integer(width_));
    for (const Expr* term : c_.conditions)
      (s_.facts.depends(term, c_.m ? c_.m : c_.n) ? row_terms_ : tap_terms_).push_back(term);
    choose_blocks();
    find_edges();
    long_epilogue_ = s_.facts.cost(n_.writes[0].value) - s_.facts.cost(c_.fold) > kLongEpilogue && lanes_ > 1;
    if (long_epilogue_)
      k_.kernel.locals.push_back({"tile", DType::F32, ctx_.integer(tile_.rows * int64_t{width_}), {}});

    std::vector<const Expr*> extents;
    for (const ir::Dim* d : c_.batch) extents.push_back(d->extent);
    const Expr* row_space = c_.m_outer ? c_.m_outer->extent : num_row_tiles_;
    const Expr* row_chunks = ctx_.ceildiv(row_space, ctx_.integer(row_chunk_));
    const Expr* group_chunks = ctx_.ceildiv(num_groups_, ctx_.integer(group_chunk_));
    extents.push_back(groups_outside_ ? group_chunks : row_chunks);
    extents.push_back(groups_outside_ ? row_chunks : group_chunks);
    k_.over_tiles(extents, [&](const std::vector<const Expr*>& at) {
      s_.scoped([&] {
        for (size_t k = 0; k < c_.batch.size(); ++k) s_.bind(c_.batch[k], at[k]);
        const Expr* row_index = at[at.size() - (groups_outside_ ? 1 : 2)];
        const Expr* group_index = at[at.size() - (groups_outside_ ? 2 : 1)];
        row_begin_ = k_.b.let(ctx_.mul(row_index, ctx_.integer(row_chunk_)));
        row_end_ = k_.b.let(ctx_.min(ctx_.add(row_begin_, ctx_.integer(row_chunk_)), row_space));
        if (rows_->is_const()) {
          row_base_ = ctx_.integer(rows_->i / std::max<int64_t>(num_row_tiles_->i, 1));
          row_extra_ = ctx_.integer(rows_->i - row_base_->i * num_row_tiles_->i);
        } else {
          row_base_ = k_.b.let(ctx_.floordiv(rows_, ctx_.max(num_row_tiles_, ctx_.integer(1))));
          row_extra_ = k_.b.let(ctx_.sub(rows_, ctx_.mul(row_base_, num_row_tiles_)));
        }
        const Expr* begin = k_.b.let(ctx_.mul(group_index, ctx_.integer(group_chunk_)));
        const Expr* end = k_.b.let(ctx_.min(ctx_.add(begin, ctx_.integer(group_chunk_)), num_groups_));
        groups(begin, end);
      });
    });
    return k_.finish(s_);
  }

 private:
  // ---- blocking ----

  void choose_blocks() {
    double k_total = 1;
    for (const ir::Dim* d : c_.fold->fold->dims) k_total *= std::max(1.0, estimate(d->extent));
    double rows = std::max(1.0, estimate(rows_)), columns = std::max(1.0, estimate(columns_));
    double unit_rows = c_.m_outer ? rows : tile_.rows;  // rows of one step of the row space
    double units = c_.m_outer ? std::max(1.0, estimate(c_.m_outer->extent)) : std::ceil(rows / tile_.rows);
    double row_bytes = 4 * std::max(1.0, estimate(c_.k->extent));
    double limit = std::max(1.0, std::floor(kBlockBytes / (row_bytes * unit_rows)));
    double wanted = std::max(kTileFlops / (2 * k_total * columns * unit_rows), kMinRows / unit_rows);
    double chunk = std::clamp(std::round(wanted), 1.0, std::min(limit, units));
    double chunks = std::ceil(units / chunk);  // of equal size
    row_chunk_ = static_cast<int64_t>(std::ceil(units / chunks));
    double group_flops = 2 * k_total * width_ * unit_rows * static_cast<double>(row_chunk_);
    double groups = std::ceil(columns / width_);
    double per_tile = std::clamp(std::floor(kTileFlops / group_flops), 1.0, groups);
    group_chunk_ = static_cast<int64_t>(std::ceil(groups / std::ceil(groups / per_tile)));
    groups_outside_ = k_total * columns * 4 > kBlockBytes && units <= 8 * static_cast<double>(row_chunk_);
  }

  // ---- columns ----

  struct Group {
    const Expr* first = nullptr;  // column
    unsigned vectors = 1;
    const Expr* limit = nullptr;  // columns beyond it do not exist (null: all do)
  };

  void groups(const Expr* begin, const Expr* end) {
    const Expr* full = ctx_.floordiv(columns_, ctx_.integer(width_));
    const Expr* last_full = ctx_.min(end, full);
    k_.b.with_for(begin, last_full, 1, [&](const Expr* g) {
      s_.scoped([&] { outer_rows({k_.b.let(ctx_.mul(g, ctx_.integer(width_))), tile_.vectors, nullptr}); });
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
  const Expr* column_mask(const Group& g, const Expr* column) {
    if (!g.limit) return nullptr;
    const Expr* at = ctx_.add(g.first, column);
    if (at->is_const() && g.limit->is_const() && at->i + int64_t{lanes_} <= g.limit->i) return nullptr;
    if (lanes_ == 1) return ctx_.binary(Op::Lt, at, g.limit);
    return loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, at, lanes_), loop::splat(ctx_, g.limit, lanes_));
  }

  // ---- rows ----

  void outer_rows(const Group& g) {
    if (!c_.m_outer) return row_tiles(g, row_begin_, row_end_);
    s_.with_for(c_.m_outer, row_begin_, row_end_, 1, [&] { row_tiles(g, ctx_.integer(0), num_row_tiles_); });
  }

  void row_tiles(const Group& g, const Expr* begin, const Expr* end) {
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
        s_.scoped([&] { pruned_tile(g, first, h); });
        ++i;
        continue;
      }
      int64_t stop = i;
      while (stop < total && !edges_[static_cast<size_t>(stop)] && base + (stop < extra) == h) ++stop;
      run_of_tiles(g, ctx_.integer(i), ctx_.integer(stop), h, false);
      i = stop;
    }
  }

  void run_of_tiles(const Group& g, const Expr* begin, const Expr* end, unsigned height, bool check_rows) {
    if (height == 0 || (begin->is_const() && end->is_const() && begin->i >= end->i)) return;
    auto body = [&](const Expr* i) {
      s_.scoped([&] {
        const Expr* first = k_.b.let(ctx_.add(ctx_.mul(i, row_base_), ctx_.min(i, row_extra_)));
        tile(g, first, height, check_rows);
      });
    };
    if (begin->is_const() && end->is_const() && end->i - begin->i == 1) return body(begin);
    k_.b.with_for(begin, end, 1, body);
  }

  // ---- edges of the image ----

  // With constant sizes: which row tiles some tap does not reach completely.
  void find_edges() {
    if (row_terms_.empty() || !rows_->is_const() || !c_.m) return;
    if (!c_.m_outer && row_chunk_ < num_row_tiles_->i) return;  // tiles are not at known places
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
  int64_t tap_value(size_t k, int64_t combo) const {
    for (size_t j = edge_taps_.size(); j-- > k + 1;) combo /= edge_taps_[j]->extent->i;
    return combo % edge_taps_[k]->extent->i;
  }
  bool reaches(int64_t row, int64_t combo) {
    std::unordered_map<const Expr*, const Expr*> at{{ctx_.dim(c_.m), ctx_.integer(row)}};
    for (size_t k = 0; k < edge_taps_.size(); ++k) at[ctx_.dim(edge_taps_[k])] = ctx_.integer(tap_value(k, combo));
    for (const Expr* term : row_terms_) {
      const Expr* holds = ctx_.substitute(term, at);
      if (!holds->is_const() || !holds->i) return false;
    }
    return true;
  }

  void pruned_tile(const Group& g, int64_t first, unsigned height) {
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

  // ---- one register tile ----

  void begin_tile(const Expr* first_row, unsigned height, const Group& g) {
    first_row_ = first_row;
    height_ = height;
    chains_ = chains_for(height, g.vectors);
    acc_.clear();
    const Expr* zero = loop::splat(ctx_, ctx_.number(0, DType::F32), lanes_);
    for (unsigned k = 0; k < chains_ * height * g.vectors; ++k) acc_.push_back(k_.b.local(zero));
  }
  const Expr*& acc(unsigned chain, unsigned row, unsigned j, const Group& g) {
    return acc_[(chain * height_ + row) * g.vectors + j];
  }

  void tile(const Group& g, const Expr* first_row, unsigned height, bool check_rows) {
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
  void taps(size_t level, const std::vector<const ir::Dim*>& done, const std::function<void()>& body) {
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

  void tap_loop(size_t level, const std::vector<const ir::Dim*>& done, const std::function<void()>& body) {
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
  void k_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const Expr*>& reached) {
    const Expr* zero = ctx_.integer(0);
    s_.bind(c_.k, zero);
    if (c_.m) s_.bind(c_.m, first_row_);
    const Expr* a_base = k_.b.let(s_.value(c_.a->args[0]));
    const Expr* panel = ctx_.floordiv(g.first, ctx_.integer(16));
    const Expr* lane = ctx_.floormod(g.first, ctx_.integer(16));
    const Expr* b_base = k_.b.let(ctx_.add(ctx_.add(s_.value(c_.b_rest), ctx_.mul(panel, s_.value(c_.b_panel))), lane));
    const Expr *a_m = s_.value(c_.a_m), *a_k = s_.value(c_.a_k), *b_k = s_.value(c_.b_k),
               *b_panel = s_.value(c_.b_panel);
    std::vector<const Expr*> row_offset(hi), column_offset(g.vectors), mask(g.vectors);
    for (unsigned r = lo; r < hi; ++r) {
      const Expr* at = ctx_.mul(a_m, ctx_.integer(r));
      // A row that does not exist reads the first elements of the buffer instead and counts as zero.
      if (!reached.empty()) at = ctx_.select(reached[r], at, ctx_.sub(zero, a_base));
      row_offset[r] = k_.b.let(at);
    }
    for (unsigned j = 0; j < g.vectors; ++j) {
      int64_t column = j * int64_t{lanes_};
      column_offset[j] = k_.b.let(ctx_.add(ctx_.mul(b_panel, ctx_.integer(column / 16)), ctx_.integer(column % 16)));
      const Expr* m = c_.padded_panels ? nullptr : column_mask(g, ctx_.integer(column));
      mask[j] = m && !m->is_const() ? k_.b.let(m) : nullptr;
    }

    auto step = [&](const Expr* a_at, const Expr* b_at, unsigned u) {
      const Expr* bu = ctx_.mul(b_k, ctx_.integer(u));
      const Expr* au = ctx_.mul(a_k, ctx_.integer(u));
      std::vector<const Expr*> b(g.vectors);
      for (unsigned j = 0; j < g.vectors; ++j)
        b[j] = k_.b.let(operand(c_.b, lanes_, ctx_.add(ctx_.add(b_at, bu), column_offset[j]), mask[j]));
      for (unsigned r = lo; r < hi; ++r) {
        const Expr* a = operand(c_.a, 1, ctx_.add(ctx_.add(a_at, au), row_offset[r]), nullptr);
        a = loop::splat(ctx_, a, lanes_);
        if (!reached.empty())
          a = loop::vec_select(ctx_, reached[r], a, loop::splat(ctx_, ctx_.number(0, DType::F32), lanes_));
        a = k_.b.let(a);
        for (unsigned j = 0; j < g.vectors; ++j) {
          const Expr* x = acc(u % chains_, r, j, g);
          k_.b.assign(x, loop::vec_fma(ctx_, a, b[j], x));
        }
      }
    };

    const Expr* count = s_.scalar(c_.k->extent);
    int64_t unroll = 2;
    if (count->is_const() && count->i <= 8) unroll = std::max<int64_t>(count->i, 1);
    else if (tile_.rows * tile_.vectors >= 28 || job_.target.vector_registers <= 16)
      unroll = 1;  // no register to spare
    unroll = std::max<int64_t>(unroll, chains_);
    auto loop_over = [&](const Expr* begin, const Expr* end, int64_t by) {
      auto body = [&](const Expr* k) {
        const Expr* a_at = k_.b.let(ctx_.add(a_base, ctx_.mul(k, a_k)));
        const Expr* b_at = k_.b.let(ctx_.add(b_base, ctx_.mul(k, b_k)));
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
  const Expr* operand(const Expr* load, unsigned lanes, const Expr* at, const Expr* mask) {
    const auto count = static_cast<uint16_t>(lanes);
    const Expr* elements = loop::vec_load(ctx_, load->array, {load->type.dtype, count}, at, mask);
    return load->type.dtype == DType::F32 ? elements : ctx_.convert(Op::Cast, {DType::F32, count}, elements);
  }

  const Expr* total_of(const Group& g, unsigned r, unsigned j) {
    std::vector<const Expr*> parts;
    for (unsigned ch = 0; ch < chains_; ++ch) parts.push_back(acc(ch, r, j, g));
    while (parts.size() > 1) {
      for (size_t k = 0; k < parts.size() / 2; ++k)
        parts[k] = loop::vec_binary(ctx_, Op::Add, parts[k], parts[k + parts.size() / 2]);
      parts.resize(parts.size() / 2);
    }
    return chains_ > 1 ? k_.b.let(parts[0]) : parts[0];
  }

  void epilogue(const Group& g) {
    if (!long_epilogue_) {
      for (unsigned r = 0; r < height_; ++r)
        for (unsigned j = 0; j < g.vectors; ++j)
          finish_vector(g, total_of(g, r, j), ctx_.integer(r), ctx_.integer(j * int64_t{lanes_}),
                        column_mask(g, ctx_.integer(j * int64_t{lanes_})));
      return;
    }
    // A long one is code only once: accumulators go through scratch memory, which stays in L1.
    const uint32_t scratch = static_cast<uint32_t>(k_.kernel.params.size());
    const int64_t row = g.vectors * int64_t{lanes_};
    for (unsigned r = 0; r < height_; ++r)
      for (unsigned j = 0; j < g.vectors; ++j)
        k_.b.store(scratch, ctx_.integer(r * row + j * int64_t{lanes_}), total_of(g, r, j));
    k_.b.with_for(ctx_.integer(0), ctx_.integer(height_), 1, [&](const Expr* r) {
      k_.b.with_for(ctx_.integer(0), ctx_.integer(row), lanes_, [&](const Expr* column) {
        const Expr* at = ctx_.add(ctx_.mul(r, ctx_.integer(row)), column);
        const Expr* total = k_.b.let(loop::vec_load(ctx_, scratch, {DType::F32, static_cast<uint16_t>(lanes_)}, at));
        finish_vector(g, total, r, column, column_mask(g, column));
      });
    });
  }

  // The epilogue on the sums of one row and one vector of columns.
  void finish_vector(const Group& g, const Expr* total, const Expr* row, const Expr* column, const Expr* mask) {
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

  const Job& job_;
  const FlatNest& n_;
  const Contraction& c_;
  ir::Context& ctx_;
  Skeleton k_;
  Body s_;
  unsigned lanes_, width_ = 16;         // of a vector; columns of a group
  RegisterTile tile_;
  const Expr *rows_, *columns_, *num_row_tiles_ = nullptr, *num_groups_ = nullptr;
  std::vector<const Expr*> row_terms_, tap_terms_;  // conditions with and without the row dim
  int64_t row_chunk_ = 1, group_chunk_ = 1;
  bool groups_outside_ = false, long_epilogue_ = false;
  std::vector<bool> edges_;             // per row tile; empty: not known statically
  std::vector<const ir::Dim*> edge_taps_;
  // The tile being emitted.
  const Expr *row_begin_ = nullptr, *row_end_ = nullptr, *row_base_ = nullptr, *row_extra_ = nullptr;
  const Expr* first_row_ = nullptr;
  unsigned height_ = 0, chains_ = 1;
  std::vector<const Expr*> acc_;
};

}  // namespace

Result<loop::Kernel> gemm(const Job& job, const FlatNest& nest, const Contraction& c) {
  return Gemm(job, nest, c).run();
}

}  // namespace mlc::lower
