#include "packager/passes/all.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
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
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+amx", "armv8-a", "rv64gc", "portable"}) f(target(name));
}

void check_contraction(ir::Context& ctx, const nest::Function& f, const targets::Target& t,
                       const test::Symbols& symbols = {}) {
  auto schedules = test::check_lowering(ctx, f, t, symbols);
  CHECK((schedules.back().starts_with("product") || schedules.back().starts_with("thin")));
}

// A convolution with few output channels as layouts are assigned: weights with the input channels innermost, the result as a model's output.
void few_channels(NestMaker& maker, const NestMaker::Conv& p, bool rows_side_by_side, const Expr* H = nullptr, const Expr* W = nullptr) {
  maker.conv(p, H, W);
  for (nest::Array& a : maker.f.arrays) {
    if (a.name == "w") a.layout = nest::permuted({2, 3, 0, 1});
    if (a.name == "y" && rows_side_by_side) a.layout = {};
  }
}

}  // namespace

TEST_CASE("products of many sizes, weights in panels or as rows") {
  on_targets([](const targets::Target& t) {
    for (bool panels : {true, false})
      for (auto [m, k, n] : {std::tuple{1, 9, 16},
                             {1, 40, 30},
                             {2, 3, 5},
                             {7, 16, 32},
                             {8, 17, 33},
                             {13, 5, 48},
                             {29, 12, 129},
                             {6, 2, 24},
                             {15, 9, 40},
                             {7, 4, 8},
                             {20, 6, 21},
                             {5, 100, 7}}) {
        ir::Context ctx;
        NestMaker maker(ctx);
        maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels);
        CAPTURE(m);
        CAPTURE(k);
        CAPTURE(n);
        check_contraction(ctx, maker.f, t);
      }
  });
}

TEST_CASE("columns that fill no more than half of a wide vector are half a vector") {
  const auto text = [](int64_t n) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(14), maker.n(9), maker.n(n), /*panels=*/true);
    auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], target("x86-64-v4"), {});
    REQUIRE(kernels.ok());
    return loop::to_string(kernels->back());
  };
  const auto has = [](const std::string& kernel, const char* type) { return kernel.find(type) != std::string::npos; };
  for (const int64_t n : {5, 8}) CHECK((has(text(n), "f32x8") && !has(text(n), "f32x16")));
  for (const int64_t n : {21, 24, 40}) CHECK((has(text(n), "f32x8") && has(text(n), "f32x16")));
  for (const int64_t n : {9, 16, 25, 48}) CHECK((!has(text(n), "f32x8") && has(text(n), "f32x16")));
}

TEST_CASE("weights beyond L2 are fetched ahead, and long ones go by in parts") {
  const auto lowered = [](int64_t k, int64_t n, int64_t m) {
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym* rows = ctx.declare_sym("rows", 0, 1 << 20, 1);
    maker.matmul(ctx.sym(rows), maker.n(k), maker.n(n), /*panels=*/true);
    check_contraction(ctx, maker.f, target("x86-64-v4"), {{rows, m}});
    auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], target("x86-64-v4"), {});
    REQUIRE(kernels.ok());
    return std::pair(kernels->back().schedule, loop::to_string(kernels->back()));
  };
  for (int64_t rows : {0, 5, 17, 64}) {
    const auto [schedule, text] = lowered(2064, 80, rows);
    CHECK(schedule.find(" depth ") != std::string::npos);
    CHECK(text.find("prefetch") != std::string::npos);
  }
  CHECK(lowered(2064, 72, 17).first.find(" depth ") != std::string::npos);  // with half a vector behind
  const auto [schedule, text] = lowered(100, 80, 7);
  CHECK(schedule.find(" depth ") == std::string::npos);
  CHECK(text.find("prefetch") == std::string::npos);
  CHECK(lowered(2065, 80, 7).first.find(" depth ") == std::string::npos);  // no parts of one length
}

