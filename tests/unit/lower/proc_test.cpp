#include "packager/loop/build.h"
#include "packager/nest/proc.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"
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

TEST_CASE("loops over the elements of a small array at places that are numbers are written out") {
  // Walks through a table from several places at once, until all stand still.
  const auto walks = [](NestMaker& m, int64_t side_by_side, bool computed) {
    ir::Context& ctx = m.ctx;
    const uint32_t table = m.array("table", DType::I64, {m.n(9)}), y = m.output("y", DType::I64, {m.n(side_by_side)});
    auto proc = std::make_unique<nest::Proc>();
    proc->reads = {table};
    proc->writes = {y};
    proc->locals.push_back({"place", DType::I64, nullptr, {m.n(side_by_side)}});
    const uint32_t place = nest::kFirstLocal;
    loop::Builder b(ctx, proc->body);
    const auto at = [&](const Expr* w) { return ctx.min(ctx.max(ctx.load(place, {DType::I64, 1}, {w}, ir::Access::Checked), m.n(0)), m.n(8)); };
    const auto all = [&](const std::function<void(const Expr*)>& body) { b.with_for(m.n(0), m.n(side_by_side), 1, body); };
    all([&](const Expr* w) { b.store(place, w, w); });
    const Expr* moves = b.local(ctx.boolean(true));
    b.with_while(moves, m.n(9), [&] {
      b.assign(moves, ctx.boolean(false));
      all([&](const Expr* w) {
        const Expr* next = b.let(ctx.load(table, {DType::I64, 1}, {at(w)}, ir::Access::Checked));
        b.assign(moves, ctx.binary(Op::Or, moves, ctx.binary(Op::Ne, next, at(w))));
        b.store(place, w, next);
      });
    });
    all([&](const Expr* w) { b.store(y, w, computed ? ctx.load(place, {DType::I64, 1}, {ctx.min(at(w), m.n(side_by_side - 1))}, ir::Access::Checked) : at(w)); });
    nest::Statement s;
    s.source = "walk";
    s.proc = std::move(proc);
    m.f.body.push_back(std::move(s));
  };
  const targets::Target& t = *targets::find_target("x86-64-v3");
  const auto text_of = [&](int64_t side_by_side, bool computed) {
    ir::Context ctx;
    NestMaker m(ctx);
    walks(m, side_by_side, computed);
    const auto r = test::run_lowered(ctx, m.f, {nest::Tensor::of<int64_t>(DType::I64, {9}, {3, 4, 5, 6, 7, 8, 6, 7, 8})}, t, {}, {});
    CHECK(r.fault == 0);
    if (side_by_side == 3 && !computed) CHECK(r.outputs[0].values<int64_t>() == std::vector<int64_t>{6, 7, 8});
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], t, {});
    REQUIRE(kernels.ok());
    return loop::to_string(kernels->back());
  };
  CHECK(text_of(3, false).find("unroll") != std::string::npos);
  CHECK(text_of(3, true).find("unroll") == std::string::npos);  // the place is an element of the array itself
  CHECK(text_of(19, false).find("unroll") == std::string::npos);  // more than registers
}
