#include <doctest/doctest.h>

#include <array>
#include <tuple>

#include "packager/passes/passes.h"
#include "packager/lower/flat/flat.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"
#include "targets/gpu/device_targets.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& target(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

template <class F>
void on_targets(F f) {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "rv64gc", "portable"}) f(target(name));
  for (const char* name : {"vulkan-base", "cuda-sm80"}) f(targets::gpu::device_target(name));
}

const Expr* f32(ir::Context& ctx, double v) { return ctx.number(v, DType::F32); }

}  // namespace

TEST_CASE("an elementwise chain with a broadcast operand, in several layouts") {
  on_targets([](const targets::Target& t) {
    for (int64_t c : {1, 3, 16, 37})
      for (bool last : {false, true}) {
        ir::Context ctx;
        NestMaker m(ctx);
        auto N = m.n(2), C = m.n(c), H = m.n(5);
        uint32_t x = m.array("x", DType::F32, {N, C, H}), s = m.array("s", DType::F32, {C}),
                 y = m.output("y", DType::F32, {N, C, H});
        if (last) m.f.arrays[x].layout = m.f.arrays[y].layout = nest::permuted({0, 2, 1});
        auto n = m.dim("n", N), k = m.dim("c", C), h = m.dim("h", H);
        const Expr* v = ctx.binary(Op::Mul, m.load(x, {m.at(n), m.at(k), m.at(h)}), m.load(s, {m.at(k)}));
        v = ctx.binary(Op::Div, ctx.number(1, DType::F32), ctx.binary(Op::Add, f32(ctx, 1), ctx.unary(Op::Exp, v)));
        m.map({n, k, h}, y, {m.at(n), m.at(k), m.at(h)}, v);
        test::check_lowering(ctx, m.f, t);
      }
  });
}

TEST_CASE("symbolic extents, zero included, and a transposed write") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *A = ctx.declare_sym("A", 0, 1000), *B = ctx.declare_sym("B", 0, 1000);
    auto a = m.dim("a", ctx.sym(A)), b = m.dim("b", ctx.sym(B));
    uint32_t x = m.array("x", DType::F32, {ctx.sym(A), ctx.sym(B)}),
             y = m.output("y", DType::F32, {ctx.sym(B), ctx.sym(A)});
    m.map({a, b}, y, {m.at(b), m.at(a)}, ctx.binary(Op::Add, m.load(x, {m.at(a), m.at(b)}), f32(ctx, 1)));
    for (auto [p, q] : {std::pair{0, 5}, {5, 0}, {1, 1}, {7, 33}, {40, 3}})
      test::check_lowering(ctx, m.f, t, {{A, p}, {B, q}});
  });
}

TEST_CASE("padding is read through a lazy select") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(19), O = m.n(26);
    uint32_t x = m.array("x", DType::F32, {N}), y = m.output("y", DType::F32, {O});
    auto o = m.dim("o", O);
    const Expr* at = ctx.add(m.at(o), m.n(-3));
    m.map({o}, y, {m.at(o)}, ctx.select(m.within(at, N), m.load(x, {at}), f32(ctx, -1)));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("a concatenation reads only the part that is there") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    uint32_t p = m.array("p", DType::I32, {m.n(3), m.n(7)}), q = m.array("q", DType::I32, {m.n(3), m.n(12)});
    uint32_t y = m.output("y", DType::I32, {m.n(3), m.n(19)});
    auto a = m.dim("a", m.n(3)), b = m.dim("b", m.n(19));
    const Expr* rest = ctx.add(m.at(b), m.n(-7));
    m.map({a, b}, y, {m.at(a), m.at(b)},
          ctx.select(ctx.binary(Op::Lt, m.at(b), m.n(7)), m.load(p, {m.at(a), m.at(b)}), m.load(q, {m.at(a), rest})));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("reductions along rows and along columns, every built-in combiner") {
  on_targets([](const targets::Target& t) {
    for (Join join : {Join::Sum, Join::Prod, Join::Min, Join::Max})
      for (int64_t cols : {1, 5, 16, 83})
        for (bool along_rows : {true, false})
          for (DType type : {DType::F32, DType::I32}) {
            ir::Context ctx;
            NestMaker m(ctx);
            auto R = m.n(6), C = m.n(cols);
            uint32_t x = m.array("x", type, {R, C}), y = m.output("y", type, {along_rows ? R : C});
            auto r = m.dim("r", R), c = m.dim("c", C);
            const Expr* v = m.fold(join, {along_rows ? c : r}, m.load(x, {m.at(r), m.at(c)}));
            m.map({along_rows ? r : c}, y, {m.at(along_rows ? r : c)}, v);
            test::check_lowering(ctx, m.f, t);
          }
  });
}