TEST_CASE("factors of 16 bits are converted in registers") {
  on_targets([](const targets::Target& t) {
    for (DType factors : {DType::F16, DType::BF16})
      for (bool panels : {true, false})
        for (auto [m, k, n] : {std::tuple{1, 40, 30}, {7, 16, 32}, {13, 5, 49}}) {
          ir::Context ctx;
          NestMaker maker(ctx);
          maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels, true, factors);
          CAPTURE(m);
          CAPTURE(k);
          CAPTURE(n);
          check_contraction(ctx, maker.f, t);
        }
  });
}

TEST_CASE("products in double precision have tiles of their own, as wide as a vector of doubles") {
  on_targets([](const targets::Target& t) {
    for (bool panels : {true, false})
      for (auto [m, k, n] : {std::tuple{1, 9, 16}, {1, 40, 30}, {2, 3, 5}, {7, 16, 32}, {13, 5, 49}, {29, 12, 129}, {15, 9, 40}, {7, 4, 8}, {3, 300, 70}}) {
        ir::Context ctx;
        NestMaker maker(ctx);
        maker.type = DType::F64;
        maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels);
        CAPTURE(m);
        CAPTURE(n);
        check_contraction(ctx, maker.f, t);
      }
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.type = DType::F64;
    const ir::Sym *M = ctx.declare_sym("M", 0, 4096), *K = ctx.declare_sym("K", 0, 4096), *N = ctx.declare_sym("N", 0, 4096);
    maker.matmul(ctx.sym(M), ctx.sym(K), ctx.sym(N), /*panels=*/false);
    for (auto [m, k, n] : {std::tuple{0, 4, 4}, {1, 1, 1}, {5, 0, 7}, {9, 7, 16}, {15, 10, 47}, {4, 4, 0}})
      check_contraction(ctx, maker.f, t, {{M, m}, {K, k}, {N, n}});
  });
}

TEST_CASE("convolutions in double precision; with few columns vectors run along k") {
  on_targets([](const targets::Target& t) {
    for (NestMaker::Conv p : {NestMaker::Conv{.h = 7, .w = 9, .c = 5, .m = 19},
                              {.h = 9, .w = 9, .c = 8, .m = 16, .stride = 2, .residual = true},
                              {.h = 11, .w = 8, .c = 12, .m = 48, .pad = 2, .dilation = 2, .group = 3}}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.type = DType::F64;
      maker.conv(p);
      check_contraction(ctx, maker.f, t);
    }
    for (int64_t m : {1, 3}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.type = DType::F64;
      const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
      few_channels(maker, {.c = 21, .m = m}, true, ctx.sym(H), ctx.sym(W));
      test::check_free_lowering(ctx, maker.f, t, {{{H, 1}, {W, 1}}, {{H, 3}, {W, 7}}, {{H, 4}, {W, 13}}, {{H, 2}, {W, 40}}});
    }
  });
}

TEST_CASE("one kernel for all values of symbolic rows, depth and columns") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym *M = ctx.declare_sym("M", 0, 4096), *K = ctx.declare_sym("K", 0, 4096),
                  *N = ctx.declare_sym("N", 0, 4096);
    maker.matmul(ctx.sym(M), ctx.sym(K), ctx.sym(N), /*panels=*/false);
    for (auto [m, k, n] : {std::tuple{0, 4, 4}, {1, 1, 1}, {5, 0, 7}, {9, 7, 16}, {15, 10, 47}, {50, 3, 17}, {4, 4, 0}})
      check_contraction(ctx, maker.f, t, {{M, m}, {K, k}, {N, n}});
  });
}

