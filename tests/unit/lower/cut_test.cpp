// A launch may be cut anywhere between quanta, so that nothing depends on how many workers there are.
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using test::NestMaker;

namespace {

// Outputs for one, two, three and seven workers, and for as many as there are quanta.
void check_cuts(ir::Context& ctx, const nest::Function& f, const char* name, const test::Symbols& symbols) {
  const targets::Target* target = targets::find_target(name);
  REQUIRE(target);
  std::mt19937 rng(5);
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols)));
  const auto whole = test::run_lowered(ctx, f, inputs, *target, symbols, test::test_math, 1);
  for (int64_t parts : {2, 3, 7, 1 << 20}) {
    const auto cut = test::run_lowered(ctx, f, inputs, *target, symbols, test::test_math, parts);
    CAPTURE(name);
    CAPTURE(parts);
    REQUIRE(cut.outputs.size() == whole.outputs.size());
    for (size_t k = 0; k < cut.outputs.size(); ++k) CHECK(cut.outputs[k].bytes == whole.outputs[k].bytes);
  }
}

}  // namespace

TEST_CASE("a product is the same to the last bit however it is cut") {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"}) {
    ir::Context ctx;
    NestMaker fixed(ctx), free(ctx);
    fixed.matmul(fixed.n(61), fixed.n(37), fixed.n(150), true);
    check_cuts(ctx, fixed.f, name, {});
    const ir::Sym *M = ctx.declare_sym("M", 0, 4096), *K = ctx.declare_sym("K", 0, 4096), *N = ctx.declare_sym("N", 0, 4096);
    free.matmul(ctx.sym(M), ctx.sym(K), ctx.sym(N), false);
    for (auto [m, k, n] : {std::tuple{0, 4, 4}, {1, 30, 100}, {130, 9, 70}, {29, 5, 1}}) check_cuts(ctx, free.f, name, {{M, m}, {K, k}, {N, n}});
  }
}

TEST_CASE("a kernel says what it may be cut along and how long it takes") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *M = ctx.declare_sym("M", 0, 1 << 20), *N = ctx.declare_sym("N", 0, 1 << 20);
  maker.matmul(ctx.sym(M), maker.n(64), ctx.sym(N), false);
  auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], *targets::find_target("x86-64-v3"), test::test_math);
  REQUIRE(kernels.ok());
  const loop::Kernel& k = kernels->back();
  REQUIRE(k.cuts.size() == 2);
  const auto at = [&](const ir::Expr* e, int64_t m, int64_t n) { return test::extent_value(e, {{M, m}, {N, n}}); };
  CHECK(at(k.tiles, 2, 160) == 1);
  CHECK(at(k.tiles, 1, 160) == 0);  // a row has a kernel of its own, and so has a column
  CHECK(at((*kernels)[1].tiles, 1, 160) == 1);
  CHECK(at(k.tiles, 160, 1) == 0);
  CHECK(at(kernels->front().tiles, 160, 1) == 1);
  CHECK(at(kernels->front().tiles, 1, 160) == 0);
  CHECK(at(k.cuts[0].units, 0, 16) == 0);
  CHECK(at(k.cuts[0].units, 1, 16) == 1);
  CHECK(at(k.cuts[1].units, 1, 160) >= 10);
  CHECK(at(k.cuts[1].bytes, 1, 160) >= 4 * 64 * 16);
  CHECK(at(k.work, 0, 160) == 0);
  CHECK(at(k.work, 1000, 1000) > 100 * 1000);
  CHECK(at(k.work, 2000, 1000) > at(k.work, 1000, 1000));
  CHECK(at(k.work, 1 << 20, 1 << 20) > 0);
}