TEST_CASE("long rows are folded along themselves, however few they are") {
  for (int64_t rows : {3, 16, 64, 200}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(rows), C = m.n(333);
    uint32_t x = m.array("x", DType::F32, {R, C}), y = m.output("y", DType::F32, {R});
    auto r = m.dim("r", R), c = m.dim("c", C);
    m.map({r}, y, {m.at(r)}, m.fold(Join::Sum, {c}, m.load(x, {m.at(r), m.at(c)})));
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], target("x86-64-v4"), test::test_math);
    REQUIRE(kernels.ok());
    CHECK(kernels->back().schedule.find("lanes") == std::string::npos);
    test::check_lowering(ctx, m.f, target("x86-64-v4"));
  }
}

TEST_CASE("a softmax in one statement: custom combiner, folds hoisted out of the row") {
  on_targets([](const targets::Target& t) {
    for (int64_t cols : {1, 4, 31, 100}) {
      ir::Context ctx;
      NestMaker m(ctx);
      ir::Combiner c;
      c.name = "softsum";
      c.join = Join::Custom;
      ir::Type ft{DType::F32, 1};
      c.units = {f32(ctx, -3e38), f32(ctx, 0)};
      c.left = {ctx.fresh_var(ft), ctx.fresh_var(ft)};
      c.right = {ctx.fresh_var(ft), ctx.fresh_var(ft)};
      const Expr* top = ctx.binary(Op::Max, c.left[0], c.right[0]);
      auto scaled = [&](const Expr* mx, const Expr* s) {
        const Expr* d = ctx.binary(Op::Max, ctx.binary(Op::Sub, mx, top), f32(ctx, -20));
        return ctx.binary(Op::Mul, s, ctx.unary(Op::Exp, d));
      };
      c.joins = {top, ctx.binary(Op::Add, scaled(c.left[0], c.left[1]), scaled(c.right[0], c.right[1]))};
      const ir::Combiner* softsum = ctx.declare_combiner(std::move(c));
      auto R = m.n(3), C = m.n(cols);
      uint32_t x = m.array("x", DType::F32, {R, C}), y = m.output("y", DType::F32, {R, C});
      auto r = m.dim("r", R), k = m.dim("k", C), j = m.dim("j", C);
      const Expr* both = ctx.fold({softsum, {j}, nullptr}, {m.load(x, {m.at(r), m.at(j)}), f32(ctx, 1)});
      const Expr* v = ctx.binary(
          Op::Div, ctx.unary(Op::Exp, ctx.binary(Op::Sub, m.load(x, {m.at(r), m.at(k)}), ctx.field(both, 0))),
          ctx.field(both, 1));
      m.map({r, k}, y, {m.at(r), m.at(k)}, v);
      test::check_lowering(ctx, m.f, t);
    }
  });
}

TEST_CASE("layer normalisation in one statement: folds nested in folds") {
  on_targets([](const targets::Target& t) {
    for (int64_t cols : {3, 40, 129}) {
      ir::Context ctx;
      NestMaker m(ctx);
      auto R = m.n(4), C = m.n(cols);
      uint32_t x = m.array("x", DType::F32, {R, C}), y = m.output("y", DType::F32, {R, C});
      auto r = m.dim("r", R), k = m.dim("k", C), i = m.dim("i", C), j = m.dim("j", C);
      auto scale = f32(ctx, 1.0 / static_cast<double>(cols));
      const Expr* mean = ctx.binary(Op::Mul, m.fold(Join::Sum, {i}, m.load(x, {m.at(r), m.at(i)})), scale);
      const Expr* d = ctx.binary(Op::Sub, m.load(x, {m.at(r), m.at(j)}), mean);
      const Expr* var = ctx.binary(Op::Mul, m.fold(Join::Sum, {j}, ctx.binary(Op::Mul, d, d)), scale);
      const Expr* sd = ctx.unary(Op::Sqrt, ctx.binary(Op::Add, var, f32(ctx, 1e-3)));
      m.map({r, k}, y, {m.at(r), m.at(k)},
            ctx.binary(Op::Div, ctx.binary(Op::Sub, m.load(x, {m.at(r), m.at(k)}), mean), sd));
      test::check_lowering(ctx, m.f, t);
    }
  });
}

