// Products of codes, and of bf16, by a unit that multiplies matrices (loop::StmtKind::Tiles): a register tile is up to two blocks of sixteen rows by up to two
// panels of columns. Panels are what such a unit reads, as they are stored; so are rows, where sixteen of them lie along k, a stride apart.
//
//   sixteen rows                    read where they lie
//   fewer, of rows that all exist   the last sixteen before the end of the row dim: what the block before has of them too is the same
//   fewer, or some outside          brought to scratch memory before: what lies outside of the image is there, what no sum is read of is not
//   elements behind whole turns     brought with zeros behind them, as the panels have
//
// The sums go through scratch memory to the epilogue, tile by tile. They lie panel by panel there, row by row in each, behind room for a block: the
// rows of a block that ends earlier than its own are stored where these rows belong.
#include <algorithm>

#include "packager/lower/product/gemm.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kSide = loop::kTileSide;

}  // namespace

namespace {

// Bytes of the longest turns that k is a whole number of; 0: there are none, or only the run knows.
int64_t bytes_of_whole_turns(const Expr* k, int64_t group) {
  for (const int64_t bytes : {64, 32, 16})
    if (k->is_const() && k->i > 0 && k->i % (bytes / kGroupBytes * group) == 0) return bytes;
  return 0;
}
int64_t longest_turn(const TiledProduct& c) { return kTileBytes / kGroupBytes * c.group; }

}  // namespace

bool is_filled_up(ir::Context& ctx, const TiledProduct& c) {
  const Expr* turn = ctx.integer(longest_turn(c));
  const Expr* panel = ctx.mul(ctx.mul(ctx.ceildiv(c.k->extent, turn), turn), ctx.integer(nest::kPanel));
  return bytes_of_whole_turns(c.k->extent, c.group) == 0 && c.taps.empty() && c.conditions.empty() && ctx.sub(c.b_panel, panel)->is_int(0);
}

int64_t bytes_of_tiles(const Job& job, const TiledProduct& c) {
  const bool suits = job.target.has_tiles && job.vector_bytes() == kTileBytes && c.group > 1 && c.group * bytes_of(c.a()->type.dtype) == kGroupBytes && !c.along_k() && !c.product.sum_of_a && c.m && c.padded_panels;
  if (!suits || !c.a_k->is_int(1) || !c.b_k->is_int(c.group * nest::kPanel)) return 0;
  const int64_t bytes = bytes_of_whole_turns(c.k->extent, c.group);
  return bytes > 0 ? bytes : is_filled_up(job.ctx, c) ? kTileBytes : 0;
}

int64_t depth_of_padding(const Job& job, const TiledProduct& c) {
  const bool may_be_tiles = job.target.has_tiles && job.vector_bytes() == kTileBytes && c.group > 1 && c.taps.empty() && c.conditions.empty();
  return may_be_tiles && bytes_of_whole_turns(c.k->extent, c.group) == 0 ? longest_turn(c) : 1;
}

// Rows of this block of a tile that a tap reaches.
Range Gemm::rows_of_block(unsigned block, unsigned lo, unsigned hi) {
  const int64_t begin = std::max<int64_t>(lo, block * kSide), end = std::min<int64_t>(hi, (block + 1) * kSide);
  return {ctx_.integer(begin), ctx_.integer(std::max(begin, end))};
}

// One turn's elements of a block, row by row; zeros where `mask` says so (null: nowhere).
void Gemm::bring_rows(unsigned block, const Range& rows, const Expr* a_at, const Expr* a_m, const Expr* a_base, const std::vector<const Expr*>& reached, const Expr* mask) {
  const int64_t depth = int64_t{unroll_} * c_.group, first = block * kSide, end = std::min<int64_t>(height_, first + kSide);
  const ir::Type line{c_.a()->type.dtype, static_cast<uint16_t>(depth)};
  const auto keep = [&](const Expr* row, const Expr* codes) { k_.b.store(scratch_of_rows_, ctx_.mul(row, ctx_.integer(depth)), codes); };
  const Expr* none = loop::splat(ctx_, ctx_.number(0, line.dtype), line.lanes);
  if (reached.empty()) {
    for (int64_t r = first; r < end; ++r)
      if (r < rows.begin->i || r >= rows.end->i) keep(ctx_.integer(r), none);
    return k_.b.with_for(rows.begin, rows.end, 1, [&](const Expr* r) {
      keep(r, k_.b.let(loop::vec_load(ctx_, c_.a()->array, line, ctx_.add(a_at, ctx_.mul(a_m, r)), mask)));
    });
  }
  const Expr* outside = c_.outside() ? loop::splat(ctx_, ctx_.cast(line.dtype, s_.value(c_.outside())), line.lanes) : none;
  for (int64_t r = first; r < end; ++r) {
    // A row that does not exist reads the first elements of the buffer instead.
    const Expr* exists = reached[static_cast<size_t>(r)];
    const Expr* at = ctx_.add(a_at, ctx_.select(exists, ctx_.mul(a_m, ctx_.integer(r)), ctx_.sub(ctx_.integer(0), a_base)));
    keep(ctx_.integer(r), k_.b.let(loop::vec_select(ctx_, exists, loop::vec_load(ctx_, c_.a()->array, line, at), outside)));
  }
}

// Whether the last block of a tile may begin before its own first row: all rows of the dim can be read then, whatever the taps are.
const Expr* Gemm::has_whole_blocks() {
  if (!anchor_.row_terms.empty()) return ctx_.boolean(false);
  return ctx_.binary(Op::Le, ctx_.integer(kSide), s_.value(c_.m->extent));
}

