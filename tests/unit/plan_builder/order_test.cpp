#include "packager/plan/order.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "packager/plan/arena.h"
#include "runtime/plan/execute/executor.h"
#include "tests/support/containers/plan_maker.h"

using namespace mlc;
using mlc::test::PlanMaker;
namespace fbp = mlc::fb::plan;

namespace {

// A launch reads all of its other buffers, every line of them for each of its own: nothing but the order of launches makes
// a result. The last buffer is written; a tile is a line.
struct Mixer final : KernelModule {
  uint32_t num_kernels() const override { return 1; }
  uint64_t scratch_bytes(uint32_t) const override { return 64; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch& l, uint32_t begin, uint32_t end, WorkMeter&) const override {
    const auto buffers = static_cast<size_t>(l.scalars[0]);
    for (uint32_t tile = begin; tile < end; ++tile) {
      auto* sum = static_cast<uint64_t*>(l.scratch);
      *sum = tile + 1;
      for (size_t b = 0; b + 1 < buffers; ++b)
        for (uint64_t at = 0; at + 8 <= l.lengths[b]; at += 64) {
          uint64_t word;
          std::memcpy(&word, static_cast<const std::byte*>(l.buffers[b]) + at, 8);
          *sum = (*sum ^ word) * 0x9e3779b97f4a7c15ull + b;
        }
      for (size_t k = 0; k < 8; ++k) std::memcpy(static_cast<std::byte*>(l.buffers[buffers - 1]) + 64 * tile + 8 * k, sum, 8);
    }
    return 0;
  }
};
struct NoConstants final : exec::Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "there are none"); }
};

// Launch k writes array k; the last one is the output. Sizes are lines, constant or some times n.
struct Graph {
  struct Node {
    std::vector<size_t> reads;
    const ir::Expr* lines = nullptr;
  };
  std::vector<Node> nodes;
  std::vector<plan::Interim> lives;
  const ir::Expr* arena = nullptr;

  Graph(ir::Context& ctx, const ir::Expr* n, std::mt19937& random, size_t length) : nodes(length), lives(length - 1) {
    const ir::Expr* line = ctx.integer(64);
    for (uint32_t k = 0; k < length; ++k) {
      for (size_t reads = random() % 3; reads > 0 && k > 0; --reads) nodes[k].reads.push_back(k - 1 - random() % std::min<size_t>(k, 4));
      if (k + 1 == length) nodes[k].reads.push_back(k - 1);
      nodes[k].lines = random() % 2 ? ctx.integer(1 + random() % 5) : ctx.mul(n, ctx.integer(1 + random() % 3));
      if (k + 1 < length) lives[k] = {ctx.mul(nodes[k].lines, line), k, k, nullptr};
      for (size_t read : nodes[k].reads) lives[read].last = k;
    }
    arena = place_in_arena(ctx, lives);
  }

  // The plan for one n; `after` says what each launch waits for.
  PlanMaker plan(const std::vector<uint32_t>& after, const std::function<int64_t(const ir::Expr*)>& value) const {
    PlanMaker m;
    std::vector<uint32_t> buffers;
    m.arena_bytes = m.constant(value(arena));
    for (size_t k = 0; k < lives.size(); ++k)
      buffers.push_back(m.buffer(fbp::BufferKind_Arena, DType::U64, 0, m.constant(value(lives[k].bytes)), m.constant(value(lives[k].offset))));
    const int64_t lines = value(nodes.back().lines);
    buffers.push_back(m.buffer(fbp::BufferKind_Output, DType::U64, 0, m.constant(64 * lines)));
    m.outputs = {{"y", DType::U64, buffers.back(), {m.constant(8 * lines)}}};
    for (size_t k = 0; k < nodes.size(); ++k) {
      std::vector<uint32_t> operands;
      for (size_t read : nodes[k].reads) operands.push_back(buffers[read]);
      operands.push_back(buffers[k]);
      const uint32_t scalar = m.constant(static_cast<int64_t>(operands.size()));
      m.body.push_back({fbp::InstrOp_Launch, 0, operands, {scalar}, m.constant(value(nodes[k].lines)), {}, UINT32_MAX, after[k]});
    }
    return m;
  }
};