TEST_CASE("pooling windows are bounded, not padded") {
  on_targets([](const targets::Target& t) {
    for (bool last : {false, true})
      for (Join join : {Join::Max, Join::Sum}) {
        ir::Context ctx;
        NestMaker m(ctx);
        auto C = m.n(9), H = m.n(11), O = m.n(6);
        uint32_t x = m.array("x", DType::F32, {C, H, H}), y = m.output("y", DType::F32, {C, O, O});
        if (last) m.f.arrays[x].layout = m.f.arrays[y].layout = nest::permuted({1, 2, 0});
        auto c = m.dim("c", C), p = m.dim("p", O), q = m.dim("q", O), u = m.dim("u", m.n(3)), v = m.dim("v", m.n(3));
        auto place = [&](auto o, auto k) { return ctx.add(ctx.add(ctx.mul(m.at(o), m.n(2)), m.at(k)), m.n(-1)); };
        const Expr *ih = place(p, u), *iw = place(q, v);
        m.map(
            {c, p, q}, y, {m.at(c), m.at(p), m.at(q)},
            m.fold(join, {u, v}, m.load(x, {m.at(c), ih, iw}), ctx.binary(Op::And, m.within(ih, H), m.within(iw, H))));
        test::check_lowering(ctx, m.f, t);
      }
  });
}

TEST_CASE("conditions that are no bounds: strides that must divide, lanes that differ") {
  on_targets([](const targets::Target& t) {
    // A transposed convolution along the contiguous dim: y[o] = sum x[(o - k) / 2] * w[k] where it divides. As
    // operators have it, and by phases, which the three taps do not fill, and of which the first may have a result more.
    for (const auto& [results, phases] : {std::pair<int64_t, bool>{41, false}, {41, true}, {42, true}}) {
      ir::Context ctx;
      NestMaker m(ctx);
      auto N = m.n(20), O = m.n(results);
      uint32_t x = m.array("x", DType::F32, {N}), w = m.array("w", DType::F32, {m.n(3)}),
               y = m.output("y", DType::F32, {O});
      auto o = m.dim("o", O), k = m.dim("k", m.n(3));
      const Expr* back = ctx.sub(m.at(o), m.at(k));
      const Expr* at = ctx.floordiv(back, m.n(2));
      const Expr* where = ctx.binary(Op::And, ctx.binary(Op::Eq, ctx.floormod(back, m.n(2)), m.n(0)), m.within(at, N));
      m.map({o}, y, {m.at(o)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, m.load(x, {at}), m.load(w, {m.at(k)})), where));
      if (phases) REQUIRE(passes::run(ctx, m.f, {.pipeline = {"split-phases"}, .check = true}).ok());
      CHECK(m.f.body.size() == (phases && results % 2 ? 2 : 1));
      test::check_lowering(ctx, m.f, t);
    }
  });
}

TEST_CASE("a fold inside the arm of a select runs only where the arm is taken") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(10), C = m.n(21);
    uint32_t x = m.array("x", DType::F32, {m.n(5), C}), y = m.output("y", DType::F32, {R});
    auto r = m.dim("r", R), c = m.dim("c", C);
    m.map({r}, y, {m.at(r)},
          ctx.select(ctx.binary(Op::Lt, m.at(r), m.n(5)), m.fold(Join::Sum, {c}, m.load(x, {m.at(r), m.at(c)})),
                     f32(ctx, 7)));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("gathers are checked: an index out of range is a fault, not a read") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(6), Q = m.n(5), D = m.n(18);
    uint32_t x = m.array("x", DType::F32, {N, D}), i = m.array("i", DType::I64, {Q}),
             y = m.output("y", DType::F32, {Q, D});
    auto q = m.dim("q", Q), d = m.dim("d", D);
    const Expr* index = m.load(i, {m.at(q)});
    m.map({q, d}, y, {m.at(q), m.at(d)}, m.load(x, {index, m.at(d)}, ir::Access::Checked));
    test::check_lowering(ctx, m.f, t);

    std::mt19937 rng(3);
    std::vector<nest::Tensor> inputs = {test::random_tensor(rng, DType::F32, {6, 18}),
                                        nest::Tensor::of<int64_t>(DType::I64, {5}, {0, 5, 6, 1, 2})};
    CHECK(test::run_lowered(ctx, m.f, inputs, t, {}, {}).fault == 1);
    inputs[1] = nest::Tensor::of<int64_t>(DType::I64, {5}, {0, 5, -1, 1, 2});
    CHECK(test::run_lowered(ctx, m.f, inputs, t, {}, {}).fault == 1);
  });
}

