// One register tile of a contraction: loops over taps and k.
#include "packager/lower/product/gemm.h"

#include <algorithm>
#include <cmath>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

void Gemm::begin_tile(const Group& g) {
  first_row_ = tile_.first;
  height_ = tile_.height;
  if (is_tiled_) return k_.b.begin_tiles(int64_t{unroll_} * c_.group * bytes_of(c_.a()->type.dtype));
  chains_ = chains_for(height_, g.vectors, most_chains_);
  acc_.clear();
  row_sums_.clear();
  const Expr* zero = loop::splat(ctx_, ctx_.number(0, c_.fold()->type.dtype), accumulator_lanes());
  for (unsigned k = 0; k < chains_ * height_ * g.vectors; ++k) acc_.push_back(k_.b.local(zero));
  for (unsigned k = 0; c_.product.sum_of_a && k < chains_ * height_; ++k) row_sums_.push_back(k_.b.local(zero));
}

const Expr*& Gemm::acc(unsigned chain, unsigned row, unsigned j, const Group& g) {
  return acc_[(chain * height_ + row) * g.vectors + j];
}

void Gemm::leaf() {
  const Group g = columns_;
  begin_tile(g);
  begin_fetch();
  fetch_beside(g);
  take_sums();
  const auto sum = [&] {
    taps([&](unsigned lo, unsigned hi) {
      some_late_rows(g);
      tile_.checked ? checked_rows(g) : k_loop(g, lo, hi, {});
    });
  };
  const Expr* seen = is_late_ ? nullptr : is_seen(g);  // what is late must pass the taps
  seen ? k_.b.with_if(seen, [&] { s_.scoped(sum); }) : sum();
  if (!part_begin_) return epilogue(g);
  const Expr* last = ctx_.binary(Op::Le, c_.k->extent, ctx_.add(part_begin_, ctx_.integer(how_.blocks.depth)));
  k_.b.with_if(last, [&] { s_.scoped([&] { epilogue(g); }); }, [&] { keep_sums(); });
}

void Gemm::checked_rows(const Group& g) {
  std::vector<const Expr*> reached;
  const Expr* any = ctx_.boolean(false);
  for (unsigned r = 0; r < height_; ++r) {
    s_.scoped([&] {
      if (c_.m) s_.bind(c_.m, ctx_.add(first_row_, ctx_.integer(r)));
      const Expr* all = ctx_.boolean(true);
      for (const Expr* term : anchor_.row_terms) all = ctx_.binary(Op::And, all, s_.value(term));
      reached.push_back(k_.b.let(all));
    });
    any = ctx_.binary(Op::Or, any, reached.back());
  }
  // Conditions are affine in the row: what holds at both ends holds between.
  const Expr* whole = ctx_.binary(Op::And, reached.front(), reached.back());
  const auto partly = [&] { s_.scoped([&] { k_loop(g, 0, height_, reached); }); };
  const auto all_of_them = [&] { s_.scoped([&] { k_loop(g, 0, height_, {}); }); };
  if (any == whole && !c_.outside()) return k_.b.with_if(whole, all_of_them);  // a row alone exists, or does not
  k_.b.with_if(whole, all_of_them, [&] { c_.outside() ? partly() : k_.b.with_if(any, partly); });
}

const Expr* Gemm::start_of_columns(const Group& g) {
  const Expr* sixteen = ctx_.integer(nest::kPanel);
  return ctx_.add(start_of_part(), columns_from(ctx_.floordiv(g.first, sixteen), ctx_.floormod(g.first, sixteen)));
}

const Expr* Gemm::columns_from(const Expr* panel, const Expr* lane) {
  const Expr* of_lane = c_.b_n ? s_.value(c_.b_n) : ctx_.integer(c_.group);
  return ctx_.add(ctx_.mul(s_.value(c_.b_panel), panel), ctx_.mul(of_lane, lane));
}

