#include "packager/ir/impl.h"

namespace mlc::ir {

const Expr* with_value(Context& ctx, const Expr* e) {
  constexpr int kMostNested = 16;  // divisions within divisions
  if (!is_extent(e) || always_has_value(e)) return is_extent(e) ? e : nullptr;
  const Expr* const whole = e;
  auto& known = ctx.impl().valued;
  if (const auto found = known.find(whole); found != known.end()) return found->second;
  for (int round = 0; round < kMostNested && is_extent(e) && !always_has_value(e); ++round)
    e = ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
      const bool divides = x->op == Op::FloorDiv || x->op == Op::FloorMod || x->op == Op::TruncDiv || x->op == Op::TruncMod;
      return divides && may_fail(x) ? ctx.binary(x->op, x->args[0], ctx.max(x->args[1], ctx.integer(1))) : nullptr;
    });
  return known[whole] = is_extent(e) && always_has_value(e) ? e : nullptr;
}

}  // namespace mlc::ir
