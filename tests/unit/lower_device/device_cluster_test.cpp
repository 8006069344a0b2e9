// Products whose fold is cut in parts that blocks of a cluster have: one launch that adds them up itself. Right on the interpreter and on the executor, whatever the
// number of blocks, rows, columns and types are; and each of the barriers that make it so is needed.
#include "packager/loop/verify.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using test::NestMaker;

namespace {

const targets::Target& sm90() { return *targets::find_target("cuda-sm90"); }

struct Size {
  int64_t m, k, n;
};

// One launch, in a cluster.
std::string schedule_of(ir::Context& ctx, const nest::Function& f, uint32_t* blocks = nullptr) {
  const auto kernels = lower::lower(ctx, f, f.body[0], sm90(), test::test_math);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  REQUIRE(kernels->size() == 1);
  if (blocks) *blocks = kernels->front().cluster;
  return kernels->front().schedule;
}

void check(ir::Context& ctx, const nest::Function& f, const test::Symbols& symbols = {}) {
  test::check_kernels(f, test::lower_all(ctx, f, sm90(), test::test_math), sm90(), symbols, 1, 1e-4);
  CHECK(test::check_emitted(ctx, f, sm90(), symbols).conflicts == 0);
}

// What is wrong with a run of the kernel, on the interpreter or on the executor; empty: nothing.
std::string run_once(const nest::Function& f, const loop::Kernel& kernel, bool on_executor) {
  std::mt19937 rng(5);
  std::vector<nest::Tensor> inputs;
  for (const uint32_t a : f.inputs) inputs.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], {})));
  auto memory = test::memory_of(f, inputs, {});
  loop::Run run;
  run.value = [](const ir::Sym*) { return std::nullopt; };
  for (const loop::Param& p : kernel.params) run.buffers.emplace_back(memory[p.array]);
  run.tile_end = kernel.tiles->i;
  testing::lanes::Counts counts;
  const auto result = on_executor ? test::on_executor(sm90(), counts)(kernel, run) : loop::interpret(kernel, run);
  return result.ok() ? "" : result.status().text();
}

using Change = std::function<void(std::vector<loop::StmtPtr>&)>;
void each_block(std::vector<loop::StmtPtr>& block, const Change& change) {
  change(block);
  for (loop::StmtPtr& s : block) each_block(s->body, change), each_block(s->orelse, change);
}

}  // namespace

TEST_CASE("parts of a sum are blocks of a cluster, by warps and by slices, of every type") {
  for (const DType t : {DType::F32, DType::F16})
    for (const auto& [m, k, n] : {Size{33, 1024, 40}, {49, 2304, 96}, {128, 768, 64}, {1, 4096, 48}, {1, 1920, 50}, {3, 2048, 20}}) {
      CAPTURE(name_of(t));
      CAPTURE(m);
      CAPTURE(k);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n), true, true, t);
      uint32_t blocks = 0;
      const std::string schedule = schedule_of(ctx, maker.f, &blocks);
      CHECK(schedule.starts_with(m <= 3 ? "slices " : "tile "));
      CHECK(schedule.find(":1 cluster") != std::string::npos);
      CHECK(blocks > 1);
      CHECK(schedule::parse(schedule).ok());
      check(ctx, maker.f);
    }
}

TEST_CASE("a convolution of a small picture is blocks of a cluster along its channels") {
  for (const bool channels_last : {true, false}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.conv({.h = 5, .w = 7, .c = 256, .m = 40, .channels_last = channels_last, .residual = true});
    CHECK(schedule_of(ctx, maker.f).find(":1 cluster") != std::string::npos);
    check(ctx, maker.f);
  }
}

TEST_CASE("few rows that only the run knows are blocks of a cluster; many rows and other devices have none") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym* rows = ctx.declare_sym("rows", 0, 100000);
  maker.matmul(ctx.sym(rows), maker.n(2048), maker.n(64));
  for (const int64_t n : {0, 1, 4, 5, 40}) check(ctx, maker.f, {{rows, n}});
  const auto clusters = [&](const char* name) {
    std::string all;
    const auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], *targets::find_target(name), test::test_math);
    REQUIRE(kernels.ok());
    for (const loop::Kernel& kernel : *kernels) all += kernel.cluster > 1 ? 'c' : '-';
    return all;
  };
  CHECK(clusters("cuda-sm90").find('c') == 0);
  CHECK(clusters("cuda-sm90").back() == '-');
  CHECK(clusters("cuda-sm80").find('c') == std::string::npos);
  CHECK(clusters("vulkan-subgroup").find('c') == std::string::npos);
}

TEST_CASE("every barrier of a cluster is needed") {
  for (const int64_t rows : {3, 100}) {
    CAPTURE(rows);
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(rows), maker.n(2048), maker.n(64));
    const nest::Function& f = maker.f;
    size_t count = 0;
    for (size_t broken = 0; broken <= count; ++broken) {  // 0: none
      CAPTURE(broken);
      auto kernels = lower::lower(ctx, f, f.body[0], sm90(), test::test_math);
      REQUIRE(kernels.ok());
      size_t seen = 0;
      each_block((*kernels)[0].body, [&](std::vector<loop::StmtPtr>& block) {
        for (loop::StmtPtr& s : block)
          if (s->kind == loop::StmtKind::ClusterBarrier && ++seen == broken) s->kind = loop::StmtKind::Barrier;
      });
      count = seen;
      REQUIRE(count >= 2);
      for (const bool on_executor : {false, true}) {
        const std::string wrong = run_once(f, (*kernels)[0], on_executor);
        CHECK_MESSAGE(wrong.empty() == (broken == 0), wrong);
      }
    }
  }
}

TEST_CASE("clusters that are none are refused") {
  ir::Context ctx;
  const auto refusal = [&](const std::function<void(loop::Kernel&)>& change) {
    NestMaker maker(ctx);
    maker.matmul(maker.n(3), maker.n(2048), maker.n(64));
    auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], sm90(), test::test_math);
    REQUIRE(kernels.ok());
    change((*kernels)[0]);
    return loop::verify((*kernels)[0]).text();
  };
  CHECK(refusal([](loop::Kernel& k) { k.cluster = 9; }).find("a cluster of 9 blocks") != std::string::npos);
  CHECK(refusal([](loop::Kernel& k) { k.cluster = 1; }).find("of a cluster of 1") != std::string::npos);
  CHECK(refusal([](loop::Kernel& k) { k.resident = loop::kMostResidentLanes / k.lanes + 1; }).find("blocks of a multiprocessor") != std::string::npos);
  CHECK(refusal([](loop::Kernel& k) { k.resident = loop::kMostResidentLanes / k.lanes; }).find("blocks of a multiprocessor") == std::string::npos);
  CHECK(refusal([&](loop::Kernel& k) { k.tiles = ctx.integer(k.tiles->i + 1); }).find("tiles that are no whole clusters") != std::string::npos);
  CHECK(refusal([](loop::Kernel& k) {
          each_block(k.body, [&](std::vector<loop::StmtPtr>& block) {
            for (loop::StmtPtr& s : block)
              if (s->kind == loop::StmtKind::Peer) s->step = 8;
          });
        }).find("block 8 of a cluster") != std::string::npos);
}
