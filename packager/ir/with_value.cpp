#include "packager/ir/context.h"

namespace mlc::ir {

const Expr* with_value(Context& ctx, const Expr* e) {
  constexpr int kMostNested = 16;  // divisions within divisions
  for (int round = 0; round < kMostNested && is_extent(e) && !always_has_value(e); ++round)
    e = ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
      const bool divides = x->op == Op::FloorDiv || x->op == Op::FloorMod || x->op == Op::TruncDiv || x->op == Op::TruncMod;
      return divides && may_fail(x) ? ctx.binary(x->op, x->args[0], ctx.max(x->args[1], ctx.integer(1))) : nullptr;
    });
  return is_extent(e) && always_has_value(e) ? e : nullptr;
}

}  // namespace mlc::ir