// acc[r] += A[row r] * B for all of k, rows lo .. hi-1. `reached`: which rows exist (empty: all).
void Gemm::k_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const Expr*>& reached) {
  if (is_tiled_) return tile_loop(g, lo, hi, reached);
  const Expr* zero = ctx_.integer(0);
  s_.bind(c_.k, part_begin_ ? part_begin_ : zero);
  if (c_.m) s_.bind(c_.m, first_row_);
  const Expr* a_base = k_.b.let(s_.value(c_.a()->args[0]));
  // Strides of a step, which takes `depth` elements of k.
  const unsigned depth = c_.step();
  const Expr *a_m = s_.value(c_.a_m), *a_step = ctx_.mul(s_.value(c_.a_k), ctx_.integer(depth)),
             *b_step = ctx_.mul(s_.value(c_.b_k), ctx_.integer(c_.k_lanes));
  const Expr* b_base = k_.b.let(start_of_columns(g));
  std::vector<const Expr*> row_offset(hi), column_offset(g.vectors), mask(g.vectors);
  for (unsigned r = lo; r < hi; ++r) {
    const Expr* at = ctx_.mul(a_m, ctx_.integer(r));
    // A row that does not exist reads the first elements of the buffer instead and counts as zero, or what stands outside.
    if (!reached.empty()) at = ctx_.select(reached[r], at, ctx_.sub(zero, a_base));
    row_offset[r] = k_.b.let(at);
  }
  for (unsigned j = 0; j < g.vectors; ++j) {
    int64_t column = j * int64_t{lanes_};
    column_offset[j] = k_.b.let(columns_from(ctx_.integer(column / nest::kPanel), ctx_.integer(column % nest::kPanel)));
    const Expr* m = c_.padded_panels ? nullptr : column_mask(g, ctx_.integer(column));
    mask[j] = m && !m->is_const() ? k_.b.let(m) : nullptr;
  }
  const Expr* ones = c_.product.sum_of_a ? loop::splat(ctx_, ctx_.integer(1, DType::I8), accumulator_lanes() * depth) : nullptr;

  const unsigned vector = job_.lanes_of(c_.acc());
  bool has_vectors = false;  // of elements along k, one for each row; otherwise one element is loaded at a time
  std::vector<const Expr*> along_k(hi);
  auto step = [&](const Expr* a_at, const Expr* b_at, unsigned u, const Expr* count) {
    const Expr* bu = ctx_.mul(b_step, ctx_.integer(u));
    const Expr* au = ctx_.mul(a_step, ctx_.integer(u));
    std::vector<const Expr*> b(g.vectors);
    for (unsigned j = 0; j < g.vectors; ++j) {
      const Expr* at = ctx_.add(ctx_.add(b_at, bu), column_offset[j]);
      const auto codes = static_cast<uint16_t>(accumulator_lanes() * depth);
      b[j] = k_.b.let(c_.group > 1                              ? loop::vec_load(ctx_, c_.b()->array, {c_.b()->type.dtype, codes}, at)
                      : c_.along_k() && !count->is_int(c_.k_lanes) ? rest_of_operand(c_.b(), at, count->i)
                                                                   : operand(c_.b(), accumulator_lanes(), at, mask[j]));
    }
    for (unsigned r = lo; r < hi; ++r) {
      const Expr *at = ctx_.add(ctx_.add(a_at, au), row_offset[r]), *exists = reached.empty() ? nullptr : reached[r];
      if (has_vectors && u % vector == 0) along_k[r] = k_.b.let(operand(c_.a(), vector, at, nullptr));
      const Expr* a = k_.b.let(has_vectors ? in_each_lane(loop::extract(ctx_, along_k[r], u % vector), exists) : row_operand(at, count, exists));
      for (unsigned j = 0; j < g.vectors; ++j) multiply_add(acc(u % chains_, r, j, g), a, b[j]);
      if (ones) multiply_add(row_sums_[(u % chains_) * height_ + r], a, ones);
    }
  };

  const Expr* count = ctx_.floordiv(part_begin_ ? ctx_.integer(how_.blocks.depth) : s_.scalar(c_.k->extent), ctx_.integer(depth));
  const int64_t unroll = std::max(unroll_, chains_);
  const auto steps_at = [&](const Expr* k, int64_t by, const Expr* elements) {
    const Expr* a_at = k_.b.let(ctx_.add(a_base, ctx_.mul(k, a_step)));
    const Expr* b_at = k_.b.let(ctx_.add(b_base, ctx_.mul(k, b_step)));
    fetch(by);
    has_vectors = by % vector == 0 && a_lies_along_k(job_, c_);
    for (int64_t u = 0; u < by; ++u) step(a_at, b_at, static_cast<unsigned>(u), elements);
  };
  auto loop_over = [&](const Expr* begin, const Expr* end, int64_t by) {
    auto body = [&](const Expr* k) { steps_at(k, by, ctx_.integer(depth)); };
    if (begin->is_const() && end->is_const() && begin->i >= end->i) return;
    if (begin->is_const() && end->is_const() && end->i - begin->i == by) return body(begin);
    k_.b.with_for(begin, end, by, body);
  };
  // Vectors of terms are left out, so that a step is the same one of a turn whatever is.
  const Range terms = weights_ ? terms_of_weights(a_base, row_offset, count) : Range{zero, count};
  const Expr* turns = ctx_.floordiv(ctx_.sub(terms.end, terms.begin), ctx_.integer(unroll));
  const Expr* whole = k_.b.let(ctx_.add(terms.begin, ctx_.mul(turns, ctx_.integer(unroll))));
  loop_over(terms.begin, whole, unroll);
  if (unroll > 1) loop_over(whole, terms.end, 1);
  if (c_.group == 1 && !c_.along_k()) return;
  const Expr* rest = k_.b.let(ctx_.floormod(s_.scalar(c_.k->extent), ctx_.integer(depth)));
  const auto last = [&] { steps_at(count, 1, rest); };
  if (!rest->is_const()) k_.b.with_if(ctx_.binary(Op::Lt, zero, rest), last);
  else if (rest->i > 0) last();
}

