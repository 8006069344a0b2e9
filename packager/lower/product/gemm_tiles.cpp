// Products of codes by a unit that multiplies matrices (loop::StmtKind::Tiles): a register tile is up to two blocks of sixteen rows by up to two
// panels of columns. Panels are what such a unit reads, as they are stored; so are rows, where sixteen of them lie along k, a stride apart.
//
//   sixteen rows that exist         read where they lie
//   fewer, or some outside          brought to scratch memory before: what lies outside of the image is there, what no sum is read of is not
//
// The sums go through scratch memory to the epilogue, tile by tile.
#include <algorithm>

#include "packager/lower/product/gemm.h"

namespace mlc::lower {

using ir::Expr;

namespace {

constexpr int64_t kSide = loop::kTileSide;

}  // namespace

// Codes of a row that one turn of the loop along k takes; 0: no tile suits the product.
int64_t depth_of_tiles(const Job& job, const Contraction& c) {
  const bool suits = job.target.has_tiles && job.vector_bytes() == 64 && c.group == 4 && c.codes() && !c.along_k() && !c.sum_of_a && c.m && c.padded_panels;
  if (!suits || !c.a_k->is_int(1) || !c.b_k->is_int(4 * nest::kPanel) || !c.k->extent->is_const()) return 0;
  for (const int64_t depth : {64, 32, 16})
    if (c.k->extent->i >= depth && c.k->extent->i % depth == 0) return depth;
  return 0;
}

// Rows of this block of a tile that a tap reaches.
Range Gemm::rows_of_block(unsigned block, unsigned lo, unsigned hi) {
  const int64_t begin = std::max<int64_t>(lo, block * kSide), end = std::min<int64_t>(hi, (block + 1) * kSide);
  return {ctx_.integer(begin), ctx_.integer(std::max(begin, end))};
}

// One turn's codes of a block, row by row.
void Gemm::bring_rows(unsigned block, const Range& rows, const Expr* a_at, const Expr* a_m, const Expr* a_base, const std::vector<const Expr*>& reached) {
  const int64_t depth = int64_t{unroll_} * c_.group, first = block * kSide, end = std::min<int64_t>(height_, first + kSide);
  const ir::Type line{c_.a->type.dtype, static_cast<uint16_t>(depth)};
  const auto keep = [&](const Expr* row, const Expr* codes) { k_.b.store(scratch_of_rows_, ctx_.mul(row, ctx_.integer(depth)), codes); };
  const Expr* none = loop::splat(ctx_, ctx_.number(0, line.dtype), line.lanes);
  if (reached.empty()) {
    for (int64_t r = first; r < end; ++r)
      if (r < rows.begin->i || r >= rows.end->i) keep(ctx_.integer(r), none);
    return k_.b.with_for(rows.begin, rows.end, 1, [&](const Expr* r) {
      keep(r, k_.b.let(loop::vec_load(ctx_, c_.a->array, line, ctx_.add(a_at, ctx_.mul(a_m, r)))));
    });
  }
  const Expr* outside = c_.outside ? loop::splat(ctx_, ctx_.cast(line.dtype, s_.value(c_.outside)), line.lanes) : none;
  for (int64_t r = first; r < end; ++r) {
    // A row that does not exist reads the first elements of the buffer instead.
    const Expr* exists = reached[static_cast<size_t>(r)];
    const Expr* at = ctx_.add(a_at, ctx_.select(exists, ctx_.mul(a_m, ctx_.integer(r)), ctx_.sub(ctx_.integer(0), a_base)));
    keep(ctx_.integer(r), k_.b.let(loop::vec_select(ctx_, exists, loop::vec_load(ctx_, c_.a->array, line, at), outside)));
  }
}

// Sums of rows lo .. hi-1 for all of k. `reached`: which rows exist (empty: all).
void Gemm::tile_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const Expr*>& reached) {
  s_.bind(c_.k, ctx_.integer(0));
  s_.bind(c_.m, first_row_);
  const int64_t depth = int64_t{unroll_} * c_.group;
  const Expr *a_base = k_.b.let(s_.value(c_.a->args[0])), *a_m = k_.b.let(s_.value(c_.a_m));
  const Expr* b_base = k_.b.let(start_of_columns(g));
  const unsigned blocks = static_cast<unsigned>((height_ + kSide - 1) / kSide);
  k_.b.with_for(ctx_.integer(0), ctx_.integer(c_.k->extent->i / depth), 1, [&](const Expr* turn) {
    const Expr* a_at = k_.b.let(ctx_.add(a_base, ctx_.mul(turn, ctx_.integer(depth))));
    const Expr* b_at = k_.b.let(ctx_.add(b_base, ctx_.mul(turn, ctx_.integer(depth * nest::kPanel))));
    fetch(unroll_);
    struct Rows {
      unsigned block;
      const Expr *codes, *stride;
    };
    std::vector<Rows> a;
    std::vector<const Expr*> b;
    const ir::Type code{c_.a->type.dtype, 1};
    for (unsigned block = 0; block < blocks; ++block) {
      const Range rows = rows_of_block(block, lo, hi);
      if (rows.begin->i == rows.end->i) continue;
      const bool whole = reached.empty() && rows.end->i - rows.begin->i == kSide;
      if (!whole) bring_rows(block, rows, a_at, a_m, a_base, reached);
      const Expr* at = whole ? k_.b.let(ctx_.add(a_at, ctx_.mul(a_m, rows.begin))) : ctx_.integer(block * kSide * depth);
      a.push_back({block, loop::vec_load(ctx_, whole ? c_.a->array : scratch_of_rows_, code, at), whole ? a_m : ctx_.integer(depth)});
    }
    for (unsigned j = 0; j < g.vectors; ++j)
      b.push_back(loop::vec_load(ctx_, c_.b->array, {c_.b->type.dtype, 1}, k_.b.let(ctx_.add(b_at, columns_from(ctx_.integer(j), ctx_.integer(0))))));
    for (const Rows& rows : a)
      for (unsigned j = 0; j < g.vectors; ++j) k_.b.tile_dot(rows.block * 2 + j, depth, rows.codes, rows.stride, b[j]);
  });
}

void Gemm::keep_tiles(const Group& g) {
  for (unsigned r = 0; r < height_; r += kSide)
    for (unsigned j = 0; j < g.vectors; ++j) k_.b.store_tile(r / kSide * 2 + j, scratch_, place_in_tile(g, ctx_.integer(r), j));
}

}  // namespace mlc::lower
