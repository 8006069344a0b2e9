// What kernels get of extents as numbers.
#include <doctest/doctest.h>

#include "packager/loop/kernel_key.h"
#include "packager/compile/variant/lift_extents.h"
#include "packager/ir/context.h"
#include "packager/loop/build.h"

using namespace mlc;
using ir::Context;
using ir::Expr;
using ir::Op;

namespace {

// y[offset + i] = x[i] for i of one tile each.
loop::Kernel copy_to(Context& ctx, const Expr* offset, const Expr* tiles) {
  loop::Kernel k;
  k.name = "copy";
  k.tiles = tiles;
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  loop::Builder b(ctx, k.body);
  b.with_for(k.tile_begin, k.tile_end, 1, [&](const Expr* i) {
    b.store(1, ctx.add(offset, i), ctx.load(0, {DType::F32, 1}, {i}));
  });
  return k;
}

}  // namespace

TEST_CASE("kernels that differ only in what they compute of extents are one, and the plan computes that") {
  Context ctx;
  const Expr *a = ctx.sym(ctx.declare_sym("a")), *b = ctx.sym(ctx.declare_sym("b")), *c = ctx.sym(ctx.declare_sym("c"));
  const Expr *near = ctx.mul(a, ctx.integer(3)), *far = ctx.add(ctx.mul(a, b), ctx.floordiv(c, ctx.integer(2)));
  loop::Kernel first = copy_to(ctx, near, b), second = copy_to(ctx, far, ctx.sub(c, a));
  CHECK(loop::kernel_key(first) != loop::kernel_key(second));
  CHECK(compile::lift_extents(ctx, first) == std::vector<const Expr*>{b, near});
  CHECK(compile::lift_extents(ctx, second) == std::vector<const Expr*>{ctx.sub(c, a), far});
  CHECK(loop::kernel_key(first) == loop::kernel_key(second));
  CHECK(first.scalars.size() == 2);
  CHECK(first.scalars[0] == b->sym);  // a symbol stays itself
  CHECK(ir::interval_of(ctx.sym(first.scalars[1])).lo == 0);
  CHECK(first.scalars[1]->multiple == 3);
}

TEST_CASE("of what may be zero the plan takes one instead as a divisor: kernels come to no quotient by zero") {
  Context ctx;
  const Expr *a = ctx.sym(ctx.declare_sym("a")), *b = ctx.sym(ctx.declare_sym("b")), *c = ctx.sym(ctx.declare_sym("c", 1)), *less = ctx.sub(b, ctx.integer(1));
  const auto lifted = [&](const Expr* e) {
    loop::Kernel k = copy_to(ctx, e, a);
    const auto values = compile::lift_extents(ctx, k);
    REQUIRE(values.size() == 2);
    return values[1];
  };
  CHECK(lifted(ctx.floordiv(a, c)) == ctx.floordiv(a, c));
  CHECK(lifted(ctx.floordiv(a, b)) == ctx.floordiv(a, ctx.max(b, ctx.integer(1))));
  const Expr* chosen = ctx.select(ctx.binary(Op::Eq, less, ctx.integer(0)), a, ctx.add(ctx.floormod(a, less), ctx.floordiv(ctx.floordiv(c, b), ctx.integer(3))));
  for (int64_t value = 0; value < 5; ++value) {
    const auto with = [&](const Expr* e) {
      return ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> { return s == b->sym ? value : 7; });
    };
    REQUIRE(with(lifted(chosen)).has_value());
    if (const auto want = with(chosen)) CHECK(with(lifted(chosen)) == want);
  }
}

TEST_CASE("what the size of a buffer has is lifted as it stands: the plan computes it anyway") {
  Context ctx;
  const Expr *a = ctx.sym(ctx.declare_sym("a")), *b = ctx.sym(ctx.declare_sym("b")), *c = ctx.sym(ctx.declare_sym("c"));
  const Expr *part = ctx.floordiv(a, b), *other = ctx.floordiv(b, a);
  const Expr* size = ctx.mul(ctx.select(ctx.binary(Op::Eq, c, ctx.integer(0)), ctx.integer(4), part), c);
  loop::Kernel k = copy_to(ctx, ctx.add(part, c), a);
  CHECK(compile::lift_extents(ctx, k, {{size}}) == std::vector<const Expr*>{a, ctx.add(part, c)});
  k = copy_to(ctx, other, a);
  CHECK(compile::lift_extents(ctx, k, {{size}}) == std::vector<const Expr*>{a, ctx.floordiv(b, ctx.max(a, ctx.integer(1)))});  // a quotient of its own
}