TEST_CASE("a free product of one column, or of one row, is a kernel of its own, and one has the points") {
  on_targets([](const targets::Target& t) {
    for (const bool turned : {false, true}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      const ir::Sym *M = ctx.declare_sym("M", 0, 4096), *K = ctx.declare_sym("K", 0, 4096), *N = ctx.declare_sym("N", 0, 4096);
      const uint32_t a = maker.array("a", DType::F32, {ctx.sym(M), ctx.sym(K)});
      const uint32_t b = maker.array("b", DType::F32, turned ? std::vector{ctx.sym(N), ctx.sym(K)} : std::vector{ctx.sym(K), ctx.sym(N)});
      const uint32_t y = maker.output("y", DType::F32, {ctx.sym(M), ctx.sym(N)});
      auto m = maker.dim("m", ctx.sym(M)), n = maker.dim("n", ctx.sym(N)), k = maker.dim("k", ctx.sym(K));
      const Expr* of_b = turned ? maker.load(b, {maker.at(n), maker.at(k)}) : maker.load(b, {maker.at(k), maker.at(n)});
      const Expr* each = ctx.binary(Op::Mul, maker.load(a, {maker.at(m), maker.at(k)}), of_b);
      maker.map({m, n}, y, {maker.at(m), maker.at(n)}, maker.fold(ir::Join::Sum, {k}, each), "product");
      for (auto [rows, depth, columns] : {std::tuple{1, 37, 1}, {1, 37, 19}, {9, 37, 1}, {9, 5, 19}, {0, 4, 1}, {1, 4, 0}, {1, 0, 1}, {2, 16, 2}})
        test::check_lowering(ctx, maker.f, t, {{M, rows}, {K, depth}, {N, columns}});
      const auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], t, {});
      REQUIRE(kernels.ok());
      std::vector<std::string> names;
      for (const loop::Kernel& kernel : *kernels) names.push_back(kernel.name);
      CHECK(names == (turned ? std::vector<std::string>{"product.column", "product.row", "product.pack", "product.pack.last", "product"}
                             : std::vector<std::string>{"product.column", "product.row", "product"}));
    }
  });
}

TEST_CASE("one row reads a panel at a time, or several lines of a row where columns are in no panels") {
  for (const auto& [target, panel, lines] : {std::tuple{"x86-64-v4", 1, 8}, {"x86-64-v3", 2, 8}, {"x86-64-v2", 4, 8}})
    for (const bool panels : {false, true}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(1), maker.n(40), maker.n(261), panels);
      const auto schedules = test::check_lowering(ctx, maker.f, *targets::find_target(target));
      const std::string vectors = " x" + std::to_string(panels ? panel : lines);
      CHECK_MESSAGE(schedules.back().find(vectors) != std::string::npos, schedules.back());
    }
}

TEST_CASE("convolutions: strides, padding, dilation, groups, odd maps, residuals") {
  std::mt19937 rng(7);
  on_targets([&](const targets::Target& t) {
    for (NestMaker::Conv p : {NestMaker::Conv{.h = 7, .w = 7, .c = 5, .m = 16},
                              {.h = 9, .w = 14, .c = 3, .m = 32, .stride = 2},
                              {.h = 6, .w = 30, .c = 8, .m = 24, .residual = true},
                              {.h = 10, .w = 10, .c = 4, .m = 16, .pad = 2, .dilation = 2},
                              {.h = 8, .w = 15, .c = 3, .m = 17, .kh = 7, .kw = 7, .stride = 2, .pad = 3},
                              {.h = 5, .w = 5, .c = 12, .m = 40, .kh = 1, .kw = 1, .pad = 0},
                              {.n = 2, .h = 5, .w = 6, .c = 4, .m = 16},
                              {.h = 6, .w = 6, .c = 6, .m = 32, .group = 2},
                              {.h = 6, .w = 9, .c = 7, .m = 16, .kh = 1, .kw = 1, .stride = 2, .pad = 0},
                              {.h = 4, .w = 22, .c = 3, .m = 16, .channels_last = false},
                              {.h = 3, .w = 1, .c = 4, .m = 16},
                              {.h = 2, .w = 3, .c = 4, .m = 16, .kh = 5, .kw = 5, .pad = 2}}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.conv(p);
      CAPTURE(p.h);
      CAPTURE(p.w);
      CAPTURE(p.m);
      check_contraction(ctx, maker.f, t);
    }
  });
}

