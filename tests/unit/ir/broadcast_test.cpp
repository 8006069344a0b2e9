#include <doctest/doctest.h>

#include "packager/ir/broadcast.h"
#include "packager/ir/evaluate.h"

using namespace mlc;
using namespace mlc::ir;

namespace {

struct Extents {
  Context ctx;
  const Expr* a = ctx.sym(ctx.declare_sym("a"));
  const Expr* b = ctx.sym(ctx.declare_sym("b"));
  const Expr* c = ctx.sym(ctx.declare_sym("c"));
  const Expr* whole = ctx.sym(ctx.declare_sym("whole", 2));  // never 1
  const Expr* even = ctx.sym(ctx.declare_sym("even", 0, INT64_MAX, 2));
  const Expr* one = ctx.integer(1);
  const Expr* both(const Expr* x, const Expr* y) { return broadcast_extent(ctx, x, y); }
  int64_t value(const Expr* e, int64_t va, int64_t vb, int64_t vc = 0) {
    auto v = evaluate_extent(e, [&](const Sym* s) { return std::optional(s->name == "a" ? va : s->name == "b" ? vb : vc); });
    REQUIRE(v);
    return *v;
  }
};

}  // namespace

TEST_CASE("the extent of a broadcast is one expression, in whatever order extents meet") {
  Extents x;
  const Expr* ab = x.both(x.a, x.b);
  CHECK(x.both(x.b, x.a) == ab);
  CHECK(x.both(x.a, x.a) == x.a);
  CHECK(x.both(x.a, x.one) == x.a);
  CHECK(x.both(x.one, x.a) == x.a);
  CHECK(x.both(x.a, ab) == ab);
  CHECK(x.both(ab, x.b) == ab);
  CHECK(x.both(ab, x.c) == x.both(x.a, x.both(x.c, x.b)));
  CHECK(x.both(x.both(x.c, x.a), ab) == x.both(ab, x.c));
  CHECK(broadcast_terms(x.ctx, x.both(ab, x.c)) == std::vector<const Expr*>{x.a, x.b, x.c});
  for (auto [a, b, r] : {std::tuple{1, 7, 7}, {7, 1, 7}, {7, 7, 7}, {1, 1, 1}, {0, 1, 0}, {1, 0, 0}, {0, 0, 0}}) CHECK(x.value(ab, a, b) == r);
  CHECK(x.value(x.both(ab, x.c), 1, 1, 5) == 5);
}

TEST_CASE("an extent that is never 1 stands for all that meet it") {
  Extents x;
  CHECK(x.both(x.a, x.whole) == x.whole);
  CHECK(x.both(x.whole, x.both(x.a, x.b)) == x.whole);
  CHECK(x.both(x.even, x.a) == x.even);
  CHECK(x.both(x.both(x.a, x.b), x.ctx.integer(5)) == x.ctx.integer(5));
  CHECK(x.both(x.a, x.ctx.integer(0)) == x.ctx.integer(0));
  CHECK_FALSE(can_be_one(x.ctx, x.ctx.mul(x.a, x.ctx.integer(2))));
  CHECK(can_be_one(x.ctx, x.ctx.add(x.a, x.b)));
}

TEST_CASE("what must hold before the run, and nothing where the form says it") {
  Extents x;
  const Expr* ab = x.both(x.a, x.b);
  const Expr* c = broadcast_condition(x.ctx, x.a, x.b);
  for (auto [a, b, ok] : {std::tuple{1, 7, 1}, {7, 1, 1}, {7, 7, 1}, {2, 7, 0}, {0, 7, 0}, {0, 1, 1}}) CHECK(x.value(c, a, b) == ok);
  CHECK(broadcast_condition(x.ctx, ab, x.a)->is_int(1));
  CHECK(broadcast_condition(x.ctx, x.b, ab)->is_int(1));
  CHECK_FALSE(broadcast_condition(x.ctx, x.both(x.b, x.c), ab)->is_const());
  // An extent that is never 1 is not compared with 1.
  const Expr* w = broadcast_condition(x.ctx, x.a, x.whole);
  CHECK(w == x.ctx.binary(Op::Or, x.ctx.binary(Op::Eq, x.a, x.whole), x.ctx.binary(Op::Eq, x.a, x.one)));
}

TEST_CASE("two ways to write one extent are told from extents that may be 1 beside another") {
  Extents x;
  auto k = [&](int64_t v) { return x.ctx.integer(v); };
  CHECK(may_differ_by_one(x.a, x.b));
  CHECK(may_differ_by_one(x.a, k(5)));
  CHECK_FALSE(may_differ_by_one(x.a, x.ctx.min(x.a, k(512))));
  // (h + 15) // 16 is 1 and (h + 31) // 32 * 2 is 2 for h up to 16.
  CHECK(may_differ_by_one(x.ctx.floordiv(x.ctx.add(x.a, k(15)), k(16)), x.ctx.mul(x.ctx.floordiv(x.ctx.add(x.a, k(31)), k(32)), k(2))));
  CHECK(may_differ_by_one(x.ctx.add(x.a, x.b), x.b));
  // Frames of a window: one for some 160 of the lengths.
  const Expr* frames = x.ctx.add(x.ctx.floordiv(x.ctx.sub(x.a, k(48000)), k(160)), k(1));
  CHECK(may_differ_by_one(frames, k(80)));
  CHECK(may_differ_by_one(x.ctx.max(frames, k(0)), x.ctx.mul(frames, k(2))));
  // n * 32 // (n == -1 ? 1 : n) is 32 in other words.
  CHECK_FALSE(may_differ_by_one(x.ctx.floordiv(x.ctx.mul(x.a, k(32)), x.ctx.select(x.ctx.binary(Op::Eq, x.a, k(-1)), k(1), x.a)), k(32)));
  CHECK(may_differ_by_one(x.both(x.a, x.b), x.a));
  CHECK_FALSE(may_differ_by_one(x.ctx.max(x.ctx.add(x.a, x.b), k(0)), x.ctx.floordiv(x.ctx.mul(x.ctx.add(x.a, x.b), x.c), x.c)));
}

