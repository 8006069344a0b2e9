#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

template <class F>
void on_targets(F f) {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"})
    f(*targets::find_target(name));
}

// Average or maximum over windows, channels last or first; the average divides by the number of taps inside.
void pool(NestMaker& m, bool average, const Expr* H, const Expr* W, int64_t channels, int64_t k, int64_t stride,
          int64_t pad, bool channels_first = false) {
  ir::Context& ctx = m.ctx;
  auto out = [&](const Expr* in) { return ctx.add(ctx.floordiv(ctx.add(in, m.n(2 * pad - k)), m.n(stride)), m.n(1)); };
  const Expr *C = m.n(channels), *P = out(H), *Q = out(W);
  uint32_t x = m.array("x", DType::F32, {C, H, W}), y = m.output("y", DType::F32, {C, P, Q});
  if (!channels_first) m.f.arrays[x].layout = m.f.arrays[y].layout = nest::permuted({1, 2, 0});
  auto c = m.dim("c", C), p = m.dim("p", P), q = m.dim("q", Q), u = m.dim("u", m.n(k)), v = m.dim("v", m.n(k));
  auto place = [&](auto o, auto t) { return ctx.add(ctx.add(ctx.mul(m.at(o), m.n(stride)), m.at(t)), m.n(-pad)); };
  const Expr *ih = place(p, u), *iw = place(q, v);
  const Expr* where = ctx.binary(Op::And, m.within(ih, H), m.within(iw, W));
  const Expr* load = m.load(x, {m.at(c), ih, iw});
  const Expr* value = m.fold(average ? ir::Join::Sum : ir::Join::Max, {u, v}, load, where);
  if (average && !channels_first) value = ctx.binary(Op::Div, value, m.fold(ir::Join::Sum, {u, v}, ctx.number(1, DType::F32), where));
  m.map({c, p, q}, y, {m.at(c), m.at(p), m.at(q)}, value, "pool");
}

}  // namespace

TEST_CASE("depthwise convolutions become stencils and agree") {
  on_targets([](const targets::Target& t) {
    for (NestMaker::Conv p :
         {NestMaker::Conv{.h = 7, .w = 7, .c = 32, .m = 32, .group = 32},
          {.h = 5, .w = 21, .c = 20, .m = 20, .stride = 2, .group = 20},
          {.n = 2, .h = 9, .w = 9, .c = 19, .m = 19, .kh = 5, .kw = 5, .pad = 2, .group = 19},
          {.h = 4, .w = 3, .c = 16, .m = 16, .kh = 5, .kw = 5, .pad = 2, .group = 16},
          {.h = 12, .w = 12, .c = 16, .m = 16, .pad = 2, .dilation = 2, .group = 16, .residual = true},
          {.h = 6, .w = 18, .c = 17, .m = 17, .pad = 0, .group = 17},
          {.h = 3, .w = 50, .c = 16, .m = 16, .group = 16},
          {.h = 3, .w = 40, .c = 17, .m = 17, .kh = 31, .kw = 31, .pad = 15, .group = 17},
          {.h = 4, .w = 9, .c = 16, .m = 16, .kh = 21, .kw = 21, .pad = 10, .group = 16},  // some taps reach no point
          {.h = 2, .w = 61, .c = 16, .m = 16, .kh = 19, .kw = 19, .stride = 2, .pad = 30, .dilation = 3, .group = 16}}) {
      p.panels = false;
      ir::Context ctx;
      NestMaker m(ctx);
      m.conv(p);
      CAPTURE(p.h);
      CAPTURE(p.c);
      CHECK(test::check_lowering(ctx, m.f, t).back().find("window") == 0);
    }
  });
}

TEST_CASE("a depthwise convolution of symbolic size") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
    m.conv({.c = 24, .m = 24, .group = 24, .panels = false}, ctx.sym(H), ctx.sym(W));
    for (auto [h, w] : {std::pair{1, 1}, {2, 2}, {1, 9}, {5, 12}, {3, 30}})
      CHECK(test::check_lowering(ctx, m.f, t, {{H, h}, {W, w}}).back().find("window") == 0);
  });
}

TEST_CASE("a depthwise convolution with many taps, of symbolic size") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
    m.conv({.c = 16, .m = 16, .kh = 19, .kw = 19, .pad = 9, .group = 16, .panels = false}, ctx.sym(H), ctx.sym(W));
    for (auto [h, w] : {std::pair{1, 1}, {2, 12}, {1, 17}, {1, 18}, {1, 19}, {3, 41}}) {
      const auto schedule = test::check_lowering(ctx, m.f, t, {{H, h}, {W, w}}).back();
      CHECK(schedule.find("window") == 0);
      CHECK(schedule.find("rows one peel") != schedule.npos);  // edges are blocks, too
    }
  });
}

TEST_CASE("images that are expected to be large keep channels innermost") {
  on_targets([](const targets::Target& t) {
    for (int64_t c : {144, 131}) {  // free sizes count as 64 x 64: more than two megabytes
      ir::Context ctx;
      NestMaker m(ctx);
      const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
      m.conv({.c = c, .m = c, .group = c, .panels = false}, ctx.sym(H), ctx.sym(W));
      for (auto [h, w] : {std::pair{1, 1}, {3, 11}})
        CHECK(test::check_lowering(ctx, m.f, t, {{H, h}, {W, w}}).back().find("window") == 0);
    }
  });
}

