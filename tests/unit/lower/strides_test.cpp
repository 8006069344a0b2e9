// Elements at small strides: lanes picked from vectors of neighbours, of which no element beyond the last is read.
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Access;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

// y[r, o] = x[r, step*o] + most of the taps of a window that may begin before the row; x ends where the last point reads.
void strided(NestMaker& m, DType type, const Expr* n, int64_t step) {
  ir::Context& ctx = m.ctx;
  const Expr *rows = m.n(3), *length = ctx.add(ctx.mul(m.n(std::abs(step)), ctx.sub(n, m.n(1))), m.n(1));
  const uint32_t x = m.array("x", type, {rows, length}), y = m.output("y", type, {rows, n});
  const ir::Dim *r = m.dim("r", rows), *o = m.dim("o", n), *k = m.dim("k", m.n(3));
  const Expr* at = step > 0 ? ctx.mul(m.n(step), m.at(o)) : ctx.mul(m.n(-step), ctx.sub(ctx.sub(n, m.n(1)), m.at(o)));
  const Expr* tap = ctx.sub(ctx.add(at, m.at(k)), m.n(1));
  const Expr* most = m.fold(ir::Join::Max, {k}, m.load(x, {m.at(r), tap}, Access::Checked), m.within(tap, length));
  m.map({r, o}, y, {m.at(r), m.at(o)}, ctx.binary(Op::Add, m.load(x, {m.at(r), at}, Access::Checked), most));
}

}  // namespace

TEST_CASE("elements at small strides, forward and back, in rows of any length") {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "rv64gc", "portable", "vulkan-base"}) {
    const targets::Target* t = targets::find_target(name);
    REQUIRE(t);
    for (DType type : {DType::F32, DType::U8, DType::F64})
      for (int64_t step : {2, 3, 4, 5, -1, -2, -3}) {
        CAPTURE(step);
        for (int64_t n : {1, 7, 16, 24, 53}) {
          CAPTURE(n);
          ir::Context ctx;
          NestMaker m(ctx);
          strided(m, type, m.n(n), step);
          test::check_lowering(ctx, m.f, *t);
        }
        ir::Context ctx;
        NestMaker m(ctx);
        const ir::Sym* N = ctx.declare_sym("N", 1, 4096);
        strided(m, type, ctx.sym(N), step);
        test::check_free_lowering(ctx, m.f, *t, {{{N, 1}}, {{N, 3}}, {{N, 16}}, {{N, 31}}});
      }
  }
}

TEST_CASE("every other element is gathered nowhere where there are masks") {
  for (bool symbolic : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    strided(m, DType::F32, symbolic ? ctx.sym(ctx.declare_sym("N", 1, 4096)) : m.n(100), 2);
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target("x86-64-v4"), {});
    REQUIRE(kernels.ok());
    const std::string text = loop::to_string(kernels->back());
    CAPTURE(text);
    const bool gathers = text.find("load.f32x16 0 (ramp") != std::string::npos || text.find("load.f32x16 0 #0=(ramp") != std::string::npos ||
                         text.find("load.f32x16 0 (add.i64x16") != std::string::npos;
    CHECK_FALSE(gathers);
  }
}
