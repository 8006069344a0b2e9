#include "packager/loop/build.h"
#include "packager/nest/proc.h"
#include "tests/support/lowered.h"
#include "tests/support/nests.h"
#include "targets/gpu/device_targets.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

// For each row: an insertion sort into an array of the proc, then the row is written back in ascending order.
void sorting(NestMaker& m, const Expr* rows, const Expr* n) {
  ir::Context& ctx = m.ctx;
  uint32_t x = m.array("x", DType::F32, {rows, n}), y = m.output("y", DType::F32, {rows, n});
  auto proc = std::make_unique<nest::Proc>();
  auto a = m.dim("a", rows);
  proc->dims = {a};
  proc->reads = {x};
  proc->writes = {y};
  proc->locals.push_back({"best", DType::F32, nullptr, {n}});
  const uint32_t best = nest::kFirstLocal;
  loop::Builder b(ctx, proc->body);
  auto read = [&](const Expr* at) { return ctx.load(best, {DType::F32, 1}, {at}, ir::Access::Checked); };
  auto put = [&](uint32_t array, std::vector<const Expr*> index, const Expr* value) {
    loop::Stmt& s = b.append(loop::StmtKind::Store);
    s.array = array;
    s.index = std::move(index);
    s.value = value;
  };
  b.with_for(m.n(0), n, 1, [&](const Expr* i) {
    const Expr* e = b.let(ctx.load(x, {DType::F32, 1}, {m.at(a), i}, ir::Access::Checked));
    const Expr* p = b.local(i);
    const Expr* before = ctx.sub(p, m.n(1));
    const Expr* smaller = ctx.binary(Op::And, ctx.binary(Op::Lt, m.n(0), p), ctx.binary(Op::Lt, e, read(before)));
    b.with_while(smaller, n, [&] {
      put(best, {p}, read(before));
      b.assign(p, before);
    });
    put(best, {p}, e);
  });
  b.with_for(m.n(0), n, 1, [&](const Expr* i) { put(y, {m.at(a), i}, read(i)); });
  nest::Statement s;
  s.source = "sort";
  s.proc = std::move(proc);
  m.f.body.push_back(std::move(s));
}

}  // namespace

TEST_CASE("a proc sorts rows, its array in scratch or in a workspace") {
  const targets::Target device = targets::gpu::device_target("vulkan-base");
  for (const char* name : {"x86-64-v3", "rv64gc", "portable", "vulkan-base"}) {
    const targets::Target& t = name == device.name ? device : *targets::find_target(name);
    ir::Context ctx;
    NestMaker fixed(ctx);
    sorting(fixed, fixed.n(4), fixed.n(11));
    CHECK(test::check_lowering(ctx, fixed.f, t).back().starts_with("proc"));
    NestMaker free(ctx);
    const ir::Sym *R = ctx.declare_sym("R", 0, 100), *N = ctx.declare_sym("N", 0, 100);
    sorting(free, ctx.sym(R), ctx.sym(N));
    for (auto [r, n] : {std::pair{0, 3}, {3, 0}, {3, 7}, {1, 20}})
      test::check_lowering(ctx, free.f, t, {{R, r}, {N, n}});
  }
}

TEST_CASE("a store of a proc out of range is a fault") {
  const targets::Target& t = *targets::find_target("x86-64-v3");
  ir::Context ctx;
  NestMaker m(ctx);
  uint32_t i = m.array("i", DType::I64, {m.n(1)}), y = m.output("y", DType::F32, {m.n(4)});
  auto proc = std::make_unique<nest::Proc>();
  proc->reads = {i};
  proc->writes = {y};
  loop::Builder b(ctx, proc->body);
  b.with_for(m.n(0), m.n(4), 1, [&](const Expr* k) { b.store(y, k, ctx.number(1, DType::F32)); });
  b.store(y, m.load(i, {m.n(0)}), ctx.number(5, DType::F32));
  nest::Statement s;
  s.source = "store";
  s.proc = std::move(proc);
  m.f.body.push_back(std::move(s));
  for (auto [at, fault] : {std::pair<int64_t, int>{2, 0}, {4, 1}, {-1, 1}}) {
    auto r = test::run_lowered(ctx, m.f, {nest::Tensor::of<int64_t>(DType::I64, {1}, {at})}, t, {}, {});
    CHECK(r.fault == fault);
    if (!fault) CHECK(r.outputs[0].values<float>() == std::vector<float>{1, 1, 5, 1});
  }
}