namespace {

void check_along_k(ir::Context& ctx, const nest::Function& f, const targets::Target& t, const test::Symbols& symbols = {}) {
  auto schedules = test::check_lowering(ctx, f, t, symbols);
  if (t.f32_lanes() >= 4) CHECK(schedules.back().starts_with("thin"));
}

}  // namespace

TEST_CASE("few columns that lie across the fold are packed along it, whatever its length") {
  on_targets([](const targets::Target& t) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{19, 2}, {40, 3}, {2, 3}, {9, 1}})
      for (const int64_t k : {5, 16, 37, 4}) {
        CAPTURE(n);
        CAPTURE(k);
        ir::Context ctx;
        NestMaker fixed(ctx);
        fixed.matmul(ctx.integer(rows), ctx.integer(k), ctx.integer(n), /*panels=*/false);
        const std::string schedule = test::check_lowering(ctx, fixed.f, t).back();
        if (t.vector_bytes >= 16 && n > 1) CHECK(schedule.find("thin") == 0);
        NestMaker free(ctx);
        const ir::Sym *M = ctx.declare_sym("M", 0, 4096), *K = ctx.declare_sym("K", 0, 4096);
        free.matmul(ctx.sym(M), ctx.sym(K), ctx.integer(n), /*panels=*/false);
        test::check_free_lowering(ctx, free.f, t, {{{M, rows}, {K, k}}, {{M, 1}, {K, 50}}, {{M, 3}, {K, 0}}, {{M, 0}, {K, 7}}});
      }
  });
}

TEST_CASE("with few columns vectors run along k") {
  on_targets([](const targets::Target& t) {
    for (bool side_by_side : {true, false})
      for (NestMaker::Conv p : {NestMaker::Conv{.h = 7, .w = 7, .c = 16, .m = 1},
                                {.h = 5, .w = 19, .c = 20, .m = 2},
                                {.h = 4, .w = 26, .c = 32, .m = 3, .residual = true},
                                {.h = 9, .w = 9, .c = 8, .m = 3, .kh = 7, .kw = 7, .stride = 2, .pad = 3},
                                {.h = 5, .w = 5, .c = 12, .m = 4, .kh = 1, .kw = 1, .pad = 0},
                                {.h = 3, .w = 2, .c = 4, .m = 3, .kh = 5, .kw = 5, .pad = 2},
                                {.h = 6, .w = 9, .c = 33, .m = 1},  // what is left over along k is a vector of fewer
                                {.h = 5, .w = 11, .c = 7, .m = 3, .residual = true},
                                {.h = 4, .w = 8, .c = 21, .m = 4, .stride = 2},
                                {.h = 6, .w = 6, .c = 64, .m = 4, .group = 2}}) {
        ir::Context ctx;
        NestMaker maker(ctx);
        few_channels(maker, p, side_by_side);
        CAPTURE(p.c);
        CAPTURE(p.m);
        check_along_k(ctx, maker.f, t);
      }
  });
}

TEST_CASE("few columns, and height and width are symbols") {
  on_targets([](const targets::Target& t) {
    for (int64_t m : {1, 3}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      const ir::Sym *H = ctx.declare_sym("H", 1, 4096), *W = ctx.declare_sym("W", 1, 4096);
      few_channels(maker, {.c = 16, .m = m}, true, ctx.sym(H), ctx.sym(W));
      for (auto [h, w] : {std::pair{1, 1}, {3, 7}, {4, 13}, {2, 40}}) check_along_k(ctx, maker.f, t, {{H, h}, {W, w}});
    }
  });
}

TEST_CASE("few columns and a long epilogue, which runs over several rows at once") {
  on_targets([](const targets::Target& t) {
    for (bool side_by_side : {true, false}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      few_channels(maker, {.h = 3, .w = 21, .c = 16, .m = 3}, side_by_side);
      nest::Write& w = maker.f.body[0].nest->writes[0];
      for (int k = 0; k < 2; ++k)
        w.value = ctx.binary(Op::Div, w.value, ctx.binary(Op::Add, ctx.number(1, DType::F32), ctx.unary(Op::Exp, ctx.unary(Op::Neg, w.value))));
      check_along_k(ctx, maker.f, t);
    }
  });
}