TEST_CASE("a reshape whose extents the run decides divides nothing, and is in range where its elements are") {
  for (const char* name : {"x86-64-v4", "portable"}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym *R = ctx.declare_sym("R", 0, 99), *H = ctx.declare_sym("H", 0, 99), *W = ctx.declare_sym("W", 0, 99), *N = ctx.declare_sym("N", 0, 4096);
    const uint32_t x = maker.array("x", DType::F32, {ctx.sym(R), ctx.sym(H), ctx.sym(W)}), y = maker.output("y", DType::F32, {ctx.sym(N)});
    auto i = maker.dim("i", ctx.sym(N));
    const Expr *at = maker.at(i), *rows = ctx.binary(Op::FloorDiv, at, ctx.sym(W));
    const Expr *row = ctx.binary(Op::FloorMod, rows, ctx.sym(H)), *column = ctx.binary(Op::FloorMod, at, ctx.sym(W));
    const std::vector<const Expr*> index{ctx.binary(Op::FloorDiv, rows, ctx.sym(H)), row, column};
    maker.map({i}, y, {at}, maker.load(x, index, ir::Access::Checked));
    const auto flat = lower::flatten(ctx, maker.f, *maker.f.body[0].nest);
    REQUIRE(flat.ok());
    const Expr* load = flat->writes[0].value;
    REQUIRE(load->op == Op::Load);
    CHECK(load->args[0] == at);
    CHECK(load->access == ir::Access::Checked);
    for (auto [r, h, w] : {std::tuple{3, 5, 7}, {1, 1, 1}, {2, 0, 4}, {4, 16, 1}})
      test::check_lowering(ctx, maker.f, *targets::find_target(name), {{R, r}, {H, h}, {W, w}, {N, r * h * w}});
  }
}

TEST_CASE("a picture in a frame: columns that are compared and its few channels are one loop") {
  const auto framed = [](ir::Context& ctx, NestMaker& m, int64_t channels, bool bound_is_read) {
    const ir::Sym *H = ctx.declare_sym("H", 0, 99), *W = ctx.declare_sym("W", 0, 99), *L = ctx.declare_sym("L", 0, 9);
    const auto C = m.n(channels), left = ctx.sym(L);
    const uint32_t x = m.array("x", DType::U8, {ctx.sym(H), ctx.sym(W), C}), last = m.array("last", DType::I64, {});
    const uint32_t y = m.output("y", DType::F32, {ctx.add(ctx.sym(H), m.n(3)), ctx.add(ctx.sym(W), m.n(14)), C});
    const auto h = m.dim("h", ctx.add(ctx.sym(H), m.n(3))), w = m.dim("w", ctx.add(ctx.sym(W), m.n(14))), c = m.dim("c", C);
    const Expr *row = ctx.sub(m.at(h), m.n(2)), *column = ctx.sub(m.at(w), left);
    const auto both = [&](const Expr* p, const Expr* q) { return ctx.logical_and(p, q); };
    const Expr* rows = both(ctx.binary(Op::Lt, m.n(1), m.at(h)), ctx.binary(Op::Lt, row, ctx.sym(H)));
    const Expr* columns = both(ctx.binary(Op::Le, left, m.at(w)), ctx.binary(Op::Le, m.at(w), ctx.sub(ctx.add(left, ctx.sym(W)), m.n(1))));
    if (bound_is_read) columns = both(columns, ctx.binary(Op::Lt, m.at(w), m.load(last, {})));
    const Expr* inside = ctx.cast(DType::F32, m.load(x, {row, column, m.at(c)}, ir::Access::Proved));
    m.map({h, w, c}, y, {m.at(h), m.at(w), m.at(c)}, ctx.select(both(rows, columns), inside, f32(ctx, 114)));
    return std::array{H, W, L};
  };
  for (const auto& [channels, bound_is_read, dims] : {std::tuple{int64_t{3}, false, size_t{2}}, {4, false, 2}, {5, false, 3}, {3, true, 3}}) {
    CAPTURE(channels);
    ir::Context ctx;
    NestMaker m(ctx);
    framed(ctx, m, channels, bound_is_read);
    auto flat = lower::flatten(ctx, m.f, *m.f.body[0].nest);
    REQUIRE(flat.ok());
    lower::collapse(ctx, *flat);
    CHECK(flat->dims.size() == dims);
  }
  on_targets([&](const targets::Target& t) {
    for (const int64_t channels : {1, 2, 3, 4, 5}) {
      ir::Context ctx;
      NestMaker m(ctx);
      const auto [H, W, L] = framed(ctx, m, channels, false);
      for (auto [h, w, l] : {std::tuple{5, 7, 0}, {2, 33, 9}, {0, 4, 3}, {3, 0, 5}}) test::check_lowering(ctx, m.f, t, {{H, h}, {W, w}, {L, l}});
    }
  });
}