std::vector<uint64_t> run(const PlanMaker& m, unsigned workers, std::function<size_t(size_t)> order) {
  const exec::Plan plan = exec::decode_plan(m.bytes(), {1, nullptr}).value();
  const auto pool = WorkerPool::create({.workers = workers}).value();
  const Mixer module;
  const NoConstants constants;
  const auto executor = exec::Executor::create(plan, module, constants, *pool, {}).value();
  executor->set_order(std::move(order));
  exec::OutputArg y;
  REQUIRE(executor->run(0, {}, {&y, 1}).ok());
  const auto* words = static_cast<const uint64_t*>(y.data);
  return {words, words + y.bytes / 8};
}

}  // namespace

TEST_CASE("random graphs give the same bits in any legal order, by any number of ranges, at any length") {
  std::mt19937 random(11);
  size_t early = 0;
  for (int graph = 0; graph < 40; ++graph) {
    ir::Context ctx;
    const ir::Expr* n = ctx.sym(ctx.declare_sym("n", 1));
    const Graph g(ctx, n, random, 12 + random() % 20);
    plan::Order order(ctx);
    for (uint32_t k = 0; k < g.lives.size(); ++k) order.place(k, g.lives[k].offset, g.lives[k].bytes);
    std::vector<uint32_t> after;
    for (uint32_t k = 0; k < g.nodes.size(); ++k) {
      std::vector<plan::Order::Use> uses{{k, true}};
      for (size_t read : g.nodes[k].reads) uses.push_back({static_cast<uint32_t>(read), false});
      after.push_back(order.after(uses));
      CHECK(after[k] <= k);
      early += after[k] < k;
    }
    for (int64_t extent : {1, 3, 8}) {
      const PlanMaker m = g.plan(after, [&](const ir::Expr* e) { return ir::evaluate_extent(e, [&](const ir::Sym*) { return std::optional(extent); }).value(); });
      const auto expected = run(m, 1, nullptr);
      for (unsigned ranges : {1u, 2u, 3u, 7u}) {
        CHECK(run(m, ranges, [&](size_t ready) { return random() % ready; }) == expected);
        CHECK(run(m, ranges, nullptr) == expected);
      }
    }
  }
  CHECK(early > 50);  // it is about something
}

TEST_CASE("a launch waits for the last that writes what it uses, or reads what it writes") {
  ir::Context ctx;
  plan::Order order(ctx);
  CHECK(order.after({{0, false}, {1, true}}) == 0);
  CHECK(order.after({{0, false}, {2, true}}) == 0);  // both read 0
  CHECK(order.after({{1, false}, {3, true}}) == 1);
  CHECK(order.after({{4, true}}) == 0);
  CHECK(order.after({{1, true}}) == 3);              // which the third reads
  CHECK(order.after({{1, true}}) == 5);
}

TEST_CASE("what lies over each other in the arena is one, what surely does not is two") {
  ir::Context ctx;
  const ir::Expr *n = ctx.sym(ctx.declare_sym("n", 1)), *line = ctx.integer(64), *bytes = ctx.mul(n, line);
  plan::Order order(ctx);
  order.place(0, ctx.integer(0), ctx.integer(64));
  order.place(1, line, bytes);
  order.place(2, ctx.max(line, ctx.add(line, bytes)), bytes);        // on top of 1
  order.place(3, line, ctx.mul(bytes, ctx.integer(2)));              // over 1 and 2
  CHECK(order.after({{0, true}}) == 0);
  CHECK(order.after({{1, true}}) == 0);
  CHECK(order.after({{2, true}}) == 0);
  CHECK(order.after({{3, true}}) == 3);
  CHECK(order.after({{0, false}}) == 1);
}

TEST_CASE("places in one output are compared, those in two are apart") {
  ir::Context ctx;
  const ir::Expr *n = ctx.sym(ctx.declare_sym("n")), *bytes = ctx.mul(n, ctx.integer(64));
  plan::Order order(ctx);
  order.place(0, ctx.integer(0), ctx.mul(bytes, ctx.integer(2)), 5);
  order.place(1, ctx.integer(0), bytes, 5);
  order.place(2, bytes, bytes, 5);
  order.place(3, ctx.integer(0), bytes, 6);
  CHECK(order.after({{1, true}}) == 0);
  CHECK(order.after({{2, true}}) == 0);
  CHECK(order.after({{3, true}}) == 0);
  CHECK(order.after({{0, false}}) == 2);
}
