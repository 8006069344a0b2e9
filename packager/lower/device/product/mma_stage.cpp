#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

MmaStage::MmaStage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how, DType factors)
    : ProductStage(job, nest, k, p, how), factors_(factors), values_(cell_values(factors)) {
  if (factors_ == DType::F32 || of_codes()) return;
  for (Side* side : {&p_.rows, &p_.columns}) side->factor.factor = side->factor.load;
}

const Expr* MmaStage::number(int64_t n) { return ctx_.integer(n); }
const Expr* MmaStage::of(const Expr* v, unsigned lane) { return loop::extract(ctx_, v, lane); }

const Expr* MmaStage::at_chunk(const Expr* row, const Expr* chunk) {
  const Expr* turned = ctx_.binary(Op::BitXor, chunk, ctx_.floormod(ctx_.floordiv(row, number(2)), number(kRowChunks)));
  return ctx_.add(ctx_.mul(row, number(kRowChunks)), turned);
}

bool MmaStage::is_along_depth(const Side& side) { return lies_along_depth(ctx_, p_, side); }

const Expr* MmaStage::chunks_of(const Side& side) { return chunks_of_depth(ctx_, s_.facts, p_, side, kCellsOfChunk * values_); }

ProductStage::Reached MmaStage::reach_chunks(const Side& side, const Expr* chunks) {
  Reached reached = reach(side);
  if (chunks) reached.base = k_.b.let(s_.value(chunks));
  return reached;
}

const Expr* MmaStage::chunk_of(const Side& side, bool is_load, const Reached& reached, const Expr* chunk, const Expr* first) {
  const int64_t values = kCellsOfChunk * values_;
  const int64_t known = ir::divisor_of(p_.depth_points);
  if (is_load) return load_of(side, reached, chunk, first);
  const bool whole = known % how_.tile.depth == 0;
  const Expr* begin = k_.b.let(ctx_.add(first, ctx_.mul(chunk, number(values))));
  const Expr* together = !whole && known % values == 0 ? k_.b.let(ctx_.binary(Op::Lt, begin, p_.depth_points)) : nullptr;
  const auto value = [&](int64_t k) {
    const Expr* at = k_.b.let(ctx_.add(begin, number(k)));
    const Expr* exists = whole || together ? together : k_.b.let(ctx_.binary(Op::Lt, at, p_.depth_points));
    return element(side, reached, at, exists);
  };
  std::vector<const Expr*> cells;
  for (int64_t c = 0; c < kCellsOfChunk; ++c) cells.push_back(cell(value, c));
  return loop::widen(ctx_, std::move(cells));
}

MmaStage::Place MmaStage::place_of_chunk(const Reached& reached, const Expr* number_of_chunk, const Expr* first) {
  const int64_t values = kCellsOfChunk * values_;
  const Expr* begin = k_.b.let(ctx_.add(ctx_.floordiv(first, number(values)), number_of_chunk));
  const Expr* index = ctx_.mul(k_.b.let(ctx_.add(reached.base, begin)), number(values));
  const bool whole = ir::divisor_of(p_.depth_points) % how_.tile.depth == 0;
  const Expr* exists = whole ? nullptr : ctx_.binary(Op::Lt, begin, ctx_.floordiv(p_.depth_points, number(values)));
  return {index, s_.both(reached.guard, exists)};
}

const Expr* MmaStage::load_of(const Side& side, const Reached& reached, const Expr* number_of_chunk, const Expr* first) {
  const auto [place, needed] = place_of_chunk(reached, number_of_chunk, first);
  const Expr* index = place;
  const nest::Operand& o = side.factor;
  const auto chunk = [&] {
    std::vector<const Expr*> loads, cells;
    for (int64_t k = 0; k < values_; ++k) loads.push_back(k_.b.let(loop::vec_load(ctx_, o.load->array, {o.load->type.dtype, kCellsOfChunk}, ctx_.add(index, number(k * kCellsOfChunk)))));
    const auto value = [&](int64_t k) {
      const Expr* one = of(loads[static_cast<size_t>(k / kCellsOfChunk)], static_cast<unsigned>(k % kCellsOfChunk));
      return o.factor->op == Op::Tf32 ? ctx_.unary(Op::Tf32, one) : one;
    };
    for (int64_t c = 0; c < kCellsOfChunk; ++c) cells.push_back(cell(value, c));
    return loop::widen(ctx_, std::move(cells));
  };
  if (!needed) return chunk();
  const Expr* cells = k_.b.local(loop::splat(ctx_, ctx_.integer(0, DType::U32), kCellsOfChunk));
  k_.b.with_if(needed, [&] { k_.b.assign(cells, chunk()); });
  return cells;
}

