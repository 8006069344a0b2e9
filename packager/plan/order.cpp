#include "packager/plan/order.h"

#include <algorithm>

namespace mlc::plan {
namespace {

constexpr int kMostSteps = 200;  // of the proof that two places are apart

}  // namespace

void Order::place(uint32_t buffer, const ir::Expr* offset, const ir::Expr* bytes, uint32_t memory) {
  places_[buffer] = {offset, ctx_.add(offset, bytes), memory};
}

uint32_t Order::after(std::vector<Use> uses) {
  const auto conflicts = [&](const std::vector<Use>& earlier) {
    for (const Use& a : earlier)
      for (const Use& b : uses)
        if ((a.written || b.written) && may_overlap(a.buffer, b.buffer)) return true;
    return false;
  };
  size_t k = before_.size();
  while (k > 0 && !conflicts(before_[k - 1])) --k;
  before_.push_back(std::move(uses));
  return static_cast<uint32_t>(k);
}

bool Order::may_overlap(uint32_t a, uint32_t b) {
  if (a == b) return true;
  const auto one = places_.find(a), other = places_.find(b);
  if (one == places_.end() || other == places_.end() || one->second.memory != other->second.memory) return false;
  const auto [known, is_new] = overlaps_.emplace(std::minmax(a, b), true);
  if (is_new) {
    int left = kMostSteps, right = kMostSteps;
    known->second = !is_surely_below(one->second.end, other->second.begin, left) && !is_surely_below(other->second.end, one->second.begin, right);
  }
  return known->second;
}

// x <= y, for all values of the symbols. Offsets are maxima of sums, of which one term may be an offset again.
bool Order::is_surely_below(const ir::Expr* x, const ir::Expr* y, int& steps) {
  if (--steps < 0) return false;
  if (x == y || ir::interval_of(ctx_.sub(y, x)).lo >= 0) return true;
  if (y->op == ir::Op::Max) return is_surely_below(x, y->args[0], steps) || is_surely_below(x, y->args[1], steps);
  if (x->op == ir::Op::Max) return is_surely_below(x->args[0], y, steps) && is_surely_below(x->args[1], y, steps);
  if (y->op != ir::Op::Add) return false;
  for (size_t k = 0; k < 2; ++k)
    if (ir::interval_of(y->args[1 - k]).lo >= 0 && is_surely_below(x, y->args[k], steps)) return true;
  return false;
}

}  // namespace mlc::plan
