#include <doctest/doctest.h>

#include <random>
#include <unordered_map>

#include "packager/ir/context.h"
#include "packager/ir/numeric.h"

using namespace mlc;
using namespace mlc::ir;

namespace {

struct Fixture {
  Context ctx;
  const Expr* n = ctx.sym(ctx.declare_sym("N", 1));
  const Expr* m = ctx.sym(ctx.declare_sym("M", 1));
  const Expr* h = ctx.sym(ctx.declare_sym("H", 32, 4096, 32));
  const Expr* k(int64_t v) { return ctx.integer(v); }
  const Expr* dim(const char* name, const Expr* extent) { return ctx.dim(ctx.declare_dim(name, extent)); }
  const Expr* dim(const char* name, int64_t extent) { return dim(name, k(extent)); }
};

// i64 arithmetic without any simplification.
int64_t evaluate(const Expr* e, const std::unordered_map<const Expr*, int64_t>& leaves) {
  if (auto it = leaves.find(e); it != leaves.end()) return it->second;
  switch (e->op) {
    case Op::Const: return e->i;
    case Op::Select: return evaluate(e->args[evaluate(e->args[0], leaves) ? 1 : 2], leaves);
    case Op::Not: return !evaluate(e->args[0], leaves);
    case Op::Abs: case Op::Neg:
      return apply_unary(e->op, DType::I64, DType::I64, {evaluate(e->args[0], leaves), 0}).i;
    default: {
      Scalar a{evaluate(e->args[0], leaves), 0}, b{evaluate(e->args[1], leaves), 0};
      return apply_binary(e->op, e->args[0]->type.dtype, a, b).i;
    }
  }
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "equal sums are the same pointer") {
  auto a = dim("a", 100), b = dim("b", 100);
  CHECK(ctx.add(a, b) == ctx.add(b, a));
  CHECK(ctx.sub(ctx.add(a, b), b) == a);
  CHECK(ctx.mul(ctx.add(a, k(2)), k(3)) == ctx.add(ctx.mul(a, k(3)), k(6)));
  CHECK(ctx.mul(ctx.add(a, b), n) == ctx.add(ctx.mul(n, a), ctx.mul(b, n)));
  CHECK(ctx.sub(a, a)->is_int(0));
  CHECK(to_string(ctx.sub(ctx.sub(a, b), k(1))) == "a - b - 1");
}

TEST_CASE_FIXTURE(Fixture, "division by a constant splits what is divisible") {
  auto a = dim("a", 100), b = dim("b", 8), c = dim("c", 4);
  CHECK(ctx.floordiv(ctx.add(ctx.mul(a, k(8)), b), k(8)) == a);
  CHECK(ctx.floormod(ctx.add(ctx.mul(a, k(8)), b), k(8)) == b);
  auto flat = ctx.add(ctx.mul(ctx.add(ctx.mul(a, k(8)), b), k(4)), c);
  CHECK(ctx.floordiv(flat, k(32)) == a);
  CHECK(ctx.floormod(ctx.floordiv(flat, k(4)), k(8)) == b);
  CHECK(ctx.floordiv(ctx.floormod(flat, k(32)), k(4)) == b);
  CHECK(ctx.floormod(flat, k(4)) == c);
  CHECK(ctx.floordiv(ctx.add(ctx.mul(a, k(6)), k(5)), k(8)) == ctx.floordiv(ctx.add(ctx.mul(a, k(3)), k(2)), k(4)));
  CHECK(ctx.floordiv(ctx.add(ctx.mul(a, k(4)), c), k(8)) == ctx.floordiv(a, k(2)));
  // A quotient and a remainder meet again.
  CHECK(ctx.add(ctx.mul(ctx.floordiv(a, k(7)), k(7)), ctx.floormod(a, k(7))) == a);
}

TEST_CASE_FIXTURE(Fixture, "extents of stacked strides nest") {
  auto half = [&](const Expr* x) { return ctx.add(ctx.floordiv(ctx.sub(x, k(1)), k(2)), k(1)); };
  CHECK(half(half(n)) == ctx.floordiv(ctx.add(n, k(3)), k(4)));
  // A symbol known to be a multiple of 32 divides without remainder.
  CHECK(half(half(h)) == ctx.floordiv(h, k(4)));
  CHECK(ctx.mul(half(h), k(2)) == h);
  CHECK(ctx.mul(half(half(half(h))), k(2)) == half(half(h)));
  CHECK(divisor_of(half(h)) == 16);
}

TEST_CASE_FIXTURE(Fixture, "symbolic divisors divide") {
  auto a = dim("a", 100), b = dim("b", n), c = dim("c", m);
  CHECK(ctx.floordiv(ctx.add(ctx.mul(a, n), b), n) == a);
  CHECK(ctx.floormod(ctx.add(ctx.mul(a, n), b), n) == b);
  auto flat = ctx.add(ctx.mul(ctx.add(ctx.mul(a, n), b), m), c);
  CHECK(ctx.floordiv(flat, ctx.mul(n, m)) == a);
  CHECK(ctx.floormod(ctx.floordiv(flat, m), n) == b);
  CHECK(ctx.floordiv(ctx.mul(n, k(12)), n)->is_int(12));
  auto s = ctx.add(n, m), d = dim("d", s);
  CHECK(ctx.floordiv(ctx.add(ctx.mul(a, s), d), s) == a);
  CHECK(ctx.floormod(ctx.add(ctx.mul(a, s), d), s) == d);
  CHECK(ctx.floordiv(ctx.product(std::vector{n, k(64), m}), ctx.mul(k(8), m)) == ctx.mul(n, k(8)));
  // A part of the divisor: 6*n rows of which each has m elements, by groups of 4*n*m elements and of 24.
  auto row = dim("row", ctx.mul(n, k(2))), group = dim("group", 30), place = ctx.add(ctx.mul(row, m), c);
  auto at = ctx.add(ctx.product(std::vector{group, n, m, k(2)}), place);
  CHECK(ctx.floordiv(at, ctx.product(std::vector{k(8), n, m})) == ctx.floordiv(group, k(4)));
  CHECK(ctx.floormod(at, ctx.product(std::vector{k(8), n, m})) ==
        ctx.add(ctx.product(std::vector{ctx.floormod(group, k(4)), n, m, k(2)}), place));
  auto wide = ctx.add(at, ctx.mul(n, m));  // may reach the next multiple: stays
  CHECK(ctx.floordiv(wide, ctx.product(std::vector{k(8), n, m}))->op == Op::FloorDiv);
  CHECK(depends_on(ctx.floordiv(wide, ctx.product(std::vector{k(8), n, m})), n));
  // Not known to be positive: stays.
  auto z = ctx.sym(ctx.declare_sym("Z", 0));
  CHECK(ctx.floordiv(ctx.mul(z, k(3)), z)->op == Op::FloorDiv);
}

TEST_CASE_FIXTURE(Fixture, "comparisons, minima and selects settle where ranges do") {
  auto a = dim("a", 10), b = dim("b", n);
  CHECK(ctx.binary(Op::Lt, a, k(10))->is_int(1));
  CHECK(ctx.binary(Op::Lt, b, n)->is_int(1));
  CHECK(ctx.binary(Op::Eq, n, k(-1))->is_int(0));
  CHECK(ctx.min(a, k(12)) == a);
  CHECK(ctx.max(ctx.min(b, ctx.sub(n, k(1))), k(0)) == b);
  CHECK(ctx.select(ctx.binary(Op::Lt, n, k(0)), k(1), n) == n);
  CHECK(ctx.binary(Op::Lt, a, k(5)) == ctx.binary(Op::Le, a, k(4)));
  CHECK(ctx.logical_not(ctx.binary(Op::Lt, a, k(5))) == ctx.binary(Op::Le, k(5), a));
  CHECK(ctx.binary(Op::Eq, ctx.mul(a, k(2)), k(7))->is_int(0));
}

TEST_CASE_FIXTURE(Fixture, "loaded integers wrap and are simplified only where that agrees") {
  auto x = ctx.load(0, {DType::I64, 1}, {dim("i", 4)});
  CHECK(ctx.floordiv(ctx.mul(x, k(2)), k(2)) != x);
  CHECK_FALSE(ctx.binary(Op::Lt, x, ctx.add(x, k(1)))->is_const());
  CHECK(ctx.sub(ctx.add(x, k(1)), k(1)) == x);
  auto y = ctx.cast(DType::I64, ctx.load(1, {DType::U8, 1}, {dim("i", 4)}));
  CHECK(ctx.floordiv(ctx.mul(y, k(2)), k(2)) == y);
  CHECK(ctx.binary(Op::Lt, y, k(256))->is_int(1));
}

TEST_CASE_FIXTURE(Fixture, "an overflow of constants stays visible to extents") {
  auto big = ctx.mul(k(int64_t{1} << 40), k(int64_t{1} << 40));
  CHECK_FALSE(evaluate_extent(big, [](const Sym*) { return std::nullopt; }));
  auto p = ctx.mul(ctx.mul(n, k(int64_t{1} << 40)), ctx.mul(m, k(int64_t{1} << 40)));
  CHECK_FALSE(evaluate_extent(p, [](const Sym*) { return std::optional<int64_t>(1); }));
  CHECK(evaluate_extent(ctx.floordiv(h, n), [](const Sym* s) { return std::optional<int64_t>(s->name == "H" ? 64 : 3); }) == 21);
  CHECK_FALSE(evaluate_extent(ctx.floordiv(h, n), [](const Sym* s) { return std::optional<int64_t>(s->name == "H" ? 64 : 0); }));
}

TEST_CASE_FIXTURE(Fixture, "scales in floating point come back as integers") {
  auto scaled = [&](const Expr* e, double f) {
    return ctx.cast(DType::I64, ctx.unary(Op::Floor, ctx.binary(Op::Mul, ctx.cast(DType::F32, e), ctx.number(f, DType::F32))));
  };
  CHECK(scaled(h, 2) == ctx.mul(h, k(2)));
  CHECK(scaled(h, 0.5) == ctx.floordiv(h, k(2)));
}

TEST_CASE_FIXTURE(Fixture, "proofs use conditions that hold") {
  auto o = dim("o", 56), t = dim("k", 3), i = k(56);
  auto at = ctx.sub(ctx.add(o, t), k(1));
  auto in = ctx.logical_and(ctx.binary(Op::Le, k(0), at), ctx.binary(Op::Lt, at, i));
  CHECK_FALSE(proves(ctx, ctx.binary(Op::Le, k(0), at)));
  CHECK(proves(ctx, ctx.binary(Op::Le, k(0), at), std::span(&in, 1)));
  CHECK(proves(ctx, ctx.binary(Op::Lt, at, i), std::span(&in, 1)));
  CHECK(proves(ctx, ctx.binary(Op::Lt, at, ctx.add(i, k(1)))));
  // Rows of a window that never leaves: stride 2, kernel 3, extent (N - 3) // 2 + 1.
  auto w = ctx.sym(ctx.declare_sym("W", 3));
  auto p = dim("p", ctx.add(ctx.floordiv(ctx.sub(w, k(3)), k(2)), k(1)));
  auto row = ctx.add(ctx.mul(p, k(2)), t);
  CHECK(proves(ctx, ctx.binary(Op::Lt, row, w)));
  CHECK_FALSE(proves(ctx, ctx.binary(Op::Lt, ctx.add(row, k(1)), w)));
  // A clamped position is in range.
  auto f = ctx.cast(DType::I64, ctx.load(0, {DType::F32, 1}, {o}));
  auto c = ctx.min(ctx.max(f, k(0)), ctx.sub(n, k(1)));
  CHECK(proves(ctx, ctx.binary(Op::Lt, c, n)));
  CHECK(proves(ctx, ctx.binary(Op::Le, k(0), c)));
}

TEST_CASE_FIXTURE(Fixture, "linear forms name coefficients and the rest") {
  auto o = dim("o", 56), t = dim("k", 3), c = dim("c", 8);
  auto e = ctx.add(ctx.add(ctx.mul(o, k(2)), ctx.mul(t, n)), ctx.sub(c, k(1)));
  std::vector<const Expr*> leaves{o, t};
  auto l = linear_in(ctx, e, leaves);
  REQUIRE(l);
  CHECK(l->coefficients[0]->is_int(2));
  CHECK(l->coefficients[1] == n);
  CHECK(l->rest == ctx.sub(c, k(1)));
  CHECK_FALSE(linear_in(ctx, ctx.floordiv(ctx.add(o, k(1)), k(3)), leaves));
  CHECK_FALSE(linear_in(ctx, ctx.mul(o, t), leaves));
}

TEST_CASE_FIXTURE(Fixture, "folds lose axes of one element, and substitution reaches into them") {
  auto c = ctx.declare_dim("c", k(8)), one = ctx.declare_dim("u", k(1));
  auto x = ctx.load(0, {DType::F32, 1}, {ctx.dim(c), ctx.dim(one)});
  auto f = ctx.fold({ctx.builtin(Join::Sum), {c, one}, nullptr}, {x});
  REQUIRE(f->op == Op::Fold);
  CHECK(f->fold->dims.size() == 1);
  CHECK(to_string(f) == "sum(%0[c, 0] for c)");
  auto d = ctx.declare_dim("d", k(8));
  CHECK(to_string(ctx.substitute(f, {{ctx.dim(c), ctx.dim(d)}})) == "sum(%0[d, 0] for d)");
  CHECK(ctx.fold({ctx.builtin(Join::Sum), {one}, nullptr}, {x}) == ctx.load(0, {DType::F32, 1}, {ctx.dim(c), k(0)}));
  CHECK(ctx.fold({ctx.builtin(Join::Max), {c}, ctx.boolean(false)}, {x})->f < 0);
}

TEST_CASE_FIXTURE(Fixture, "expressions may be deeper than any stack") {
  auto x = ctx.load(0, {DType::F32, 1}, {dim("i", 4)}), y = ctx.load(1, {DType::F32, 1}, {dim("i", 4)});
  const Expr* e = x;
  for (int i = 0; i < 100000; ++i) e = ctx.unary(i % 2 ? Op::Exp : Op::Tanh, ctx.binary(Op::Add, e, y));
  size_t nodes = 0;
  walk(e, [&](const Expr*) { ++nodes; });
  CHECK(nodes > 200000);
  auto other = ctx.substitute(e, {{x, y}});
  CHECK(other != e);
  CHECK(depends_on(e, x));
  CHECK_FALSE(depends_on(other, x));
  CHECK(to_string(e).size() < (size_t{1} << 24));
  // Extents as well: nothing here simplifies.
  const Expr* extent = n;
  for (int i = 0; i < 20000; ++i) extent = ctx.add(ctx.max(extent, ctx.floordiv(m, k(3 + i))), k(1));
  CHECK(evaluate_extent(extent, [](const Sym*) { return std::optional<int64_t>(5); }) == 20005);
  CHECK(interval_of(extent).lo >= 1);
  (void)proves(ctx, ctx.binary(Op::Lt, n, extent));
}

TEST_CASE("random index arithmetic equals brute force") {
  std::mt19937_64 random(20260801);
  for (int round = 0; round < 3000; ++round) {
    Context ctx;
    std::vector<const Expr*> leaves, plain;
    const Expr* n = ctx.sym(ctx.declare_sym("N", 1, 9));
    const Expr* m = ctx.sym(ctx.declare_sym("M", 2, 12, 2));
    leaves = {n, m, ctx.dim(ctx.declare_dim("a", ctx.integer(4))), ctx.dim(ctx.declare_dim("b", n)),
              ctx.dim(ctx.declare_dim("c", ctx.integer(8))), ctx.dim(ctx.declare_dim("d", ctx.mul(n, m)))};
    auto pick = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
    // The simplified expression beside the one as written.
    struct Pair {
      const Expr *simple, *written;
    };
    std::vector<Pair> pool;
    for (const Expr* l : leaves) pool.push_back({l, l});
    for (int64_t c : {0, 1, 2, 3, 4, 8, -1, -2}) pool.push_back({ctx.integer(c), ctx.integer(c)});
    auto raw = [&](Op op, DType t, std::vector<const Expr*> args) {
      Expr e;
      e.op = op;
      e.type = {t, 1};
      return ctx.raw(e, std::move(args));
    };
    std::vector<Pair> conditions;
    for (int step = 0; step < 14; ++step) {
      Pair x = pool[pick(pool.size())], y = pool[pick(pool.size())];
      static constexpr Op kOps[] = {Op::Add, Op::Add, Op::Sub, Op::Mul, Op::FloorDiv, Op::FloorDiv, Op::FloorMod,
                                    Op::FloorMod, Op::Min, Op::Max, Op::TruncDiv, Op::TruncMod};
      Op op = kOps[pick(12)];
      bool division = op == Op::FloorDiv || op == Op::FloorMod || op == Op::TruncDiv || op == Op::TruncMod;
      if (division) {
        static constexpr int64_t kDivisors[] = {2, 3, 4, 8, 12, -3};
        size_t which = pick(8);
        if (which < 6) y = {ctx.integer(kDivisors[which]), ctx.integer(kDivisors[which])};
        else if (which == 6) y = {n, n};
        else y = {ctx.mul(n, m), raw(Op::Mul, DType::I64, {n, m})};
      }
      pool.push_back({ctx.binary(op, x.simple, y.simple), raw(op, DType::I64, {x.written, y.written})});
      static constexpr Op kCompare[] = {Op::Lt, Op::Le, Op::Eq, Op::Ne};
      Op c = kCompare[pick(4)];
      Pair z = pool[pick(pool.size())];
      conditions.push_back({ctx.binary(c, x.simple, z.simple), raw(c, DType::Bool, {x.written, z.written})});
      if (step % 3 == 0) {
        Pair s = conditions.back();
        pool.push_back({ctx.select(s.simple, x.simple, y.simple), raw(Op::Select, DType::I64, {s.written, x.written, y.written})});
      }
    }
    const Expr* given = conditions[pick(conditions.size())].simple;
    for (int point = 0; point < 12; ++point) {
      std::unordered_map<const Expr*, int64_t> at;
      at[n] = 1 + static_cast<int64_t>(pick(9));
      at[m] = 2 + 2 * static_cast<int64_t>(pick(6));
      at[leaves[2]] = static_cast<int64_t>(pick(4));
      at[leaves[3]] = static_cast<int64_t>(pick(static_cast<size_t>(at[n])));
      at[leaves[4]] = static_cast<int64_t>(pick(8));
      at[leaves[5]] = static_cast<int64_t>(pick(static_cast<size_t>(at[n] * at[m])));
      for (const Pair& p : pool) {
        int64_t want = evaluate(p.written, at), got = evaluate(p.simple, at);
        INFO("round " << round << ": " << to_string(p.written) << "  ->  " << to_string(p.simple));
        REQUIRE(want == got);
        REQUIRE(interval_of(p.simple).lo <= got);
        REQUIRE(got <= interval_of(p.simple).hi);
        if (divisor_of(p.simple) == 0) REQUIRE(got == 0);
        else REQUIRE(got % divisor_of(p.simple) == 0);
      }
      for (const Pair& p : conditions) {
        INFO("round " << round << ": " << to_string(p.written) << "  ->  " << to_string(p.simple));
        REQUIRE(evaluate(p.written, at) == evaluate(p.simple, at));
        if (point < 2 && proves(ctx, p.written)) REQUIRE(evaluate(p.written, at));
        if (point < 2 && evaluate(given, at) && proves(ctx, p.simple, std::span(&given, 1))) {
          INFO("given " << to_string(given));
          REQUIRE(evaluate(p.simple, at));
        }
      }
    }
  }
}