TEST_CASE("a convolution of one channel is a contraction over its taps") {
  on_targets([](const targets::Target& t) {
    for (NestMaker::Conv p : {NestMaker::Conv{.h = 9, .w = 12, .c = 1, .m = 32, .kh = 5, .kw = 5, .pad = 2}, {.h = 6, .w = 7, .c = 1, .m = 20, .stride = 2}}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.conv(p);
      for (nest::Array& a : maker.f.arrays)
        if (a.name == "w") a.layout.pieces = {{2, 1, 0}, {0, 16, 0}, {3, 1, 0}, {0, 1, 16}};
      check_contraction(ctx, maker.f, t);
    }
  });
}

TEST_CASE("convolutions whose batch, height and width are symbols") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym *B = ctx.declare_sym("B", 0, 64), *H = ctx.declare_sym("H", 1, 4096),
                  *W = ctx.declare_sym("W", 1, 4096);
    maker.conv({.c = 3, .m = 20}, ctx.sym(H), ctx.sym(W), ctx.sym(B));
    for (auto [b, h, w] : {std::tuple{0, 3, 3}, {1, 1, 1}, {1, 3, 7}, {2, 4, 13}, {1, 2, 40}})
      check_contraction(ctx, maker.f, t, {{B, b}, {H, h}, {W, w}});
  });
}

TEST_CASE("a row alone is there or is not, and no tile is higher than the row can be long") {
  ir::Context ctx;
  const ir::Sym* W = ctx.declare_sym("W", 1, 4096);
  const Expr* free = ctx.sym(W);
  const auto parts_of_tiles = [&](const Expr* width) {
    NestMaker maker(ctx);
    maker.conv({.h = 3, .c = 40, .m = 16}, nullptr, width);
    for (int64_t w : {1, 2, 3, 4, 7, 13}) check_contraction(ctx, maker.f, target("x86-64-v3"), {{W, w}});
    const auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], target("x86-64-v3"), {});
    REQUIRE(kernels.ok());
    size_t parts = 0;
    const std::string text = loop::to_string(kernels->back());
    for (size_t at = 0; (at = text.find("else", at)) != text.npos; ++at) ++parts;
    return parts;
  };
  CHECK(parts_of_tiles(free) == 5);  // of heights 2 to 6
  CHECK(parts_of_tiles(ctx.min(free, ctx.integer(3))) == 2);
}

TEST_CASE("both products of attention, heads interleaved, the keys packed on the way") {
  on_targets([](const targets::Target& t) {
    for (bool symbolic : {false, true})
      for (int64_t len : {9, 37}) {
        ir::Context ctx;
        NestMaker m(ctx);
        const ir::Sym* S = ctx.declare_sym("S", 1, 512);
        const Expr* L = symbolic ? ctx.sym(S) : m.n(len);
        auto B = m.n(2), H = m.n(2), D = m.n(8);
        uint32_t q = m.array("q", DType::F32, {B, L, H, D}), k = m.array("k", DType::F32, {B, L, H, D}),
                 v = m.array("v", DType::F32, {B, L, H, D});
        uint32_t s = m.output("s", DType::F32, {B, H, L, L}), o = m.output("o", DType::F32, {B, L, H, D});
        auto dim = [&](const char* name, const Expr* e) { return m.dim(name, e); };
        {
          auto b = dim("b", B), h = dim("h", H), i = dim("i", L), j = dim("j", L), d = dim("d", D);
          const Expr* sum = m.fold(ir::Join::Sum, {d},
                                   ctx.binary(Op::Mul, m.load(q, {m.at(b), m.at(i), m.at(h), m.at(d)}),
                                              m.load(k, {m.at(b), m.at(j), m.at(h), m.at(d)})));
          m.map({b, h, i, j}, s, {m.at(b), m.at(h), m.at(i), m.at(j)},
                ctx.binary(Op::Mul, sum, ctx.number(0.35, DType::F32)));
        }
        {
          auto b = dim("b", B), h = dim("h", H), i = dim("i", L), j = dim("j", L), d = dim("d", D);
          const Expr* sum = m.fold(ir::Join::Sum, {j},
                                   ctx.binary(Op::Mul, m.load(s, {m.at(b), m.at(h), m.at(i), m.at(j)}),
                                              m.load(v, {m.at(b), m.at(j), m.at(h), m.at(d)})));
          m.map({b, i, h, d}, o, {m.at(b), m.at(i), m.at(h), m.at(d)}, sum);
        }
        auto schedules = test::check_lowering(ctx, m.f, t, {{S, len}}, 1, 1e-4);
        if (t.machine != Machine::RiscV64) CHECK(schedules.back().find("product") == 0);
      }
  });
}