TEST_CASE("steps are 0 where the extent is 1 and vanish where they say nothing") {
  Extents x;
  const Expr *sa = broadcast_step(x.ctx, x.a), *sab = broadcast_step(x.ctx, x.both(x.a, x.b));
  CHECK(is_broadcast_step(sa));
  CHECK(is_broadcast_step(sab));
  CHECK(broadcast_step(x.ctx, x.whole)->is_int(1));
  CHECK(x.value(sa, 1, 9) == 0);
  CHECK(x.value(sa, 0, 9) == 1);
  CHECK(x.value(sa, 7, 9) == 1);
  const Expr* d = x.ctx.dim(x.ctx.declare_dim("d", x.both(x.a, x.b)));
  const Expr* own = x.ctx.dim(x.ctx.declare_dim("own", x.a));
  CHECK(x.ctx.mul(sa, sa) == sa);
  CHECK(x.ctx.mul(sab, sa) == sa);                                  // a is not 1, so both are not
  CHECK(x.ctx.mul(x.ctx.mul(d, sab), sa) == x.ctx.mul(d, sa));      // read through two broadcasts
  CHECK(x.ctx.mul(d, sab) == d);
  CHECK(x.ctx.mul(own, sa) == own);                                 // 0 where a is 1
  CHECK(x.ctx.mul(d, sa) != d);
  CHECK(without_steps(x.ctx, x.ctx.add(x.ctx.mul(d, sa), x.c)) == x.ctx.add(d, x.c));
  CHECK_FALSE(is_broadcast_step(x.ctx.select(x.ctx.binary(Op::Eq, d, x.one), x.ctx.integer(0), x.one)));  // differs from point to point
}

TEST_CASE("reads of what broadcasts are in range by their form and by what is checked, and no others") {
  Extents x;
  const Expr* d = x.ctx.dim(x.ctx.declare_dim("d", x.both(x.a, x.b)));
  const Expr *sa = broadcast_step(x.ctx, x.a), *sb = broadcast_step(x.ctx, x.b), *sc = broadcast_step(x.ctx, x.c);
  CHECK(broadcast_in_range(x.ctx, x.ctx.mul(d, sa), x.a));
  CHECK(broadcast_in_range(x.ctx, x.ctx.mul(d, sb), x.b));
  CHECK_FALSE(broadcast_in_range(x.ctx, x.ctx.mul(d, sc), x.c));
  CHECK_FALSE(broadcast_in_range(x.ctx, d, x.a));
  CHECK_FALSE(broadcast_in_range(x.ctx, x.ctx.mul(d, sb), x.a));
  CHECK_FALSE(broadcast_in_range(x.ctx, x.ctx.mul(x.ctx.add(d, x.one), sa), x.a));
  CHECK_FALSE(broadcast_in_range(x.ctx, x.ctx.add(x.ctx.mul(d, sa), x.one), x.a));
  // Against an extent that is not made of them, by the check that was made.
  const Expr* e = x.ctx.dim(x.ctx.declare_dim("e", x.c));
  CHECK_FALSE(broadcast_in_range(x.ctx, x.ctx.mul(e, sa), x.a));
  const Expr* checked = x.ctx.binary(Op::Or, x.ctx.binary(Op::Eq, x.c, x.a), x.ctx.binary(Op::Eq, x.a, x.one));
  CHECK(broadcast_in_range(x.ctx, x.ctx.mul(e, sa), x.a, std::vector<const Expr*>{checked}));
}

TEST_CASE("an evaluator gives what the extent is for one set of values after another") {
  Extents x;
  const Expr* quotient = x.ctx.floordiv(x.ctx.mul(x.both(x.a, x.b), x.ctx.integer(6)), x.c);
  ExtentEvaluator of(x.ctx.add(quotient, x.ctx.min(x.a, x.c)));
  const auto value = [&](int64_t a, int64_t b, std::optional<int64_t> c) {
    return of([&](const Sym* s) { return s->name == "a" ? std::optional(a) : s->name == "b" ? std::optional(b) : c; });
  };
  CHECK(value(1, 7, 4) == 11);
  CHECK_FALSE(value(1, 7, 0));  // a division by zero
  CHECK_FALSE(value(1, 7, std::nullopt));
  CHECK(value(5, 1, 10) == 8);
  CHECK_FALSE(value(INT64_MAX, 1, 1));
  CHECK(value(1, 7, 4) == 11);
}
