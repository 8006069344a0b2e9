#include <doctest/doctest.h>

#include "packager/ir/impl.h"

using namespace mlc;
using namespace mlc::ir;

TEST_CASE("questions that a proof asks draw on what the proof may cost, and an answer that this cut short is not remembered") {
  Context ctx;
  Context::Impl& impl = ctx.impl();
  const Expr* n = ctx.sym(ctx.declare_sym("N", 1));
  const auto up = [&](const Expr* e, int64_t k) { return ctx.mul(ctx.floordiv(ctx.add(e, ctx.integer(k - 1)), ctx.integer(k)), ctx.integer(k)); };
  const Expr* room = ctx.sub(up(n, 8), n);  // n rounded up, less n: not negative, which no interval tells
  {
    const Context::Impl::Question outer(impl);
    CHECK(impl.steps_left == Context::Impl::kStepsOfQuestion);
    CHECK_FALSE(impl.is_non_negative(impl.poly_of(ctx.sub(n, ctx.integer(5)))));  // not where n is 1: nothing is searched
    CHECK(impl.steps_left == Context::Impl::kStepsOfQuestion);
    CHECK(impl.is_non_negative(impl.poly_of(ctx.sub(up(n, 16), n))));
    CHECK(impl.steps_left < Context::Impl::kStepsOfQuestion);
    impl.steps_left = 0;
    CHECK_FALSE(impl.is_non_negative(impl.poly_of(room)));
    CHECK(ctx.binary(Op::Max, up(n, 8), n)->op == Op::Max);
  }
  CHECK(impl.is_non_negative(impl.poly_of(room)));
  CHECK(ctx.binary(Op::Max, up(n, 8), n) == up(n, 8));
}

TEST_CASE("bounds of products stay unbounded where a factor is, and are saturated where they would not fit") {
  const int64_t low = INT64_MIN, high = INT64_MAX, half = int64_t{1} << 62;
  const auto product = [](Interval a, Interval b) {
    const Interval v = multiply(a, b);
    return std::pair(v.lo, v.hi);
  };
  CHECK(product({0, high}, {2, 3}) == std::pair(int64_t{0}, high));
  CHECK(product({0, high}, {-1, 1}) == std::pair(low, high));
  CHECK(product({1, high}, {-1, -1}) == std::pair(low, int64_t{-1}));
  CHECK(product({low, high}, {0, 0}) == std::pair(int64_t{0}, int64_t{0}));
  CHECK(product({half, half}, {-4, 4}) == std::pair(low, high));
  CHECK(product({-3, 5}, {-7, 2}) == std::pair(int64_t{-35}, int64_t{21}));
}