TEST_CASE("places that are divided out: in 32 bits where they fit, in 64 where they do not") {
  on_targets([](const targets::Target& t) {
    for (const int64_t factor : {int64_t{1}, int64_t{7}, int64_t{1} << 24, int64_t{1} << 25, int64_t{1} << 31, int64_t{1} << 40, -(int64_t{1} << 33)}) {
      ir::Context ctx;
      NestMaker m(ctx);
      const auto N = m.n(37), Q = m.n(11);
      const uint32_t x = m.array("x", DType::F32, {Q}), y = m.output("y", DType::F32, {N}), z = m.output("z", DType::I64, {N});
      const auto i = m.dim("i", N);
      const Expr *at = ctx.add(ctx.mul(m.at(i), ctx.integer(factor)), m.n(5)), *third = ctx.floordiv(at, m.n(3));
      const Expr* is_low = ctx.binary(Op::Lt, third, ctx.integer(factor * 4));
      m.map({i}, y, {m.at(i)}, ctx.select(is_low, m.load(x, {ctx.floormod(at, Q)}), m.load(x, {ctx.floormod(third, Q)})));
      m.map({i}, z, {m.at(i)}, ctx.min(ctx.max(third, ctx.integer(factor)), ctx.floormod(at, ctx.integer((int64_t{1} << 31) + 1))));
      test::check_lowering(ctx, m.f, t);
    }
  });
}

TEST_CASE("integer arithmetic does not trap: division by zero, shifts, wrap-around") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(21);
    uint32_t x = m.array("x", DType::I32, {N}), z = m.array("z", DType::I32, {N}), y = m.output("y", DType::I32, {N});
    auto i = m.dim("i", N);
    const Expr *a = m.load(x, {m.at(i)}), *b = ctx.binary(Op::Sub, m.load(z, {m.at(i)}), ctx.integer(1, DType::I32));
    const Expr* v = ctx.integer(0, DType::I32);
    for (Op op : {Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod})
      v = ctx.binary(Op::Add, ctx.binary(Op::Mul, v, ctx.integer(31, DType::I32)), ctx.binary(op, a, b));
    m.map({i}, y, {m.at(i)}, v);
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("powers with exponents of the run: exact where the result is, whatever the type") {
  // Right at 1 and 0 only: nothing below may come from a logarithm of anything else.
  const lower::MathExpander rough = [](ir::Context& ctx, Op op, const Expr* x) {
    return op == Op::Log ? ctx.binary(Op::Sub, x, ctx.number(1, x->type.dtype)) : test::test_math(ctx, op, x);
  };
  on_targets([&](const targets::Target& t) {
    for (DType type : {DType::F64, DType::F32, DType::I64, DType::I32, DType::U32}) {
      ir::Context ctx;
      NestMaker m(ctx);
      auto N = m.n(12);
      uint32_t x = m.array("x", type, {N}), e = m.array("e", type, {N}), y = m.output("y", type, {N});
      auto i = m.dim("i", N);
      m.map({i}, y, {m.at(i)}, ctx.binary(Op::Pow, m.load(x, {m.at(i)}), m.load(e, {m.at(i)})));
      const bool negative = type != DType::U32;
      const double base[] = {9, 3, 7, 2, 0, 5, 1, 10, 2, negative ? -3. : 3., negative ? -1. : 1., is_float(type) ? 16. : 4.};
      const double exponent[] = {3, 19, 0, 10, 0, 2, 70000, 7, negative ? -1. : 1., 5, 131, is_float(type) ? 0.5 : 2.};
      nest::Tensor bases = nest::Tensor::zeros(type, {12}), exponents = bases;
      for (uint64_t k = 0; k < 12; ++k)
        for (auto [tensor, v] : {std::pair{&bases, base[k]}, {&exponents, exponent[k]}})
          ir::store_element(type, tensor->bytes.data(), k, is_float(type) ? ir::Scalar{0, v} : ir::Scalar{static_cast<int64_t>(v), 0});
      const test::Lowered got = test::run_lowered(ctx, m.f, {bases, exponents}, t, {}, rough);
      const auto want = nest::interpret(m.f, {bases, exponents});
      REQUIRE(want.ok());
      CAPTURE(name_of(type));
      for (uint64_t k = 0; k < 12; ++k) {
        CAPTURE(k);
        const ir::Scalar a = ir::load_element(type, got.outputs[0].bytes.data(), k), b = ir::load_element(type, (*want)[0].bytes.data(), k);
        CHECK(a.i == b.i);
        CHECK(a.f == b.f);
      }
    }
  });
}

TEST_CASE("running folds, both directions, inclusive and exclusive, along either dim") {
  on_targets([](const targets::Target& t) {
    for (int mode = 0; mode < 8; ++mode) {
      ir::Context ctx;
      NestMaker m(ctx);
      auto A = m.n(7), B = m.n(19);
      uint32_t x = m.array("x", DType::F32, {A, B}), y = m.output("y", DType::F32, {A, B});
      auto a = m.dim("a", A), b = m.dim("b", B);
      nest::Nest& n = m.map({a, b}, y, {m.at(a), m.at(b)}, m.load(x, {m.at(a), m.at(b)}));
      n.scan_dim = mode & 1 ? a : b;
      n.scan_combiner = ctx.builtin(Join::Sum);
      n.scan_exclusive = mode & 2;
      n.scan_reverse = mode & 4;
      test::check_lowering(ctx, m.f, t);
    }
  });
}

