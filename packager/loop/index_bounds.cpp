#include "packager/loop/index_bounds.h"

#include <algorithm>
#include <vector>

namespace mlc::loop {

using ir::Expr;
using ir::Op;

namespace {

constexpr int kMostDepth = 10;  // of sums in minima in sums

bool is_sum(const Expr* e) { return e->op == Op::Add || e->op == Op::Sub || e->op == Op::Mul || e->op == Op::Neg; }
bool is_choice(const Expr* e) { return e->op == Op::Min || e->op == Op::Max || e->op == Op::Select; }

// What sums and products are made of, but for extents.
std::vector<const Expr*> leaves_of(const Expr* e) {
  std::vector<const Expr*> leaves, stack{e};
  while (!stack.empty()) {
    const Expr* x = stack.back();
    stack.pop_back();
    if (ir::is_extent(x)) continue;
    if (is_sum(x)) stack.insert(stack.end(), x->args.begin(), x->args.end());
    else if (std::find(leaves.begin(), leaves.end(), x) == leaves.end()) leaves.push_back(x);
  }
  return leaves;
}

}  // namespace

void IndexBounds::let(const Expr* var, const Expr* value) {
  const Expr* full = in_full(value);
  bool stays = true;
  ir::walk(full, [&](const Expr* e) { stays = stays && e->op != Op::Load && !locals_.contains(e); });
  if (stays) values_[var] = full;
  else bind(var, range(full));
}

const Expr* IndexBounds::in_full(const Expr* e) {
  if (ir::is_extent(e)) return e;
  return ctx_.rewrite(e, [&](const Expr* x) {
    const auto found = x->op == Op::Var ? values_.find(x) : values_.end();
    return found == values_.end() ? nullptr : found->second;
  });
}

const Expr* IndexBounds::number(const Expr* e, Side side) {
  const ir::Interval i = ir::interval_of(e);
  if (side == Side::Above) return i.hi == INT64_MAX ? nullptr : ctx_.integer(i.hi);
  return i.lo == INT64_MIN ? nullptr : ctx_.integer(i.lo);
}

// Of a choice between two, whose bounds these are: one of them does where the choice is for this side.
const Expr* IndexBounds::between(const Expr* a, const Expr* b, Op op, Side side) {
  const bool above = side == Side::Above;
  if (op == (above ? Op::Min : Op::Max)) {
    if (!a || !b) return a ? a : b;
    return above ? ctx_.min(a, b) : ctx_.max(a, b);
  }
  if (!a || !b) return nullptr;
  return above ? ctx_.max(a, b) : ctx_.min(a, b);
}

const Expr* IndexBounds::bound(const Expr* e, Side side, int depth) {
  if (ir::is_extent(e)) return e;
  if (depth > kMostDepth || e->type != kIndex) return number(e, side);
  if (e->op == Op::Var) {
    const auto found = ranges_.find(e);
    if (found == ranges_.end()) return nullptr;
    return side == Side::Above ? found->second.hi : found->second.lo;
  }
  if (is_choice(e)) {
    const size_t first = e->op == Op::Select ? 1 : 0;
    return between(bound(e->args[first], side, depth + 1), bound(e->args[first + 1], side, depth + 1), e->op, side);
  }
  if (is_sum(e)) return linear(e, side, depth);
  const bool by_positive = (e->op == Op::FloorDiv || e->op == Op::FloorMod) && ir::is_extent(e->args[1]) && ir::interval_of(e->args[1]).lo >= 1;
  if (by_positive && e->op == Op::FloorMod) return side == Side::Above ? ctx_.sub(e->args[1], ctx_.integer(1)) : ctx_.integer(0);
  if (by_positive) {
    const Expr* dividend = bound(e->args[0], side, depth + 1);
    return dividend ? ctx_.floordiv(dividend, e->args[1]) : nullptr;
  }
  return number(e, side);
}

const Expr* IndexBounds::linear(const Expr* e, Side side, int depth) {
  const std::vector<const Expr*> leaves = leaves_of(e);
  // A choice goes outside: what it chooses from may cancel against the rest, as in min(i + 8, n) - i.
  for (const Expr* leaf : leaves) {
    if (!is_choice(leaf)) continue;
    const auto apart = ir::linear_in(ctx_, e, {&leaf, 1});
    if (!apart || !apart->coefficients[0]->is_const() || apart->coefficients[0]->i == 0) continue;
    const Expr* factor = apart->coefficients[0];
    const size_t first = leaf->op == Op::Select ? 1 : 0;
    const auto with = [&](const Expr* arm) { return bound(ctx_.add(apart->rest, ctx_.mul(factor, arm)), side, depth + 1); };
    Op op = leaf->op;
    if (factor->i < 0 && op != Op::Select) op = op == Op::Min ? Op::Max : Op::Min;
    return between(with(leaf->args[first]), with(leaf->args[first + 1]), op, side);
  }
  const auto parts = ir::linear_in(ctx_, e, leaves);
  if (!parts || !ir::is_extent(parts->rest)) return nullptr;
  const Expr* sum = parts->rest;
  for (size_t k = 0; k < leaves.size(); ++k) {
    const Expr* factor = parts->coefficients[k];
    if (!ir::is_extent(factor)) return nullptr;
    const ir::Interval sign = ir::interval_of(factor);
    if (sign.lo < 0 && sign.hi > 0) return nullptr;
    const Expr* most = bound(leaves[k], sign.lo >= 0 ? side : other(side), depth + 1);
    if (!most) return nullptr;
    sum = ctx_.add(sum, ctx_.mul(factor, most));
  }
  return sum;
}

}  // namespace mlc::loop