TEST_CASE("a product whose epilogue stores across: output with the columns outermost") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    m.matmul(m.n(11), m.n(6), m.n(21));
    m.f.arrays[m.f.outputs[0]].layout = nest::permuted({1, 0});
    check_contraction(ctx, m.f, t);
  });
}

TEST_CASE("a long epilogue runs over the tile in scratch memory") {
  on_targets([](const targets::Target& t) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym* M = ctx.declare_sym("M", 0, 4096);
    m.matmul(ctx.sym(M), m.n(5), m.n(37));
    nest::Write& w = m.f.body[0].nest->writes[0];
    const Expr* x = w.value;  // x / (1 + exp(-x)), twice
    for (int k = 0; k < 2; ++k)
      x = ctx.binary(Op::Div, x,
                     ctx.binary(Op::Add, ctx.number(1, DType::F32), ctx.unary(Op::Exp, ctx.unary(Op::Neg, x))));
    w.value = x;
    for (int64_t rows : {0, 1, 9, 20}) check_contraction(ctx, m.f, t, {{M, rows}});
  });
}

TEST_CASE("transposed convolutions become contractions by phase") {
  on_targets([](const targets::Target& t) {
    const auto check_phases = [&](ir::Context& ctx, NestMaker& maker, const test::Symbols& symbols = {}) {
      const Status split = passes::split_phases(ctx, maker.f);
      REQUIRE_MESSAGE(split.ok(), split.text());
      return test::check_lowering(ctx, maker.f, t, symbols);
    };
    for (bool symbolic : {false, true})
      for (auto [c, m, k, s, pad] :
           {std::tuple{5, 24, 2, 2, 0}, {4, 16, 4, 2, 1}, {3, 17, 3, 1, 1}, {6, 16, 6, 3, 0}, {4, 5, 8, 4, 2},
            {4, 16, 5, 3, 1}, {3, 4, 4, 3, 2}}) {  // the last two: taps that the stride does not divide
        ir::Context ctx;
        NestMaker maker(ctx);
        const ir::Sym *H = ctx.declare_sym("H", 1, 512), *W = ctx.declare_sym("W", 1, 512);
        maker.conv_transpose(c, m, k, s, pad, symbolic ? ctx.sym(H) : maker.n(4), symbolic ? ctx.sym(W) : maker.n(5));
        CAPTURE(k);
        CAPTURE(s);
        const auto schedules = check_phases(ctx, maker, {{H, 4}, {W, 5}});
        CHECK(std::any_of(schedules.begin(), schedules.end(), [](const std::string& how) { return how.starts_with("product") || how.starts_with("thin"); }));
      }
    ir::Context ctx;
    NestMaker odd(ctx);  // sizes that the stride does not divide, and a single output channel
    odd.conv_transpose(4, 16, 3, 2, 1, odd.n(3), odd.n(4));
    check_phases(ctx, odd);
    NestMaker one(ctx);
    one.conv_transpose(40, 1, 2, 2, 0, one.n(3), one.n(4));
    check_phases(ctx, one);
  });
}