const Expr* Gemm::in_each_lane(const Expr* element, const Expr* reached) {
  const Expr* a = loop::splat(ctx_, element, accumulator_lanes());
  return reached ? loop::vec_select(ctx_, reached, a, loop::splat(ctx_, ctx_.number(0, c_.acc()), accumulator_lanes())) : a;
}

const Expr* Gemm::row_operand(const Expr* at, const Expr* count, const Expr* reached) {
  if (c_.group == 1) {
    const bool is_whole = !c_.along_k() || count->is_int(c_.k_lanes);
    return in_each_lane(is_whole ? operand(c_.a(), c_.k_lanes, at, nullptr) : rest_of_operand(c_.a(), at, count->i), reached);
  }
  const DType code = c_.a()->type.dtype;
  const auto group = static_cast<uint16_t>(c_.group);
  const Expr *stride = s_.value(c_.a_k), *a = nullptr, *none = ctx_.number(0, code);
  const bool is_whole = count->is_int(group);
  const auto whole = [&](const std::function<const Expr*(unsigned)>& element) {
    std::vector<const Expr*> parts;
    for (unsigned i = 0; i < group; ++i) parts.push_back(count->is_const() && i >= count->i ? none : element(i));
    return loop::widen(ctx_, std::move(parts));
  };
  // Beside the last elements of a row anything may lie, or nothing; rows that do not lie along k are gathered.
  const Expr* exists = is_whole ? nullptr : loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, ctx_.integer(0), group), loop::splat(ctx_, count, group));
  if (stride->is_int(1) && (!exists || job_.target.has_masks)) a = loop::vec_load(ctx_, c_.a()->array, {code, group}, at, exists);
  else a = whole([&](unsigned i) {
    const Expr* is_there = is_whole || count->is_const() ? nullptr : ctx_.binary(Op::Lt, ctx_.integer(i), count);
    return loop::vec_load(ctx_, c_.a()->array, {code, 1}, ctx_.add(at, ctx_.mul(stride, ctx_.integer(i))), is_there);
  });
  if (reached) {
    const Expr* outside = c_.outside() ? ctx_.cast(code, s_.value(c_.outside())) : none;
    const auto element = [&](unsigned i) { return is_whole || count->is_const() ? outside : ctx_.select(ctx_.binary(Op::Lt, ctx_.integer(i), count), outside, none); };
    a = loop::vec_select(ctx_, reached, a, is_whole ? loop::splat(ctx_, outside, group) : whole(element));
  }
  return loop::splat_group(ctx_, a, accumulator_lanes() * group);
}

void Gemm::multiply_add(const Expr* acc, const Expr* a, const Expr* b) {
  k_.b.assign(acc, c_.group > 1 ? loop::vec_dot(ctx_, acc, a, b) : loop::vec_fma(ctx_, a, b, acc));
}

// Elements of a factor in the type of the sum.
const Expr* Gemm::operand(const Expr* load, unsigned lanes, const Expr* at, const Expr* mask) {
  const auto count = static_cast<uint16_t>(lanes);
  const Expr* elements = loop::vec_load(ctx_, load->array, {load->type.dtype, count}, at, mask);
  return load->type.dtype == c_.acc() ? elements : ctx_.convert(Op::Cast, {c_.acc(), count}, elements);
}

const Expr* Gemm::rest_of_operand(const Expr* load, const Expr* at, int64_t count) {
  const auto lanes = static_cast<uint16_t>(c_.k_lanes);
  if (job_.target.has_masks)
    return operand(load, lanes, at, loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, ctx_.integer(0), lanes), loop::splat(ctx_, ctx_.integer(count), lanes)));
  std::vector<const Expr*> parts;
  for (int64_t i = 0; i < lanes; ++i)
    parts.push_back(i < count ? operand(load, 1, ctx_.add(at, ctx_.integer(i)), nullptr) : ctx_.number(0, c_.acc()));
  return loop::widen(ctx_, std::move(parts));
}

const Expr* Gemm::joined(std::vector<const Expr*> parts) {
  while (parts.size() > 1) {
    for (size_t k = 0; k < parts.size() / 2; ++k)
      parts[k] = loop::vec_binary(ctx_, Op::Add, parts[k], parts[k + parts.size() / 2]);
    parts.resize(parts.size() / 2);
  }
  return parts[0];
}

}  // namespace mlc::lower
