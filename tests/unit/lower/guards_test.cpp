// Loads that are in range only under a condition. The Loop interpreter checks every access, so a load that escapes its
// condition fails here even where what it reads is thrown away.
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"
#include "targets/gpu/device_targets.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

template <class F>
void on_targets(F f) {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "rv64gc", "portable"}) {
    const targets::Target* t = targets::find_target(name);
    REQUIRE(t);
    f(*t);
  }
  f(targets::gpu::device_target("vulkan-base"));
}

const Expr* f32(ir::Context& ctx, double v) { return ctx.number(v, DType::F32); }
const Expr* clamped(NestMaker& m, const Expr* e, int64_t last) { return m.ctx.max(m.n(0), m.ctx.min(e, m.n(last))); }

}  // namespace

TEST_CASE("an index that is read under a condition stays under it inside of an address") {
  // Rows of a picture in the middle of a larger one, through a table of rows: x[table[o - 2], p, c] where o - 2 is a row.
  on_targets([](const targets::Target& t) {
    for (int64_t channels : {1, 3, 16, 37})
      for (bool planes : {false, true}) {
        ir::Context ctx;
        NestMaker m(ctx);
        auto H = m.n(5), W = m.n(6), C = m.n(channels), O = m.n(9);
        uint32_t x = m.array("x", DType::F32, {H, W, C}), table = m.array("table", DType::I64, {H}),
                 y = m.output("y", DType::F32, {O, W, C});
        if (planes) m.f.arrays[y].layout = nest::permuted({2, 0, 1});
        auto o = m.dim("o", O), p = m.dim("p", W), c = m.dim("c", C);
        const Expr* at = ctx.add(m.at(o), m.n(-2));
        const Expr* row = clamped(m, m.load(table, {at}), 4);
        m.map({o, p, c}, y, {m.at(o), m.at(p), m.at(c)},
              ctx.select(m.within(at, H), m.load(x, {row, m.at(p), m.at(c)}), f32(ctx, 114)));
        test::check_lowering(ctx, m.f, t);
      }
  });
}

TEST_CASE("an index along vectors that is read under a condition on single lanes") {
  // The last vector of 33 has lanes that do not exist, for which the condition means nothing.
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(4), O = m.n(33);
    uint32_t x = m.array("x", DType::F32, {m.n(5), O}), table = m.array("table", DType::I64, {m.n(2)}), y = m.output("y", DType::F32, {R, O});
    auto r = m.dim("r", R), o = m.dim("o", O);
    // In range in columns 3 to 32 of rows 0 and 1; a lane behind column 32 would hold in rows 2 and 3.
    const Expr* late = ctx.binary(Op::Le, m.n(33), m.at(o));
    const Expr* inner = ctx.binary(Op::And, ctx.binary(Op::Le, m.n(3), m.at(o)), ctx.binary(Op::Lt, m.at(r), m.n(2)));
    const Expr* row = clamped(m, m.load(table, {m.at(r)}), 4);
    m.map({r, o}, y, {m.at(r), m.at(o)}, ctx.select(ctx.binary(Op::Or, late, inner), m.load(x, {row, m.at(o)}), f32(ctx, 7)));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("vectors under one condition for all lanes are read in a branch, without masks") {
  // Channels that padding adds: x[o, p] where o is a channel of x.
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto C = m.n(5), O = m.n(9), P = m.n(64);
    uint32_t x = m.array("x", DType::F32, {C, P}), y = m.output("y", DType::F32, {O, P});
    auto o = m.dim("o", O), p = m.dim("p", P);
    m.map({o, p}, y, {m.at(o), m.at(p)}, ctx.select(m.within(m.at(o), C), m.load(x, {m.at(o), m.at(p)}), f32(ctx, 0)));
    test::check_lowering(ctx, m.f, t);
    if (t.is_device()) return;
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], t, test::test_math);
    REQUIRE(kernels.ok());
    const std::string text = loop::to_string(kernels->back());
    CAPTURE(text);
    CHECK(text.find("if (") != std::string::npos);
    CHECK(text.find("splat.bool") == std::string::npos);
  });
}

TEST_CASE("one axis clamped says nothing about the others") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto H = m.n(5), W = m.n(6), R = m.n(9), O = m.n(33);
    uint32_t x = m.array("x", DType::F32, {H, W}), table = m.array("table", DType::I64, {R}), y = m.output("y", DType::F32, {R, O});
    auto r = m.dim("r", R), o = m.dim("o", O);
    const Expr* at = ctx.add(m.at(o), m.n(-11));
    const Expr* row = clamped(m, m.load(table, {m.at(r)}), 4);
    m.map({r, o}, y, {m.at(r), m.at(o)}, ctx.select(m.within(at, W), m.load(x, {row, at}, ir::Access::Clamped), f32(ctx, 114)));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("a condition of a fold is read only where the conditions before it hold") {
  on_targets([](const targets::Target& t) {
    for (bool by_rows : {false, true})
      for (bool halves : {false, true}) {
        ir::Context ctx;
        NestMaker m(ctx);
        auto R = m.n(12), C = m.n(21), T = m.n(4);
        uint32_t x = m.array("x", DType::F32, {R, C}), first = m.array("first", DType::I64, {T}),
                 y = m.output("y", DType::F32, {by_rows ? R : C});
        auto r = m.dim("r", R), c = m.dim("c", C);
        // `halves`: the first condition is no bound of a loop.
        const Expr* at = halves ? ctx.sub(ctx.floordiv(m.at(r), m.n(2)), m.n(1)) : ctx.add(m.at(r), m.n(-2));
        const Expr* there = m.within(at, T);
        if (halves) there = ctx.binary(Op::Ne, ctx.select(there, m.n(1), m.n(0)), m.n(0));
        const Expr* where = ctx.binary(Op::And, there, ctx.binary(Op::Lt, m.load(first, {at}), m.at(c)));
        m.map({by_rows ? r : c}, y, {m.at(by_rows ? r : c)}, m.fold(Join::Max, {by_rows ? c : r}, m.load(x, {m.at(r), m.at(c)}), where));
        test::check_lowering(ctx, m.f, t);
      }
  });
}

