// Folds whose points the lanes of a block share, and what is written of their rows.
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

void check_lines(ir::Context& ctx, const nest::Function& f, const test::Symbols& symbols = {}) {
  const auto schedules = test::check_lowering(ctx, f, device("vulkan-base"), symbols);
  CHECK(schedules.size() == 1);
  CHECK_MESSAGE(schedules.back().starts_with("lines "), schedules.back());
}

const Expr* f32(ir::Context& ctx, double v) { return ctx.number(v, DType::F32); }

// y[n, c] = exp(x - max) / sum(exp(x - max))
void softmax(NestMaker& m, const Expr* N, const Expr* C) {
  ir::Context& ctx = m.ctx;
  uint32_t x = m.array("x", DType::F32, {N, C}), y = m.output("y", DType::F32, {N, C});
  auto n = m.dim("n", N), c = m.dim("c", C), k = m.dim("k", C), j = m.dim("j", C);
  const Expr* largest = m.fold(Join::Max, {j}, m.load(x, {m.at(n), m.at(j)}));
  const auto above = [&](const ir::Dim* d) { return ctx.unary(Op::Exp, ctx.binary(Op::Sub, m.load(x, {m.at(n), m.at(d)}), largest)); };
  m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Div, above(c), m.fold(Join::Sum, {k}, above(k))));
}

// y[n, c] = (x - mean) / sqrt(variance + 1e-5) * g[c]
void norm(NestMaker& m, const Expr* N, int64_t C) {
  ir::Context& ctx = m.ctx;
  uint32_t x = m.array("x", DType::F32, {N, m.n(C)}), g = m.array("g", DType::F32, {m.n(C)}), y = m.output("y", DType::F32, {N, m.n(C)});
  auto n = m.dim("n", N), c = m.dim("c", m.n(C)), k = m.dim("k", m.n(C)), j = m.dim("j", m.n(C));
  const Expr* mean = ctx.binary(Op::Mul, m.fold(Join::Sum, {j}, m.load(x, {m.at(n), m.at(j)})), f32(ctx, 1.0 / double(C)));
  const auto apart = [&](const ir::Dim* d) { return ctx.binary(Op::Sub, m.load(x, {m.at(n), m.at(d)}), mean); };
  const Expr* squares = m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, apart(k), apart(k)));
  const Expr* spread = ctx.unary(Op::Sqrt, ctx.binary(Op::Add, ctx.binary(Op::Mul, squares, f32(ctx, 1.0 / double(C))), f32(ctx, 1e-5)));
  m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Mul, ctx.binary(Op::Div, apart(c), spread), m.load(g, {m.at(c)})));
}

}  // namespace

TEST_CASE("a softmax is one kernel, whose rows some lanes share") {
  for (const auto& [rows, points] : {std::pair{5, 40}, {3, 300}, {1, 33}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    softmax(m, m.n(rows), m.n(points));
    check_lines(ctx, m.f);
  }
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *N = ctx.declare_sym("N", 0, 1000), *C = ctx.declare_sym("C", 1, 1000);
  softmax(m, ctx.sym(N), ctx.sym(C));
  for (const auto& [rows, points] : {std::pair{0, 7}, {6, 1}, {2, 130}}) check_lines(ctx, m.f, {{N, rows}, {C, points}});
}

TEST_CASE("a norm is one kernel") {
  ir::Context ctx;
  NestMaker m(ctx);
  norm(m, m.n(6), 48);
  check_lines(ctx, m.f);
}

TEST_CASE("folds of rows that write one value each, under conditions, of several fields and types") {
  ir::Context ctx;
  NestMaker sums(ctx), any(ctx);
  auto N = sums.n(7), K = sums.n(100);
  uint32_t x = sums.array("x", DType::I32, {N, K}), y = sums.output("y", DType::I32, {N});
  auto n = sums.dim("n", N), k = sums.dim("k", K);
  const Expr* load = sums.load(x, {sums.at(n), sums.at(k)});
  sums.map({n}, y, {sums.at(n)}, sums.fold(Join::Sum, {k}, load, ctx.binary(Op::Lt, load, ctx.integer(2, DType::I32))));
  check_lines(ctx, sums.f);
  x = any.array("x", DType::I32, {N, K}), y = any.output("y", DType::Bool, {N});
  any.map({n}, y, {any.at(n)}, any.fold(Join::All, {k}, ctx.binary(Op::Lt, any.load(x, {any.at(n), any.at(k)}), ctx.integer(3, DType::I32))));
  check_lines(ctx, any.f);
  // The largest value and how often it occurs.
  NestMaker both(ctx);
  ir::Combiner c;
  c.name = "most";
  c.join = Join::Custom;
  const auto var = [&](DType t) { return ctx.fresh_var({t, 1}); };
  c.left = {var(DType::I32), var(DType::I64)};
  c.right = {var(DType::I32), var(DType::I64)};
  c.units = {ctx.integer(INT32_MIN, DType::I32), ctx.integer(0)};
  const Expr *same = ctx.binary(Op::Eq, c.left[0], c.right[0]), *less = ctx.binary(Op::Lt, c.left[0], c.right[0]);
  c.joins = {ctx.select(less, c.right[0], c.left[0]), ctx.select(same, ctx.add(c.left[1], c.right[1]), ctx.select(less, c.right[1], c.left[1]))};
  const ir::Combiner* most = ctx.declare_combiner(std::move(c));
  x = both.array("x", DType::I32, {N, K}), y = both.output("y", DType::I64, {N});
  const Expr* fold = ctx.fold({most, {k}, nullptr}, {both.load(x, {both.at(n), both.at(k)}), ctx.integer(1)});
  both.map({n}, y, {both.at(n)}, ctx.add(ctx.field(fold, 1), ctx.cast(DType::I64, ctx.field(fold, 0))));
  check_lines(ctx, both.f);
}

TEST_CASE("short folds, and those of neighbouring columns, have a lane for each point") {
  for (const auto& [rows, points, across] : {std::tuple{9, 12, false}, {5000, 64, true}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(rows), K = m.n(points);
    uint32_t x = m.array("x", DType::I32, across ? std::vector{K, N} : std::vector{N, K}), y = m.output("y", DType::I32, {N});
    auto n = m.dim("n", N), k = m.dim("k", K);
    m.map({n}, y, {m.at(n)}, m.fold(Join::Sum, {k}, m.load(x, across ? std::vector{m.at(k), m.at(n)} : std::vector{m.at(n), m.at(k)})));
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], device("vulkan-base"), test::test_math);
    REQUIRE(kernels.ok());
    CHECK(kernels->back().schedule.starts_with("map "));
  }
}