TEST_CASE("running folds of many columns go along side by side, what is left over as well") {
  const ir::Sym* none = nullptr;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "portable"})
    for (const DType type : {DType::F32, DType::F64})
      for (const int64_t columns : {24, 31, 131, 300})
        for (const bool free : {false, true}) {
          ir::Context ctx;
          NestMaker m(ctx);
          const ir::Sym* S = free ? ctx.declare_sym("B", 0, 1000) : none;
          auto A = m.n(7), B = free ? ctx.sym(S) : m.n(columns);
          uint32_t x = m.array("x", type, {A, B}), y = m.output("y", type, {A, B});
          auto a = m.dim("a", A), b = m.dim("b", B);
          nest::Nest& n = m.map({a, b}, y, {m.at(a), m.at(b)}, m.load(x, {m.at(a), m.at(b)}));
          n.scan_dim = a;
          n.scan_combiner = ctx.builtin(Join::Sum);
          n.scan_exclusive = columns == 131;
          const auto schedules = test::check_lowering(ctx, m.f, target(name), free ? test::Symbols{{S, columns}} : test::Symbols{});
          if (columns == 300) CHECK(schedules.front().find("lanes x8") != std::string::npos);
          if (!free || type != DType::F32) continue;
          auto kernels = lower::lower(ctx, m.f, m.f.body[0], target(name), {});
          REQUIRE(kernels.ok());
          const unsigned lanes = lower::candidates(ctx, m.f, m.f.body[0], target(name))->front().vector_bytes / 4;
          for (unsigned step = 8 * lanes; step >= lanes; step /= 2)
            CHECK(loop::to_string(kernels->back()).find("step " + std::to_string(step) + " {") != std::string::npos);
        }
}

TEST_CASE("light folds of columns go along side by side where nothing is masked") {
  on_targets([](const targets::Target& t) {
    for (const Join join : {Join::Sum, Join::Max})
      for (const int64_t columns : {5, 24, 61, 128})
        for (const bool heavy : {false, true}) {
          ir::Context ctx;
          NestMaker m(ctx);
          auto R = m.n(9), C = m.n(columns);
          uint32_t x = m.array("x", DType::F32, {R, C}), y = m.output("y", DType::F32, {C});
          auto r = m.dim("r", R), c = m.dim("c", C);
          const Expr* element = m.load(x, {m.at(r), m.at(c)});
          m.map({c}, y, {m.at(c)}, m.fold(join, {r}, heavy ? ctx.unary(Op::Exp, element) : element));
          const auto schedules = test::check_lowering(ctx, m.f, t);
          if (columns != 128 || t.name != "x86-64-v3") continue;
          CHECK((schedules.front().find("c:32 lanes") != std::string::npos) == !heavy);
          CHECK((schedules.front().find("c:8 lanes") != std::string::npos) == heavy);
        }
  });
}

TEST_CASE("functions of neighbours go along side by side where nothing is masked, and share their constants") {
  on_targets([](const targets::Target& t) {
    for (const int64_t columns : {3, 24, 61, 128})
      for (const bool plain : {false, true}) {
        ir::Context ctx;
        NestMaker m(ctx);
        auto R = m.n(5), C = m.n(columns);
        uint32_t x = m.array("x", DType::F32, {R, C}), z = m.array("z", DType::F32, {C, R}), y = m.output("y", DType::F32, {R, C});
        auto r = m.dim("r", R), c = m.dim("c", C);
        const Expr* function = ctx.unary(Op::Exp, m.load(x, {m.at(r), m.at(c)}));
        if (!plain) function = ctx.binary(Op::Add, function, m.load(z, {m.at(c), m.at(r)}));
        m.map({r, c}, y, {m.at(r), m.at(c)}, function);
        const auto schedules = test::check_lowering(ctx, m.f, t);
        if (columns != 128 || t.name != "x86-64-v3") continue;
        CHECK((schedules.front().find(":16 lanes") != std::string::npos) == plain);
      }
  });
}

TEST_CASE("what is enlarged by a whole factor is read once and written in turns") {
  on_targets([](const targets::Target& t) {
    for (const int64_t factor : {2, 3, 4, 5})
      for (const int64_t columns : {4, 16, 21, 40})
        for (const bool beside : {false, true}) {
          ir::Context ctx;
          NestMaker m(ctx);
          auto R = m.n(3), C = m.n(columns), wide = m.n(columns * factor), high = m.n(6);
          uint32_t x = m.array("x", DType::F32, {R, C}), s = m.array("s", DType::F32, {wide}), y = m.output("y", DType::F32, {high, wide});
          auto r = m.dim("r", high), c = m.dim("c", wide);
          const Expr* value = m.load(x, {ctx.floordiv(m.at(r), ctx.integer(2)), ctx.floordiv(m.at(c), ctx.integer(factor))});
          if (beside) value = ctx.binary(Op::Mul, value, m.load(s, {m.at(c)}));
          m.map({r, c}, y, {m.at(r), m.at(c)}, value);
          const auto schedules = test::check_lowering(ctx, m.f, t);
          if (columns != 40 || t.name != "x86-64-v3") continue;
          CHECK((schedules.front().find("c.e:8 lanes") != std::string::npos) == (factor <= 4 && !beside));
        }
  });
}