TEST_CASE("a bound of a fold is read only where a condition on another of its dims holds") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(6), A = m.n(9), B = m.n(10);
    uint32_t x = m.array("x", DType::F32, {R, A, B}), first = m.array("first", DType::I64, {m.n(4)}), y = m.output("y", DType::F32, {R});
    auto r = m.dim("r", R), a = m.dim("a", A), b = m.dim("b", B);
    // r < 4 follows from the condition on a and b, which holds for no a and b in the last two rows.
    const Expr* near = ctx.binary(Op::Lt, ctx.add(ctx.add(ctx.mul(m.at(r), m.n(10)), m.at(a)), m.at(b)), m.n(40));
    const Expr* where = ctx.binary(Op::And, near, ctx.binary(Op::Lt, m.load(first, {m.at(r)}), m.at(a)));
    m.map({r}, y, {m.at(r)}, m.fold(Join::Sum, {a, b}, m.load(x, {m.at(r), m.at(a), m.at(b)}), where));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("a product in the arm of a select reads only where the arm is taken") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(12), K = m.n(5), N = m.n(32), X = m.n(6);
    uint32_t x = m.array("x", DType::F32, {X, K}), w = m.array("w", DType::F32, {K, N}), y = m.output("y", DType::F32, {R, N});
    auto r = m.dim("r", R), k = m.dim("k", K), n = m.dim("n", N);
    const Expr* at = ctx.add(m.at(r), m.n(-3));
    const Expr* sum = m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, m.load(x, {at, m.at(k)}), m.load(w, {m.at(k), m.at(n)})));
    m.map({r, n}, y, {m.at(r), m.at(n)}, ctx.select(m.within(at, X), sum, f32(ctx, 1)));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("a matrix that is packed is not read beyond the condition of its sum") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(16), K = m.n(12), N = m.n(32);
    uint32_t x = m.array("x", DType::F32, {R, K}), w = m.array("w", DType::F32, {N, m.n(9)}), y = m.output("y", DType::F32, {R, N});
    auto r = m.dim("r", R), k = m.dim("k", K), a = m.dim("a", m.n(3)), n = m.dim("n", N);
    const Expr* column = ctx.add(m.at(k), m.n(-2));
    const Expr* value = ctx.binary(Op::Mul, m.load(x, {m.at(r), m.at(k)}), m.load(w, {m.at(n), column}));
    m.map({r, n}, y, {m.at(r), m.at(n)}, m.fold(Join::Sum, {k, a}, value, m.within(column, m.n(9))));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("a tap whose condition does not bound the row is not read where it does not hold") {
  on_targets([](const targets::Target& t) {
    for (int64_t shift : {0, 5, 8, 14}) {
      ir::Context ctx;
      NestMaker m(ctx);
      const ir::Sym *S = ctx.declare_sym("S", 0, 1000), *Q = ctx.declare_sym("Q", 0, 20);
      auto C = m.n(32), W = m.n(40);
      uint32_t x = m.array("x", DType::F32, {C, W}), y = m.output("y", DType::F32, {C, ctx.sym(Q)});
      m.f.arrays[x].layout = m.f.arrays[y].layout = nest::permuted({1, 0});
      auto c = m.dim("c", C), q = m.dim("q", ctx.sym(Q)), v = m.dim("v", m.n(2));
      const Expr* at = ctx.sub(ctx.add(ctx.binary(Op::Mul, m.at(q), m.at(v)), m.n(5)), ctx.sym(S));
      m.map({c, q}, y, {m.at(c), m.at(q)}, m.fold(Join::Max, {v}, m.load(x, {m.at(c), at}), ctx.binary(Op::Le, m.n(0), at)));
      test::check_lowering(ctx, m.f, t, {{S, shift}, {Q, 17}});
    }
  });
}

TEST_CASE("the place of a write is read only where the write happens") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(9), C = m.n(19), T = m.n(4);
    uint32_t x = m.array("x", DType::F32, {R, C}), place = m.array("place", DType::I64, {T}), y = m.output("y", DType::F32, {T, C});
    auto r = m.dim("r", R), c = m.dim("c", C);
    const Expr* at = ctx.add(m.at(r), m.n(-3));
    nest::Nest& nest = m.map({r, c}, y, {clamped(m, m.load(place, {at}), 3), m.at(c)}, m.load(x, {m.at(r), m.at(c)}));
    nest.writes[0].push = true;
    nest.writes[0].join = Join::Sum;
    // A condition that differs between lanes: a mask, not an If.
    nest.where = ctx.binary(Op::And, m.within(at, T), ctx.binary(Op::Ne, m.at(c), m.n(5)));
    test::check_lowering(ctx, m.f, t);
  });
}