// The first row of a block, from that of the tile.
const Expr* Gemm::start_of_block(unsigned block) {
  const Expr* first = ctx_.integer(block * kSide);
  if ((block + 1) * kSide <= height_) return first;
  const Expr* last = ctx_.sub(ctx_.sub(s_.value(c_.m->extent), ctx_.integer(kSide)), first_row_);
  return ctx_.select(has_whole_blocks(), ctx_.min(first, last), first);
}

// Sums of rows lo .. hi-1 for all of k. `reached`: which rows exist (empty: all).
void Gemm::tile_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const Expr*>& reached) {
  if (height_ % kSide == 0) return tile_turns(g, lo, hi, reached, false);
  k_.b.with_if(has_whole_blocks(), [&] { s_.scoped([&] { tile_turns(g, lo, hi, reached, true); }); },
               [&] { s_.scoped([&] { tile_turns(g, lo, hi, reached, false); }); });
}

void Gemm::tile_turns(const Group& g, unsigned lo, unsigned hi, const std::vector<const Expr*>& reached, bool all_whole) {
  s_.bind(c_.k, ctx_.integer(0));
  s_.bind(c_.m, first_row_);
  const int64_t depth = int64_t{unroll_} * c_.group;
  const Expr *a_base = k_.b.let(s_.value(c_.a()->args[0])), *a_m = k_.b.let(s_.value(c_.a_m));
  const Expr* b_base = k_.b.let(start_of_columns(g));
  struct Rows {
    unsigned block;
    bool whole;
    Range range;
    const Expr* at;  // from a_base, of a whole one
  };
  std::vector<Rows> blocks;
  for (unsigned block = 0; block * kSide < height_; ++block) {
    const Range range = rows_of_block(block, lo, hi);
    if (range.begin->i == range.end->i) continue;
    const bool whole = all_whole || (reached.empty() && range.end->i - range.begin->i == kSide);
    blocks.push_back({block, whole, range, whole ? k_.b.let(ctx_.mul(a_m, start_of_block(block))) : nullptr});
  }
  // `rest`: elements that the last turn has, if not all; the panels have zeros behind them.
  const auto turn_at = [&](const Expr* turn, const Expr* rest) {
    const auto lanes = static_cast<uint16_t>(depth);
    const Expr* mask = rest ? k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, ctx_.integer(0), lanes), loop::splat(ctx_, rest, lanes))) : nullptr;
    const Expr* a_at = k_.b.let(ctx_.add(a_base, ctx_.mul(turn, ctx_.integer(depth))));
    const Expr* b_at = k_.b.let(ctx_.add(b_base, ctx_.mul(turn, ctx_.integer(depth * nest::kPanel))));
    fetch(unroll_);
    std::vector<const Expr*> a, b;
    for (const Rows& rows : blocks) {
      if (rows.whole && !rest) {
        a.push_back(loop::vec_load(ctx_, c_.a()->array, {c_.a()->type.dtype, 1}, k_.b.let(ctx_.add(a_at, rows.at))));
        continue;
      }
      const int64_t first = rows.block * kSide;
      if (rows.whole) bring_rows(rows.block, {ctx_.integer(first), ctx_.integer(first + kSide)}, ctx_.add(a_at, ctx_.sub(rows.at, ctx_.mul(a_m, ctx_.integer(first)))), a_m, a_base, {}, mask);
      else bring_rows(rows.block, rows.range, a_at, a_m, a_base, reached, mask);
      a.push_back(loop::vec_load(ctx_, scratch_of_rows_, {c_.a()->type.dtype, 1}, ctx_.integer(first * depth)));
    }
    for (unsigned j = 0; j < g.vectors; ++j)
      b.push_back(loop::vec_load(ctx_, c_.b()->array, {c_.b()->type.dtype, 1}, k_.b.let(ctx_.add(b_at, columns_from(ctx_.integer(j), ctx_.integer(0))))));
    for (size_t k = 0; k < blocks.size(); ++k)
      for (unsigned j = 0; j < g.vectors; ++j) k_.b.tile_dot(blocks[k].block * 2 + j, depth * bytes_of(c_.a()->type.dtype), a[k], blocks[k].whole && !rest ? a_m : ctx_.integer(depth), b[j]);
  };
  const Expr *extent = s_.scalar(c_.k->extent), *all = ctx_.integer(depth), *turns = k_.b.let(ctx_.floordiv(extent, all));
  k_.b.with_for(ctx_.integer(0), turns, 1, [&](const Expr* turn) { turn_at(turn, nullptr); });
  if (ir::divisor_of(extent) % depth == 0) return;
  const Expr* rest = k_.b.let(ctx_.sub(extent, ctx_.mul(turns, all)));
  k_.b.with_if(ctx_.binary(Op::Lt, ctx_.integer(0), rest), [&] { s_.scoped([&] { turn_at(turns, rest); }); });
}

void Gemm::keep_tiles(const Group& g) {
  for (unsigned block = 0; block * kSide < height_; ++block) {
    const Expr* first = k_.b.let(start_of_block(block));
    for (unsigned j = 0; j < g.vectors; ++j) k_.b.store_tile(block * 2 + j, scratch_, place_in_tile(g, first, j));
  }
}

// Row by row in a panel, from the one that a block before the first begins with.
const Expr* Gemm::place_of_tiled(const Expr* row, const Expr* column) {
  return ctx_.add(ctx_.mul(column, ctx_.integer(rows_of_sums_)), ctx_.mul(ctx_.add(row, ctx_.integer(kSide)), ctx_.integer(kSide)));
}

}  // namespace mlc::lower
