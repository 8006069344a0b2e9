#include "packager/lower/flat/product.h"

#include <doctest/doctest.h>

#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using mlc::test::NestBuilder;

TEST_CASE_FIXTURE(NestBuilder, "the product of a nest is found once, and again where the nest has changed") {
  const Dim *m = dim("m", 5), *n = dim("n", 16), *c = dim("c", 8);
  const auto x = input("x", DType::F32, {k(40)}), w = input("w", DType::F32, {k(128)});
  const auto at = [&](const Dim* row, int64_t stride, const Dim* column) { return ctx.add(ctx.mul(d(row), k(stride)), d(column)); };
  const Expr* product = ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {ctx.binary(Op::Mul, load(x, {at(m, 8, c)}), load(w, {at(c, 16, n)}))});
  lower::FlatNest nest;
  nest.dims = {m, n};
  lower::FlatWrite& write = nest.writes.emplace_back();
  write.address = at(m, 16, n);
  write.value = product;
  const nest::Contraction* found = lower::product_of(ctx, nest);
  REQUIRE(found);
  CHECK(found->fold == product);
  CHECK(lower::product_of(ctx, nest) == found);

  lower::FlatNest copy = nest;
  CHECK(lower::product_of(ctx, copy) == found);
  const Dim* rows = dim("rows", 3);
  copy.dims.insert(copy.dims.begin(), rows);
  const nest::Contraction* changed = lower::product_of(ctx, copy);
  REQUIRE(changed);
  CHECK(changed != found);
  CHECK(changed->m.front() == rows);
  CHECK(lower::product_of(ctx, nest) == found);

  copy.writes[0].value = load(x, {d(m)});
  CHECK_FALSE(lower::product_of(ctx, copy));
  // What a condition restricts is no product of all points, though its value has not changed.
  nest.where = ctx.binary(Op::Lt, d(m), k(3));
  CHECK_FALSE(lower::product_of(ctx, nest));
}
