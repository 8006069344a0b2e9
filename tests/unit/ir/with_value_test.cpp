#include <doctest/doctest.h>

#include "packager/ir/context.h"
#include "packager/ir/evaluate.h"
#include "packager/ir/typical.h"

using namespace mlc;

TEST_CASE("figures divide by one where a shape would divide by zero") {
  ir::Context ctx;
  const ir::Sym *B = ctx.declare_sym("B", 0, 1000, 1), *N = ctx.declare_sym("N", 0, 1000, 1);
  const ir::Expr *b = ctx.sym(B), *n = ctx.sym(N);
  const ir::Expr* nested = ctx.floordiv(ctx.floordiv(ctx.mul(b, ctx.mul(n, n)), b), ctx.sub(n, ctx.integer(3)));
  CHECK(!ir::always_has_value(nested));
  const ir::Expr* e = ir::with_value(ctx, nested);
  REQUIRE(e);
  CHECK(ir::always_has_value(e));
  const auto at = [&](int64_t batch, int64_t length) {
    return ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> { return s == B ? batch : length; });
  };
  CHECK(at(2, 7) == 12);  // 49 / 4
  CHECK(at(2, 3) == 9);   // by one
  CHECK(at(0, 7) == 0);
  CHECK(ir::with_value(ctx, ctx.floordiv(n, ctx.integer(4))) == ctx.floordiv(n, ctx.integer(4)));
  CHECK(!ir::with_value(ctx, ctx.load(0, {DType::I64, 1}, {n})));
}

TEST_CASE("what is something in rare runs alone is guessed by them, a condition is not") {
  ir::Context ctx;
  const ir::Expr *n = ctx.sym(ctx.declare_sym("n")), *is_one = ctx.binary(ir::Op::Eq, n, ctx.integer(1));
  CHECK(ir::typical(ctx.select(is_one, ctx.mul(n, ctx.integer(3)), ctx.integer(0))) == 192);
  CHECK(ir::typical(ctx.select(is_one, ctx.integer(1000), n)) == 64);
  CHECK(ir::typical(ctx.floordiv(n, ctx.integer(100))) == 40);
  CHECK(ir::typical(ctx.mul(n, ctx.integer(2)), ir::Guess::Side) == 512);
  CHECK(ir::typical(ctx.floordiv(n, ctx.integer(2)), ir::Guess::Batch) == 32);  // half of one is none
  CHECK(ir::typical(ctx.select(is_one, ctx.integer(0), ctx.sub(n, n))) == 0);
  CHECK(ir::typical(ctx.binary(ir::Op::Lt, ctx.integer(100), ctx.select(is_one, ctx.integer(200), ctx.integer(5)))) == 0);
}