TEST_CASE("places that a fold finds are of 4 bytes while they are below 2^31, those of an empty or unordered row as they were") {
  on_targets([](const targets::Target& t) {
    for (const bool far : {false, true})
      for (const bool along : {false, true}) {
        ir::Context ctx;
        NestMaker m(ctx);
        auto R = m.n(11), C = m.n(37);
        uint32_t x = m.array("x", DType::F32, {R, C}), y = m.output("y", DType::I64, {along ? R : C});
        auto r = m.dim("r", R), c = m.dim("c", C);
        ir::Combiner first{"first_max", Join::Custom, true, {}, {}, {}, {}};
        for (auto* side : {&first.left, &first.right}) *side = {ctx.fresh_var({DType::F32}), ctx.fresh_var({DType::I64})};
        first.units = {f32(ctx, -std::numeric_limits<double>::infinity()), ctx.integer(INT64_MAX)};
        const Expr *av = first.left[0], *aat = first.left[1], *bv = first.right[0], *bat = first.right[1];
        const Expr* tie = ctx.binary(Op::And, ctx.binary(Op::Eq, av, bv), ctx.binary(Op::Lt, bat, aat));
        const Expr* takes = ctx.binary(Op::Or, ctx.binary(Op::Lt, av, bv), tie);
        first.joins = {ctx.select(takes, bv, av), ctx.select(takes, bat, aat)};
        const ir::Dim *fold = along ? c : r, *kept = along ? r : c;
        const Expr* place = far ? ctx.add(m.at(fold), m.n(INT32_MAX - 20)) : m.at(fold);
        const Expr* found = ctx.fold({ctx.declare_combiner(first), {fold}, nullptr}, {m.load(x, {m.at(r), m.at(c)}), place});
        m.map({kept}, y, {m.at(kept)}, ctx.field(found, 1));
        nest::Tensor rows = nest::Tensor::zeros(DType::F32, {11, 37});
        for (uint64_t k = 0; k < 11 * 37; ++k) {  // ties, a row and a column without any number
          const bool none = k / 37 == 3 || k % 37 == 35;
          ir::store_element(DType::F32, rows.bytes.data(), k, ir::Scalar{0, none ? std::nan("") : static_cast<double>(k * 7 % 13)});
        }
        const test::Lowered got = test::run_lowered(ctx, m.f, {rows}, t, {}, test::test_math);
        const auto want = nest::interpret(m.f, {rows});
        REQUIRE(want.ok());
        CHECK(got.outputs[0].bytes == (*want)[0].bytes);
        if (t.is_device()) continue;
        const auto kernels = lower::lower(ctx, m.f, m.f.body[0], t, test::test_math);
        REQUIRE(kernels.ok());
        const std::string text = loop::to_string(kernels->back());
        CHECK((text.find("select.i32") != std::string::npos) == (!far || !along));
      }
  });
}

TEST_CASE("pushes combine in order; the last one wins") {
  on_targets([](const targets::Target& t) {
    for (Join join : {Join::Last, Join::Sum, Join::Max}) {
      ir::Context ctx;
      NestMaker m(ctx);
      auto P = m.n(4), Q = m.n(9), D = m.n(17);
      uint32_t i = m.array("i", DType::I64, {Q}), u = m.array("u", DType::F32, {Q, D}),
               y = m.output("y", DType::F32, {P, D});
      auto p = m.dim("p", P), q = m.dim("q", Q), d = m.dim("d", D), e = m.dim("e", D);
      m.map({p, e}, y, {m.at(p), m.at(e)}, f32(ctx, 0.5));
      nest::Nest& n = m.map({q, d}, y, {m.load(i, {m.at(q)}), m.at(d)}, m.load(u, {m.at(q), m.at(d)}));
      n.writes[0].push = true;
      n.writes[0].join = join;
      test::check_lowering(ctx, m.f, t);
    }
  });
}

TEST_CASE("nested folds whose inner bounds depend on the outer dim") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(13);
    uint32_t x = m.array("x", DType::F32, {N, N}), y = m.output("y", DType::F32, {N});
    auto i = m.dim("i", N), j = m.dim("j", N), k = m.dim("k", N);
    // sum over the upper triangle to the left of i
    const Expr* where = ctx.binary(Op::And, ctx.binary(Op::Le, m.at(j), m.at(i)), ctx.binary(Op::Lt, m.at(k), m.at(j)));
    m.map({i}, y, {m.at(i)}, m.fold(Join::Sum, {j, k}, m.load(x, {m.at(j), m.at(k)}), where));
    test::check_lowering(ctx, m.f, t);
  });
}

