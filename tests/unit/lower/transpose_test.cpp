#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

// y[n, c, r] = x[n, r, c] + 2*z[n, r, c] - u[n, c, r] + b[c], or the plain transposition.
void crossed(NestMaker& m, DType t, const Expr* N, const Expr* R, const Expr* C, bool plain) {
  const uint32_t x = m.array("x", t, {N, R, C});
  auto n = m.dim("n", N), r = m.dim("r", R), c = m.dim("c", C);
  const std::vector<const Expr*> in{m.at(n), m.at(r), m.at(c)}, out{m.at(n), m.at(c), m.at(r)};
  const Expr* value = m.load(x, in);
  if (!plain) {
    const uint32_t z = m.array("z", t, {N, R, C}), u = m.array("u", t, {N, C, R}), b = m.array("b", t, {C});
    value = m.ctx.binary(Op::Add, value, m.ctx.binary(Op::Mul, m.load(z, in), m.ctx.number(2, t)));
    value = m.ctx.binary(Op::Sub, value, m.load(u, out));
    value = m.ctx.binary(Op::Add, value, m.load(b, {m.at(c)}));
  }
  m.map({n, c, r}, m.output("y", t, {N, C, R}), out, value);
}

}  // namespace

TEST_CASE("maps across the grain of what they read, whole blocks and rests") {
  for (const char* name : {"x86-64-v4", "x86-64-v3", "x86-64-v2", "armv8-a", "rv64gc", "portable"})
    for (DType t : {DType::F32, DType::F64, DType::F16, DType::U8, DType::I64})
      for (bool plain : {true, false})
        for (auto [n, r, c] : {std::tuple{1, 16, 16}, {2, 64, 128}, {1, 33, 70}, {3, 17, 129}, {1, 100, 67}}) {
          const targets::Target* target = targets::find_target(name);
          REQUIRE(target);
          ir::Context ctx;
          NestMaker m(ctx);
          crossed(m, t, m.n(n), m.n(r), m.n(c), plain);
          const auto schedules = test::check_lowering(ctx, m.f, *target);
          if (std::string(name) == "x86-64-v4" && t == DType::F32) CHECK(schedules[0].find("transpose") == 0);
        }
}

TEST_CASE("one kernel for all extents of a map across the grain") {
  for (const char* name : {"x86-64-v4", "x86-64-v2"}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *R = ctx.declare_sym("R", 0, 4096), *C = ctx.declare_sym("C", 0, 4096);
    crossed(m, DType::F32, m.n(2), ctx.sym(R), ctx.sym(C), false);
    for (auto [r, c] : {std::tuple{0, 5}, {5, 0}, {1, 1}, {1, 40}, {40, 1}, {16, 16}, {35, 50}, {130, 31}})
      CHECK(test::check_lowering(ctx, m.f, *targets::find_target(name), {{R, r}, {C, c}})[0].find("transpose") == 0);
  }
}

TEST_CASE("without vectors squares are as large as registers allow, and one after another is the same code") {
  const auto text = [](const char* name, DType t) {
    ir::Context ctx;
    NestMaker m(ctx);
    crossed(m, t, m.n(1), m.n(128), m.n(128), true);
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target(name), {});
    REQUIRE(kernels.ok());
    CHECK(kernels->back().schedule.starts_with("transpose"));
    return loop::to_string(kernels->back());
  };
  const auto count = [](const std::string& text, const std::string& of) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(of, at)) != text.npos; ++at) ++n;
    return n;
  };
  for (DType t : {DType::F32, DType::F16, DType::U8}) {
    CAPTURE(name_of(t));
    const std::string kernel = text("rv64gc", t);
    CHECK(kernel.find("x8") == kernel.npos);
    CHECK(kernel.find("x16") == kernel.npos);
    CHECK(count(kernel, "= (load.") == 4);  // four rows of a square
    CHECK(count(kernel, "store ") == 7);    // its columns, and an element of each rest
  }
  CHECK(count(text("armv8-a", DType::U8), "= (load.") == 64);
}
