// Long folds on devices that fold lanes: a block for each point.
#include <algorithm>

#include "targets/gpu/device_targets.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device() {
  static const targets::Target target = targets::gpu::device_target("vulkan-subgroup");
  return target;
}

size_t num_folds(const std::vector<loop::StmtPtr>& block) {
  size_t n = 0;
  for (const loop::StmtPtr& s : block) n += (s->kind == loop::StmtKind::FoldLanes) + num_folds(s->body) + num_folds(s->orelse);
  return n;
}

std::vector<loop::Kernel> kernels_of(ir::Context& ctx, const nest::Function& f) {
  auto all = lower::lower(ctx, f, f.body[0], device(), test::test_math);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  return std::move(*all);
}

}  // namespace

TEST_CASE("a long fold is one launch, a block for each point, whatever is left over of its lanes") {
  for (const auto& [rows, length] : {std::pair{3, 1024}, {2, 515}, {70, 5000}, {5, 600}})
    for (const bool filtered : {false, true})
      for (const Join join : {Join::Sum, Join::Max, Join::Prod}) {
        CAPTURE(length);
        CAPTURE(filtered);
        ir::Context ctx;
        NestMaker m(ctx);
        auto N = m.n(rows), K = m.n(length);
        uint32_t x = m.array("x", DType::I32, {N, K}), y = m.output("y", DType::I32, {N});
        auto n = m.dim("n", N), k = m.dim("k", K);
        const Expr* load = m.load(x, {m.at(n), m.at(k)});
        const Expr* where = filtered ? ctx.binary(Op::Lt, load, ctx.integer(2, DType::I32)) : nullptr;
        m.map({n}, y, {m.at(n)}, ctx.binary(Op::Add, m.fold(join, {k}, load, where), ctx.integer(1, DType::I32)));
        const auto schedules = test::check_lowering(ctx, m.f, device());
        CHECK(schedules == std::vector<std::string>{"fold n:1 grid ; block 128 ; vectors 1"});
        const auto kernels = kernels_of(ctx, m.f);
        REQUIRE(kernels.size() == 1);
        CHECK(num_folds(kernels[0].body) == 1);
        CHECK(ir::to_string(kernels[0].tiles) == std::to_string(rows));
      }
}

TEST_CASE("extents that only the run knows, also none") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *A = ctx.declare_sym("A", 0, 1000), *B = ctx.declare_sym("B", 2000, 100000);
  uint32_t x = m.array("x", DType::F32, {ctx.sym(A), ctx.sym(B)}), y = m.output("y", DType::F32, {ctx.sym(A)});
  auto a = m.dim("a", ctx.sym(A)), b = m.dim("b", ctx.sym(B));
  m.map({a}, y, {m.at(a)}, m.fold(Join::Min, {b}, m.load(x, {m.at(a), m.at(b)})));
  for (auto [p, q] : {std::pair{0, 2000}, {2, 2048}, {3, 2001}}) {
    const auto schedules = test::check_lowering(ctx, m.f, device(), {{A, p}, {B, q}});
    CHECK(schedules.back() == "fold a:1 grid ; block 128 ; vectors 1");
  }
}

TEST_CASE("norms of rows fold in blocks, and short, scattered or endless folds are left to others") {
  const auto last = [](int rows, int length, bool columns) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(rows), K = m.n(length);
    uint32_t x = m.array("x", DType::F32, columns ? std::vector{K, N} : std::vector{N, K}), y = m.output("y", DType::F32, {N});
    auto n = m.dim("n", N), k = m.dim("k", K);
    m.map({n}, y, {m.at(n)}, m.fold(Join::Sum, {k}, columns ? m.load(x, {m.at(k), m.at(n)}) : m.load(x, {m.at(n), m.at(k)})));
    return kernels_of(ctx, m.f);
  };
  const auto is_fold = [](const loop::Kernel& kernel) { return kernel.schedule.starts_with("fold ") && num_folds(kernel.body) == 1; };
  CHECK(is_fold(last(4, 768, false).back()));
  CHECK(!is_fold(last(4, 300, false).back()));
  CHECK(is_fold(last(5000, 768, false).back()));
  CHECK(!is_fold(last(5000, 768, true).back()));
  const auto endless = last(1, 1200000, false);
  REQUIRE(endless.size() == 2);  // chunks in lanes, then these in a block
  CHECK(!is_fold(endless[0]));
  CHECK(is_fold(endless[1]));
}