TEST_CASE("random small nests agree with the interpreter") {
  std::mt19937 rng(20261120);
  for (int round = 0; round < 60; ++round) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto pick = [&](int n) { return static_cast<int64_t>(rng() % static_cast<unsigned>(n)); };
    // Two or three map dims, up to two fold dims; operands with random subsets of dims, strides and layouts.
    test::Dims maps, folds;
    std::vector<const Expr*> shape, index;
    for (int64_t k = 0, n = 1 + pick(3); k < n; ++k) {
      maps.push_back(m.dim("m" + std::to_string(k), m.n(1 + pick(20))));
      shape.push_back(maps.back()->extent);
      index.push_back(m.at(maps.back()));
    }
    for (int64_t k = 0, n = pick(3); k < n; ++k) folds.push_back(m.dim("f" + std::to_string(k), m.n(1 + pick(9))));
    auto operand = [&] {
      std::vector<const Expr*> at, extents;
      test::Dims all = maps;
      all.insert(all.end(), folds.begin(), folds.end());
      std::shuffle(all.begin(), all.end(), rng);
      for (size_t k = 0; k < all.size() && at.size() < 3; ++k) {
        if (pick(3) == 0) continue;
        int64_t stride = 1 + pick(2), shift = pick(3);
        at.push_back(ctx.add(ctx.mul(m.at(all[k]), m.n(stride)), m.n(shift)));
        extents.push_back(m.n((all[k]->extent->i - 1) * stride + shift + 1 + pick(3)));
      }
      if (at.empty()) at.push_back(m.n(0)), extents.push_back(m.n(1));
      uint32_t a = m.array("a" + std::to_string(m.f.arrays.size()), DType::F32, extents);
      if (extents.size() == 3 && pick(2)) m.f.arrays[a].layout = nest::permuted({0, 2, 1});
      return m.load(a, at);
    };
    const Expr* body = ctx.binary(pick(2) ? Op::Mul : Op::Add, operand(), operand());
    const Expr* where = nullptr;
    if (!folds.empty()) {
      if (pick(2)) where = ctx.binary(Op::Le, m.at(folds[0]), ctx.add(m.at(maps[0]), m.n(pick(4))));
      if (pick(3) == 0)
        where = ctx.binary(Op::Eq, ctx.floormod(ctx.add(m.at(folds[0]), m.at(maps.back())), m.n(2)), m.n(0));
      body = m.fold(pick(2) ? Join::Sum : Join::Max, folds, body, where);
      body = ctx.binary(Op::Max, body, f32(ctx, -5));  // a maximum of nothing is -inf
    }
    folds.clear();  // operands outside of the fold know the map dims only
    const Expr* v = ctx.binary(Op::Add, body, operand());
    if (pick(2)) v = ctx.select(ctx.binary(Op::Lt, m.at(maps.back()), m.n(pick(20))), v, f32(ctx, 2));
    uint32_t y = m.output("y", DType::F32, shape);
    m.map(maps, y, index, v);
    on_targets([&](const targets::Target& t) { test::check_lowering(ctx, m.f, t, {}, static_cast<uint32_t>(round)); });
  }
}

TEST_CASE("the text of a function reads its argument once, however often it names it") {
  // Nested selects, as logarithms and powers have: a load under each condition would double with every level.
  const lower::MathExpander nested = [](ir::Context& ctx, Op op, const Expr* x) -> const Expr* {
    if (op != Op::Log) return nullptr;
    const Expr* r = x;
    for (int k = 0; k < 12; ++k)
      r = ctx.select(ctx.binary(Op::Lt, ctx.binary(Op::Mul, x, f32(ctx, k)), f32(ctx, 3)), ctx.binary(Op::Add, r, x), ctx.binary(Op::Mul, r, x));
    return r;
  };
  on_targets([&](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = ctx.sym(ctx.declare_sym("N", 1, 4096));
    uint32_t x = m.array("x", DType::F32, {N}), y = m.output("y", DType::F32, {N});
    auto i = m.dim("i", N);
    m.map({i}, y, {m.at(i)}, ctx.unary(Op::Log, m.load(x, {m.at(i)})));
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], t, nested);
    REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
    size_t loads = 0;
    const std::string text = loop::to_string((*kernels)[0]);
    for (size_t at = 0; (at = text.find("(load", at)) != std::string::npos; ++at) ++loads;
    CHECK(loads <= 4);  // whole vectors, the rest, a scalar
  });
}
