// Strides that the run chooses: reads at index * step of an extent that may be 1.
#include "packager/ir/broadcast.h"
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
    CAPTURE(name);
    const targets::Target* t = targets::find_target(name);
    REQUIRE(t);
    f(*t);
  }
  f(targets::gpu::device_target("vulkan-base"));
}

struct Pair {
  const ir::Sym *a, *b;
  const Expr *both, *step_a, *step_b;
  Pair(ir::Context& ctx, const std::string& name)
      : a(ctx.declare_sym("a" + name, 0, 1000)), b(ctx.declare_sym("b" + name, 0, 1000)),
        both(ir::broadcast_extent(ctx, ctx.sym(a), ctx.sym(b))), step_a(ir::broadcast_step(ctx, ctx.sym(a))),
        step_b(ir::broadcast_step(ctx, ctx.sym(b))) {}
};

}  // namespace

TEST_CASE("every axis of both operands may broadcast, the contiguous one included") {
  on_targets([](const targets::Target& t) {
    for (DType type : {DType::F32, DType::I8, DType::F64}) {
      ir::Context ctx;
      NestMaker m(ctx);
      Pair p(ctx, "0"), q(ctx, "1");
      uint32_t x = m.array("x", type, {ctx.sym(p.a), ctx.sym(q.a)}), z = m.array("z", type, {ctx.sym(p.b), ctx.sym(q.b)}),
               y = m.output("y", type, {p.both, q.both});
      auto d = m.dim("d", p.both), e = m.dim("e", q.both);
      m.map({d, e}, y, {m.at(d), m.at(e)},
            ctx.binary(Op::Add, m.load(x, {ctx.mul(m.at(d), p.step_a), ctx.mul(m.at(e), q.step_a)}),
                       m.load(z, {ctx.mul(m.at(d), p.step_b), ctx.mul(m.at(e), q.step_b)})));
      for (auto [pa, pb] : {std::pair{3, 3}, {1, 3}, {3, 1}, {1, 1}, {0, 1}})
        for (auto [qa, qb] : {std::pair{37, 37}, {1, 37}, {37, 1}, {1, 1}, {1, 0}, {64, 64}})
          test::check_lowering(ctx, m.f, t, {{p.a, pa}, {p.b, pb}, {q.a, qa}, {q.b, qb}});
    }
  });
}

TEST_CASE("the batch of a product may broadcast and it stays a contraction") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    Pair p(ctx, "");
    const ir::Sym* rows = ctx.declare_sym("rows", 0, 1000);
    const Expr *M = ctx.sym(rows), *K = m.n(24), *N = m.n(40);
    uint32_t x = m.array("x", DType::F32, {ctx.sym(p.a), M, K}), w = m.array("w", DType::F32, {ctx.sym(p.b), K, N}),
             y = m.output("y", DType::F32, {p.both, M, N});
    auto d = m.dim("d", p.both), r = m.dim("m", M), k = m.dim("k", K), n = m.dim("n", N);
    m.map({d, r, n}, y, {m.at(d), m.at(r), m.at(n)},
          m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, m.load(x, {ctx.mul(m.at(d), p.step_a), m.at(r), m.at(k)}),
                                            m.load(w, {ctx.mul(m.at(d), p.step_b), m.at(k), m.at(n)}))));
    for (auto [a, b] : {std::pair{3, 3}, {1, 3}, {3, 1}, {1, 1}, {0, 1}}) {
      auto schedules = test::check_lowering(ctx, m.f, t, {{p.a, a}, {p.b, b}, {rows, 13}});
      if (!t.is_device()) CHECK(schedules.at(0).starts_with("product"));
    }
  });
}

TEST_CASE("a fold over an axis that may broadcast, along it and across it") {
  on_targets([](const targets::Target& t) {
    for (bool along : {true, false}) {
      ir::Context ctx;
      NestMaker m(ctx);
      Pair p(ctx, "0"), q(ctx, "1");
      uint32_t x = m.array("x", DType::F32, {ctx.sym(p.a), ctx.sym(q.a)}), z = m.array("z", DType::F32, {ctx.sym(p.b), ctx.sym(q.b)}),
               y = m.output("y", DType::F32, {along ? p.both : q.both});
      auto d = m.dim("d", p.both), e = m.dim("e", q.both);
      const Expr* body = ctx.binary(Op::Max, m.load(x, {ctx.mul(m.at(d), p.step_a), ctx.mul(m.at(e), q.step_a)}),
                                    m.load(z, {ctx.mul(m.at(d), p.step_b), ctx.mul(m.at(e), q.step_b)}));
      m.map({along ? d : e}, y, {m.at(along ? d : e)}, m.fold(Join::Sum, {along ? e : d}, body));
      for (auto [pa, pb] : {std::pair{5, 5}, {1, 5}, {5, 1}})
        for (auto [qa, qb] : {std::pair{70, 70}, {1, 70}, {70, 1}, {1, 1}})
          test::check_lowering(ctx, m.f, t, {{p.a, pa}, {p.b, pb}, {q.a, qa}, {q.b, qb}});
    }
  });
}

TEST_CASE("a read under a condition, and one at every second element") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    Pair p(ctx, "");
    // An array of pairs, of which the first is read; and one that is read only where the other is positive.
    uint32_t x = m.array("x", DType::F32, {ctx.sym(p.a), m.n(2)}), z = m.array("z", DType::F32, {ctx.sym(p.b)}),
             y = m.output("y", DType::F32, {p.both});
    auto d = m.dim("d", p.both);
    const Expr* first = m.load(x, {ctx.mul(m.at(d), p.step_a), m.n(0)});
    m.map({d}, y, {m.at(d)}, ctx.select(ctx.binary(Op::Lt, ctx.number(0, DType::F32), first), m.load(z, {ctx.mul(m.at(d), p.step_b)}), first));
    test::check_free_lowering(ctx, m.f, t, {{{p.a, 41}, {p.b, 41}}, {{p.a, 1}, {p.b, 41}}, {{p.a, 41}, {p.b, 1}}, {{p.a, 1}, {p.b, 1}}});
  });
}
