#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

// y[n, b, a] = x[n, a, b] + z[b] (+ w[n, a, b])
void transpose(NestMaker& m, const Expr* N, const Expr* A, const Expr* B, bool two) {
  ir::Context& ctx = m.ctx;
  uint32_t x = m.array("x", DType::F32, {N, A, B}), z = m.array("z", DType::F32, {B}), w = two ? m.array("w", DType::F32, {N, A, B}) : 0;
  uint32_t y = m.output("y", DType::F32, {N, B, A});
  auto n = m.dim("n", N), a = m.dim("a", A), b = m.dim("b", B);
  const std::vector<const Expr*> from{m.at(n), m.at(a), m.at(b)};
  const Expr* value = ctx.binary(Op::Add, m.load(x, from), m.load(z, {m.at(b)}));
  if (two) value = ctx.binary(Op::Add, value, m.load(w, from));
  m.map({n, b, a}, y, {m.at(n), m.at(b), m.at(a)}, value);
}

}  // namespace

TEST_CASE("a map across the grain of its arrays passes through squares of shared memory") {
  for (const auto& [n, a, b] : {std::tuple{2, 32, 64}, {4, 33, 17}, {3, 20, 40}})
    for (const bool two : {false, true}) {
      ir::Context ctx;
      NestMaker m(ctx);
      transpose(m, m.n(n), m.n(a), m.n(b), two);
      CHECK(test::check_lowering(ctx, m.f, device("vulkan-base")).back() ==
            "transpose n:1 grid | b:1 grid | a:1 grid ; place loads ; block 128 ; vectors 1");
    }
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *A = ctx.declare_sym("A", 0, 1000), *B = ctx.declare_sym("B", 0, 1000);
  transpose(m, m.n(1), ctx.sym(A), ctx.sym(B), false);
  for (const auto& [a, b] : {std::pair{0, 5}, {5, 0}, {1, 1}, {7, 33}, {40, 13}})
    CHECK(test::check_lowering(ctx, m.f, device("vulkan-base"), {{A, a}, {B, b}}).back().starts_with("transpose "));
}

TEST_CASE("both emitters write squares, which have no bank conflicts and read each element once") {
  for (const auto& [name, at_once] : {std::pair{"vulkan-base", 1}, {"cuda-sm80", 4}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    transpose(m, m.n(1), m.n(64), m.n(96), true);
    const auto counts = test::check_emitted(ctx, m.f, device(name));
    CHECK(counts.conflicts == 0);
    CHECK(counts.global_loads == (2u + 1) * 64 * 96 / unsigned(at_once));
    CHECK(counts.global_stores == 64u * 96 / unsigned(at_once));
  }
}

TEST_CASE("few points along or across have a lane each") {
  ir::Context ctx;
  NestMaker m(ctx);
  transpose(m, m.n(2), m.n(3), m.n(100), false);
  CHECK(test::check_lowering(ctx, m.f, device("vulkan-base")).back().starts_with("map "));
}
