// What masks make superfluous, in the two products of attention.
//
//   scores    a tile that the mask discards entirely: its sums are in an arm of a select that no point of the tile takes, as a comparison of
//             row and column says (causal masks). What is written does not change.
//   weights   rows of a softmax's weights are zero behind the diagonal of a causal mask, before a sliding window, beside a padded
//             text. What a tile's rows have zeros for at both ends of k is left out, a vector of keys at a time. It is read from
//             the weights themselves, whatever has made them zero, so no mask need be understood; what is summed is the same
//             otherwise, in the same order.
#include "packager/lower/product/gemm.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kFewVectors = 4;  // of a row: not worth a look

}  // namespace

std::optional<ir::Linear> Gemm::in_tile(const Expr* term) {
  if ((term->op != Op::Lt && term->op != Op::Le) || term->args[0]->type.dtype != DType::I64 || s_.facts.needs_guard(term)) return std::nullopt;
  bool plain = true;
  ir::walk(term, [&](const Expr* e) { plain &= e->op != Op::Load && e->op != Op::Fold; });
  if (!plain) return std::nullopt;
  const Expr* places[] = {ctx_.dim(c_.n), c_.m ? ctx_.dim(c_.m) : nullptr};
  auto lin = ir::linear_in(ctx_, ctx_.sub(term->args[1], term->args[0]), std::span(places, c_.m ? 2 : 1));
  if (lin && !std::all_of(lin->coefficients.begin(), lin->coefficients.end(), [](const Expr* c) { return c->is_const(); })) return std::nullopt;
  return lin;
}

void Gemm::find_mask() {
  const Expr* value = n_.writes[0].value;
  const auto reads_sum = [&](const Expr* e) {
    bool found = false;
    ir::walk(e, [&](const Expr* x) { found |= x == c_.fold(); });
    return found;
  };
  ir::walk(value, [&](const Expr* e) {
    if (e->op != Op::Select || reads_sum(e->args[0]) || reads_sum(e->args[1]) == reads_sum(e->args[2])) return;
    if (reads_sum(ctx_.rewrite(value, [&](const Expr* x) { return x == e ? ctx_.number(0, e->type.dtype) : nullptr; }))) return;
    const Expr* taken = reads_sum(e->args[1]) ? e->args[0] : ctx_.unary(Op::Not, e->args[0]);
    for (const Expr* term : conjuncts(ctx_, taken))
      if (in_tile(term)) mask_.push_back(term);
  });
}

// The term is linear in row and column: where it does not hold at the corner that it holds at first, it holds nowhere.
const Expr* Gemm::is_seen(const Group& g) {
  const Expr* seen = nullptr;
  for (const Expr* term : mask_)
    s_.scoped([&] {
      const auto lin = in_tile(term);
      const auto corner = [&](size_t k, const Expr* first, int64_t points) {
        return ctx_.add(first, ctx_.integer(lin->coefficients[k]->i > 0 ? points - 1 : 0));
      };
      s_.bind(c_.n, corner(0, g.first, int64_t{g.vectors} * g.lanes));
      if (c_.m) s_.bind(c_.m, corner(1, first_row_, height_));
      seen = s_.both(seen, s_.value(term));
    });
  return seen;
}

bool Gemm::reads_weights() const {
  if (std::find(n_.weights.begin(), n_.weights.end(), c_.a()->array) == n_.weights.end()) return false;
  if (!c_.m || c_.along_k() || lanes_ == 1 || c_.group > 1 || !c_.taps.empty() || !c_.conditions.empty() || how_.blocks.depth > 0) return false;
  if (c_.k->extent->is_const() && c_.k->extent->i < kFewVectors * lanes_) return false;
  // Whole vectors of a row are there, whatever stands behind its last element.
  return c_.a()->type.dtype == DType::F32 && c_.a_k->is_int(1) && ir::divisor_of(c_.a_m) % lanes_ == 0;
}

Range Gemm::terms_of_weights(const Expr* a_base, const std::vector<const Expr*>& row_offset, const Expr* count) {
  const Expr *zero = ctx_.integer(0), *step = ctx_.integer(lanes_);
  const ir::Type bits_type{DType::I32, static_cast<uint16_t>(lanes_)};
  const Expr* none = loop::splat(ctx_, ctx_.integer(0, DType::I32), lanes_);
  const auto all_zero = [&](const Expr* k) {
    const Expr* bits = nullptr;
    for (const Expr* row : row_offset) {
      const Expr* weights = loop::vec_load(ctx_, c_.a()->array, {DType::F32, bits_type.lanes}, ctx_.add(ctx_.add(a_base, row), k));
      const Expr* some = ctx_.convert(Op::Bitcast, bits_type, weights);
      bits = bits ? loop::vec_binary(ctx_, Op::BitOr, bits, some) : some;
    }
    const Expr* exist = loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, k, lanes_), loop::splat(ctx_, count, lanes_));
    return ctx_.unary(Op::Not, s_.any_lane(loop::vec_binary(ctx_, Op::Ne, loop::vec_select(ctx_, exist, bits, none), none)));
  };
  const Expr* vectors = k_.b.let(ctx_.ceildiv(count, step));
  const Expr* end = k_.b.local(ctx_.mul(vectors, step));
  const Expr* last = ctx_.max(ctx_.sub(end, step), zero);  // a vector that exists, also where the loop has ended
  const auto while_zero = [&](const Expr* more, const Expr* at, const Expr* var, const Expr* next) {
    k_.b.with_while(ctx_.binary(Op::And, more, all_zero(at)), vectors, [&] { k_.b.assign(var, next); });
  };
  while_zero(ctx_.binary(Op::Lt, zero, end), last, end, ctx_.sub(end, step));
  const Expr* begin = k_.b.local(zero);
  while_zero(ctx_.binary(Op::Lt, begin, end), ctx_.min(begin, last), begin, ctx_.add(begin, step));
  return {begin, ctx_.min(end, count)};
}

}  // namespace mlc::lower
