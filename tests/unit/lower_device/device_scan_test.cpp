// Scans whose lines the lanes of a block share.
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

struct Form {
  Join join = Join::Sum;
  DType type = DType::I32;
  bool exclusive = false, reverse = false;
  bool across = false;  // lines do not lie along memory
};

// y[r, c] = the scan of x[r, c] + 1 along c.
void scan(NestMaker& m, const Form& form, const Expr* R, const Expr* C) {
  const auto shape = form.across ? std::vector{C, R} : std::vector{R, C};
  const uint32_t x = m.array("x", form.type, shape), y = m.output("y", form.type, shape);
  auto r = m.dim("r", R), c = m.dim("c", C);
  const auto at = form.across ? std::vector{m.at(c), m.at(r)} : std::vector{m.at(r), m.at(c)};
  const Expr* one = is_float(form.type) ? m.ctx.number(1, form.type) : m.ctx.integer(1, form.type);
  m.map({r, c}, y, at, m.ctx.binary(Op::Add, m.load(x, at), one), "scan");
  nest::Nest& n = *m.f.body.back().nest;
  n.scan_dim = c;
  n.scan_combiner = m.ctx.builtin(form.join);
  n.scan_exclusive = form.exclusive, n.scan_reverse = form.reverse;
}

std::string check(ir::Context& ctx, const nest::Function& f, const char* target = "vulkan-base", const test::Symbols& symbols = {}) {
  return test::check_lowering(ctx, f, device(target), symbols).back();
}

}  // namespace

TEST_CASE("a long line is scanned by lanes together, in both directions, with or without its own element") {
  for (int mode = 0; mode < 4; ++mode)
    for (const auto& [rows, points] : {std::pair{3, 300}, {1, 1024}, {2, 2100}, {5, 512}})
      for (const DType t : {DType::I32, DType::F32, DType::I64}) {
        CAPTURE(mode);
        CAPTURE(points);
        ir::Context ctx;
        NestMaker m(ctx);
        scan(m, {.type = t, .exclusive = (mode & 1) != 0, .reverse = (mode & 2) != 0, .across = rows == 2}, m.n(rows), m.n(points));
        CHECK(check(ctx, m.f).starts_with("lines "));
      }
}

TEST_CASE("scans of other operations, and of lengths that only the run knows") {
  ir::Context ctx;
  for (const Join join : {Join::Max, Join::Min, Join::Prod}) {
    NestMaker m(ctx);
    scan(m, {.join = join, .exclusive = join == Join::Max}, m.n(3), m.n(700));
    CHECK(check(ctx, m.f, "cuda-sm80").starts_with("lines "));
  }
  NestMaker m(ctx);
  const ir::Sym *R = ctx.declare_sym("R", 0, 4096), *C = ctx.declare_sym("C", 300, 100000);
  scan(m, {}, ctx.sym(R), ctx.sym(C));
  for (const auto& [rows, points] : {std::pair{0, 300}, {3, 301}, {5, 1500}}) CHECK(check(ctx, m.f, "vulkan-base", {{R, rows}, {C, points}}).starts_with("lines "));
}

TEST_CASE("short lines, and many of neighbouring columns, have a lane each") {
  for (const auto& [rows, points, across] : {std::tuple{9, 40, false}, {5000, 300, true}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    scan(m, {.across = across}, m.n(rows), m.n(points));
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], device("vulkan-base"), test::test_math);
    REQUIRE(kernels.ok());
    CHECK(kernels->back().schedule.starts_with("map "));
  }
}

TEST_CASE("all legal schedules of a scan give the same, and any other is refused") {
  for (const int64_t points : {300, 777}) {
    ir::Context ctx;
    NestMaker m(ctx);
    scan(m, {.exclusive = points == 777}, m.n(7), m.n(points));
    const auto all = lower::candidates(ctx, m.f, m.f.body[0], device("vulkan-base"));
    REQUIRE(all.ok());
    std::mt19937 rng(7);
    const std::vector<nest::Tensor> inputs{test::random_tensor(rng, DType::I32, {7, points})};
    const auto want = nest::interpret(m.f, inputs, {});
    REQUIRE(want.ok());
    for (int64_t lanes = 1; lanes <= 256; lanes *= 2) {
      schedule::Schedule how = all->front();
      how.tile = {128 / lanes, lanes, 1, 1, false};
      const auto kernels = lower::lower(ctx, m.f, m.f.body[0], device("vulkan-base"), test::test_math, &how);
      CHECK(kernels.ok() == (lanes <= 128));
      if (!kernels.ok()) continue;
      const test::Lowered got = test::run_lowered(ctx, m.f, inputs, device("vulkan-base"), {}, test::test_math, 1, &how);
      CHECK(got.outputs[0].bytes == (*want)[0].bytes);
    }
  }
}

TEST_CASE("emitters write scans, which read each element once, without bank conflicts") {
  for (const char* name : {"vulkan-base", "vulkan-subgroup", "cuda-sm75"})
    for (const int64_t points : {400, 3000}) {
      CAPTURE(name);
      ir::Context ctx;
      NestMaker m(ctx);
      scan(m, {.type = DType::F32}, m.n(4), m.n(points));
      const auto counts = test::check_emitted(ctx, m.f, device(name));
      CHECK(counts.conflicts == 0);
      const int64_t turn = points == 400 ? 256 : 1024;
      CHECK(counts.global_loads <= static_cast<uint64_t>(4 * (points + turn)));  // beyond the end the last one is read again
    }
}