const Expr* MmaStage::cell(const std::function<const Expr*(int64_t)>& value, int64_t c) {
  if (factors_ == DType::F32) return ctx_.convert(Op::Bitcast, {DType::U32, 1}, value(c));
  if (of_codes()) {
    const auto code = [&](int64_t k) { return ctx_.cast(DType::U32, ctx_.convert(Op::Bitcast, {DType::U8, 1}, value(values_ * c + k))); };
    const Expr* all = code(0);
    for (int64_t k = 1; k < values_; ++k) all = ctx_.binary(Op::BitOr, all, ctx_.binary(Op::Shl, code(k), ctx_.integer(k * bits_of(DType::U8), DType::U32)));
    return k_.b.let(all);
  }
  const Expr *first = value(2 * c), *second = value(2 * c + 1);
  return pair(first, second);
}

const Expr* MmaStage::pair(const Expr* first, const Expr* second) {
  const auto bits = [&](const Expr* v) { return ctx_.cast(DType::U32, ctx_.convert(Op::Bitcast, {DType::U16, 1}, v)); };
  const Expr *low = bits(first), *high = bits(second);
  return ctx_.binary(Op::BitOr, low, ctx_.binary(Op::Shl, high, ctx_.integer(16, DType::U32)));
}

MmaStage::Halves MmaStage::halves(const Expr* chunk, bool is_short, const Expr* high_bits) {
  if (factors_ != DType::F32 || is_short) return {chunk, nullptr};
  const auto as = [&](DType t, const Expr* v) { return loop::vec_convert(ctx_, Op::Bitcast, t, v); };
  const Expr* mask = loop::splat(ctx_, high_bits ? high_bits : ctx_.integer(kHighBits, DType::U32), kCellsOfChunk);
  const Expr* high = k_.b.let(loop::vec_binary(ctx_, Op::BitAnd, chunk, mask));
  return {high, k_.b.let(as(DType::U32, loop::vec_binary(ctx_, Op::Sub, as(DType::F32, chunk), as(DType::F32, high))))};
}

const Expr* MmaStage::product(const Expr* sums, const Expr* a, const Expr* b) { return k_.b.mma(factors_, sums, a, b); }

void MmaStage::add_step(const Halves& a, unsigned step, const std::vector<Halves>& b, std::vector<const Expr*>& sums) {
  const auto add = [&](const Expr* rows, const Expr* Halves::*half) {
    if (!rows) return;
    for (size_t n = 0; n < b.size(); ++n)
      if (const Expr* c = b[n].*half) sums[n] = product(sums[n], rows, loop::widen(ctx_, {of(c, 2 * step), of(c, 2 * step + 1)}));
  };
  add(a.low, &Halves::high);
  add(a.high, &Halves::low);
  add(a.high, &Halves::high);
}

void MmaStage::add_piece(const Halves& upper, const Halves& lower, const std::vector<Halves>& b, std::vector<const Expr*>& sums) {
  for (unsigned step = 0; step < 2; ++step) {
    const auto rows = [&](const Expr* up, const Expr* down) { return k_.b.let(loop::widen(ctx_, {of(up, 2 * step), of(down, 2 * step), of(up, 2 * step + 1), of(down, 2 * step + 1)})); };
    add_step({rows(upper.high, lower.high), upper.low ? rows(upper.low, lower.low) : nullptr}, step, b, sums);
  }
}

}  // namespace mlc::lower