TEST_CASE("both emitters write lines, which have no bank conflicts and read each element as often as it is used") {
  for (const char* name : {"vulkan-base", "cuda-sm80"})
    for (const int64_t points : {40, 300}) {
      ir::Context ctx;
      NestMaker m(ctx);
      softmax(m, m.n(5), m.n(points));
      const auto counts = test::check_emitted(ctx, m.f, device(name));
      CHECK(counts.conflicts == 0);
      CHECK(counts.global_loads <= static_cast<uint64_t>(3 * 8 * points));  // lanes without a row read the last one
    }
}

TEST_CASE("schedules of lines are read and refused as others are") {
  ir::Context ctx;
  NestMaker m(ctx);
  softmax(m, m.n(9), m.n(50));
  const auto by = [&](const std::string& tile) {
    auto how = schedule::parse("lines n:1 grid | c:1 ; tile " + tile + " ; block 128 ; vectors 1");
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], device("vulkan-base"), test::test_math, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  CHECK(by("4 x 32 depth 1 copies 1") == "");
  CHECK(by("128 x 1 depth 1 copies 1") == "");
  CHECK(by("2 x 32 depth 1 copies 1").find("rows times lanes") != std::string::npos);
  CHECK(by("1 x 128 depth 2 copies 1").find("neither depth nor copies") != std::string::npos);
}

TEST_CASE("a row of few turns is loaded once, whatever folds and writes there are, and what lies along it before they are done") {
  for (const int64_t points : {768, 1024, 512, 200}) {
    CAPTURE(points);
    ir::Context ctx;
    NestMaker m(ctx);
    norm(m, m.n(3), points);
    const auto schedules = test::check_lowering(ctx, m.f, device("cuda-sm90"), {});
    CHECK(schedules.size() == 1);
    const auto counts = test::check_emitted(ctx, m.f, device("cuda-sm90"));
    // Of four neighbours at once, two arrays; lanes without a point in the last turn read the last ones.
    const int64_t lanes = points > 256 ? 128 : 32, turns = (points / 4 + lanes - 1) / lanes;
    CHECK(counts.global_loads <= static_cast<uint64_t>((points > 256 ? 3 : 4) * 2 * turns * lanes));
  }
}

TEST_CASE("long rows, and rows of which a condition of a fold leaves out some, are read where they are needed") {
  for (const int64_t points : {4096, 5000}) {
    ir::Context ctx;
    NestMaker m(ctx);
    norm(m, m.n(2), points);
    test::check_lowering(ctx, m.f, device("cuda-sm90"), {}, 1, 1e-4);
    test::check_emitted(ctx, m.f, device("cuda-sm90"));
  }
  ir::Context ctx;
  NestMaker m(ctx);
  auto N = m.n(3), C = m.n(600);
  const uint32_t x = m.array("x", DType::F32, {N, C}), y = m.output("y", DType::F32, {N, C});
  auto n = m.dim("n", N), c = m.dim("c", C), j = m.dim("j", C);
  const Expr* some = ctx.fold({ctx.builtin(Join::Max), {j}, ctx.binary(Op::Lt, m.at(j), ctx.add(m.at(n), m.n(500)))}, {m.load(x, {m.at(n), m.at(j)})});
  m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Sub, m.load(x, {m.at(n), m.at(c)}), some));
  test::check_lowering(ctx, m.f, device("cuda-sm90"), {});
  test::check_emitted(ctx, m.f, device("cuda-sm90"));
}

TEST_CASE("what is written of a row may have more points than the fold whose loads are held") {
  ir::Context ctx;
  NestMaker m(ctx);
  auto N = m.n(3), C = m.n(600), D = m.n(2000);
  const uint32_t x = m.array("x", DType::F32, {N, C}), w = m.array("w", DType::F32, {D}), y = m.output("y", DType::F32, {N, D});
  auto n = m.dim("n", N), d = m.dim("d", D), j = m.dim("j", C);
  m.map({n, d}, y, {m.at(n), m.at(d)}, ctx.binary(Op::Sub, m.load(w, {m.at(d)}), m.fold(Join::Max, {j}, m.load(x, {m.at(n), m.at(j)}))));
  const auto schedules = test::check_lowering(ctx, m.f, device("cuda-sm90"), {});
  CHECK(schedules.back().starts_with("lines "));
  test::check_emitted(ctx, m.f, device("cuda-sm90"));
}
