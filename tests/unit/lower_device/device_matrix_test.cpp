// Products by matrices of subgroups (loop::StmtKind::Matrix, SPV_KHR_cooperative_matrix): what the nest says, of ragged sizes, layouts, epilogues and windows, and the same bytes on
// the executor, in both shapes that targets have.
#include "tests/support/nests/any_schedule.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

constexpr const char* kMatrices[] = {"vulkan-matrix", "vulkan-matrix8"};

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

struct Size {
  int64_t m, k, n;
};

schedule::Schedule best(ir::Context& ctx, const nest::Function& f, const targets::Target& target) {
  const auto all = lower::alternatives(ctx, f, f.body[0], target);
  REQUIRE(all.ok());
  return (*all)[0];
}

void check_matrix(ir::Context& ctx, const nest::Function& f, const test::Symbols& symbols = {}, const schedule::Schedule* how = nullptr) {
  for (const char* name : kMatrices) {
    CAPTURE(name);
    const test::Kernels all = test::lower_all(ctx, f, device(name), test::test_math, how);
    std::string schedules;
    for (const std::string& one : test::schedules_of(all)) schedules += one;
    CHECK_MESSAGE(schedules.find("instr matrix.f16") != std::string::npos, schedules);
    test::check_kernels(f, all, device(name), symbols, 1, 4e-6);
    test::check_emitted(ctx, f, device(name), symbols, how);
  }
}

}  // namespace

TEST_CASE("matrices of subgroups multiply f16 along the depth and in panels, of ragged sizes, with an epilogue") {
  for (const bool panels : {true, false})
    for (const auto& [m, k, n] : {Size{32, 64, 32}, {50, 41, 70}, {16, 32, 130}}) {
      CAPTURE(m);
      CAPTURE(panels);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels, true, DType::F16);
      check_matrix(ctx, maker.f);
    }
}

TEST_CASE("every tile of matrices of subgroups") {
  for (const int64_t rows : {32, 64, 128})
    for (const int64_t columns : {32, 64, 128}) {
      if (rows + columns > schedule::kMostMatrixSides) continue;
      CAPTURE(rows);
      CAPTURE(columns);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(rows + 3), maker.n(49), maker.n(columns + 5), false, true, DType::F16);
      schedule::Schedule how = best(ctx, maker.f, device(kMatrices[0]));
      how.tile.rows = rows, how.tile.columns = columns;
      check_matrix(ctx, maker.f, {}, &how);
    }
}

TEST_CASE("matrices of subgroups take batches, windows and sizes that only the run knows, none and one among them") {
  {
    ir::Context ctx;
    NestMaker maker(ctx);
    const Expr* B = maker.n(3);
    const Expr *M = maker.n(35), *K = maker.n(40), *N = maker.n(33);
    const uint32_t x = maker.array("x", DType::F16, {B, M, K}), w = maker.array("w", DType::F16, {B, N, K}), y = maker.output("y", DType::F16, {B, M, N});
    const ir::Dim *b = maker.dim("b", B), *i = maker.dim("m", M), *k = maker.dim("k", K), *j = maker.dim("n", N);
    const auto factor = [&](uint32_t array, const ir::Dim* point) { return ctx.cast(DType::F32, maker.load(array, {maker.at(b), maker.at(point), maker.at(k)})); };
    maker.map({b, i, j}, y, {maker.at(b), maker.at(i), maker.at(j)}, ctx.cast(DType::F16, maker.fold(Join::Sum, {k}, ctx.binary(Op::Mul, factor(x, i), factor(w, j)))));
    check_matrix(ctx, maker.f);
  }
  {
    // A window of 3 x 3 with zeros around the picture, channels first: what does not count is asked of each element, and all dims of the depth but one go by outside.
    ir::Context ctx;
    NestMaker maker(ctx);
    const Expr *C = maker.n(40), *H = maker.n(6), *W = maker.n(7), *M = maker.n(36), *three = maker.n(3);
    const uint32_t x = maker.array("x", DType::F16, {C, H, W}), w = maker.array("w", DType::F16, {M, C, three, three}), y = maker.output("y", DType::F32, {M, H, W});
    const ir::Dim *c = maker.dim("c", C), *h = maker.dim("h", H), *v = maker.dim("w", W), *m = maker.dim("m", M), *r = maker.dim("r", three), *s = maker.dim("s", three);
    const Expr *row = ctx.sub(ctx.add(maker.at(h), maker.at(r)), maker.n(1)), *column = ctx.sub(ctx.add(maker.at(v), maker.at(s)), maker.n(1));
    const auto within = [&](const Expr* e, const Expr* end) { return ctx.binary(Op::And, ctx.binary(Op::Le, maker.n(0), e), ctx.binary(Op::Lt, e, end)); };
    const Expr* inside = ctx.binary(Op::And, within(row, H), within(column, W));
    const Expr* product = ctx.binary(Op::Mul, ctx.cast(DType::F32, maker.load(x, {maker.at(c), row, column})), ctx.cast(DType::F32, maker.load(w, {maker.at(m), maker.at(c), maker.at(r), maker.at(s)})));
    maker.map({m, h, v}, y, {maker.at(m), maker.at(h), maker.at(v)}, maker.fold(Join::Sum, {c, r, s}, product, inside));
    check_matrix(ctx, maker.f);
  }
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
  maker.matmul(ctx.sym(m), ctx.sym(k), ctx.sym(n), false, true, DType::F16);
  for (const auto& [a, b, c] : {Size{0, 5, 7}, {1, 1, 1}, {5, 0, 3}, {65, 33, 20}}) check_matrix(ctx, maker.f, {{m, a}, {k, b}, {n, c}});
}

TEST_CASE("matrices of subgroups are for f16 of targets that have them, and for products with enough of everything") {
  const auto by_matrices = [](const char* name, Size size, DType t) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(size.m), maker.n(size.k), maker.n(size.n), false, true, t);
    return schedule::is_matrix(best(ctx, maker.f, device(name)));
  };
  for (const char* name : kMatrices) {
    CHECK(by_matrices(name, {64, 64, 64}, DType::F16));
    CHECK(!by_matrices(name, {64, 64, 64}, DType::F32));
    CHECK(!by_matrices(name, {64, 64, 64}, DType::BF16));
    CHECK(!by_matrices(name, {15, 64, 64}, DType::F16));
    CHECK(!by_matrices(name, {64, 31, 64}, DType::F16));
  }
  for (const char* name : {"vulkan-base", "vulkan-subgroup", "cuda-sm90"}) CHECK(!by_matrices(name, {64, 64, 64}, DType::F16));
}

TEST_CASE("random schedules of products by matrices of subgroups: refused, or what the nest says") {
  const auto counts = test::check_many(37, false, {kMatrices[0], kMatrices[1]}, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    m.matmul(extent(70), extent(70), extent(70), rng() % 2 == 0, true, DType::F16);
  }, 4);
  CHECK(counts.accepted > 0);
}