TEST_CASE("pooling, maximum and average, of constant and symbolic size") {
  on_targets([](const targets::Target& t) {
    for (bool average : {false, true})
      for (auto [h, w, c, k, stride, pad] :
           {std::tuple{8, 8, 16, 2, 2, 0}, {9, 11, 20, 3, 2, 1}, {6, 7, 33, 3, 1, 1}, {5, 5, 16, 5, 1, 2}}) {
        ir::Context ctx;
        NestMaker fixed(ctx);
        pool(fixed, average, fixed.n(h), fixed.n(w), c, k, stride, pad);
        test::check_lowering(ctx, fixed.f, t);
        NestMaker free(ctx);
        const ir::Sym *H = ctx.declare_sym("H", 5, 4096), *W = ctx.declare_sym("W", 5, 4096);
        pool(free, average, ctx.sym(H), ctx.sym(W), c, k, stride, pad);
        test::check_lowering(ctx, free.f, t, {{H, h}, {W, w}});
      }
  });
}

TEST_CASE("windows that slide along the vectors too have borders of their own") {
  on_targets([](const targets::Target& t) {
    for (bool sum : {false, true})
      for (auto [h, w, c, k, stride, pad] : {std::tuple{9, 56, 2, 3, 2, 1}, {11, 37, 3, 3, 1, 1}, {20, 20, 2, 5, 1, 2}, {7, 6, 2, 3, 2, 1},
                                             {5, 5, 1, 5, 1, 2}, {12, 70, 2, 3, 3, 2}, {6, 130, 1, 2, 1, 1}}) {
        CAPTURE(w);
        CAPTURE(stride);
        ir::Context ctx;
        NestMaker fixed(ctx);
        pool(fixed, sum, fixed.n(h), fixed.n(w), c, k, stride, pad, true);
        const auto schedule = test::check_lowering(ctx, fixed.f, t).back();
        if (w >= 20 && t.vector_bytes >= 16) CHECK(schedule.find("window") == 0);
        NestMaker free(ctx);
        const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
        pool(free, sum, ctx.sym(H), ctx.sym(W), c, k, stride, pad, true);
        test::check_free_lowering(ctx, free.f, t, {{{H, std::max(h, k)}, {W, w}}, {{H, k}, {W, k}}, {{H, std::max(3, k)}, {W, 100}}});
      }
  });
}

TEST_CASE("of a row of unknown length only the last part has points behind whole vectors") {
  on_targets([](const targets::Target& t) {
    if (t.vector_bytes != 16) return;  // others mask the rest
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
    pool(m, true, ctx.sym(H), ctx.sym(W), 2, 3, 1, 1, true);
    const auto kernels = test::lower_all(ctx, m.f, t, test::test_math);
    const loop::Kernel& kernel = kernels.at(0).at(0);
    REQUIRE(kernel.schedule.find("window") == 0);
    const std::string text = loop::to_string(kernel);
    size_t points = 0;  // accumulators of one element
    for (size_t at = text.find(".f32 = f32:0x0p+0"); at != std::string::npos; at = text.find(".f32 = f32:0x0p+0", at + 1)) ++points;
    CHECK(points > 0);
    CHECK(points <= 8 + 3);  // a block of eight rows at most; rows before, between and behind blocks
  });
}

TEST_CASE("a long window along the vectors alone is a loop over its taps") {
  on_targets([](const targets::Target& t) {
    for (const auto& [w, taps, dilation] : {std::tuple<int64_t, int64_t, int64_t>{70, 31, 1}, {37, 19, 2}, {130, 64, 1}, {24, 31, 1}}) {
      CAPTURE(w);
      CAPTURE(taps);
      ir::Context ctx;
      const auto slide = [&, d = dilation, k = taps](NestMaker& m, const Expr* H, const Expr* W) {
        const Expr *C = m.n(3), *K = m.n(k);
        const uint32_t x = m.array("x", DType::F32, {C, H, W}), weights = m.array("w", DType::F32, {C, K}), y = m.output("y", DType::F32, {C, H, W});
        auto c = m.dim("c", C), p = m.dim("p", H), q = m.dim("q", W), v = m.dim("v", K);
        const Expr* at = ctx.sub(ctx.add(m.at(q), ctx.mul(m.n(d), m.at(v))), m.n(k / 2 * d));
        const Expr* product = ctx.binary(Op::Mul, m.load(x, {m.at(c), m.at(p), at}), m.load(weights, {m.at(c), m.at(v)}));
        m.map({c, p, q}, y, {m.at(c), m.at(p), m.at(q)}, m.fold(ir::Join::Sum, {v}, product, m.within(at, W)));
      };
      NestMaker fixed(ctx);
      slide(fixed, fixed.n(9), fixed.n(w));
      const auto schedule = test::check_lowering(ctx, fixed.f, t).back();
      if (t.vector_bytes >= 16) CHECK(schedule.find("window") == 0);
      NestMaker free(ctx);
      const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
      slide(free, ctx.sym(H), ctx.sym(W));
      test::check_free_lowering(ctx, free.f, t, {{{H, 9}, {W, w}}, {{H, 1}, {W, 3}}, {{H, 17}, {W, 100}}});
    }
  });
}
