// Memory that nobody owns is poisoned: what the plan fuzzer and every test under AddressSanitizer rely on to see an access
// to it. Without the sanitizer there is nothing to test.
#include "runtime/memory/poison.h"

#ifdef MLC_ADDRESS_SANITIZER

#include <doctest/doctest.h>

#include "runtime/memory/aligned_block.h"
#include "runtime/plan/execute/executor.h"
#include "runtime/plan/value.h"
#include "tests/support/containers/plan_maker.h"

using namespace mlc;
using namespace mlc::exec;
namespace fbp = mlc::fb::plan;

namespace {

// Bytes from `p` on that may be accessed, up to a poisoned one.
uint64_t usable(const void* p) {
  uint64_t n = 0;
  while (n < (1 << 22) && !__asan_address_is_poisoned(static_cast<const std::byte*>(p) + n)) ++n;
  return n;
}

struct NoConstants final : Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "none"); }
};

// Writes down what may be accessed at the start of each buffer, and of the scratch.
struct Prober final : KernelModule {
  mutable std::vector<uint64_t> found;
  uint32_t num_kernels() const override { return 2; }
  uint64_t scratch_bytes(uint32_t k) const override { return k == 0 ? 1000 : 65; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch& l, uint32_t, uint32_t, WorkMeter&) const override {
    for (int i = 0; i < 2; ++i) found.push_back(usable(l.buffers[i]));
    found.push_back(usable(l.scratch));
    return 0;
  }
};

}  // namespace

TEST_CASE("of a block its bytes and the rest of their last line are usable, and nothing once it has been given back") {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, uint64_t{900}, uint64_t{33'000}, uint64_t{1'000'000}}) {
    MemoryBudget budget{4 << 20, 0};
    BlockPool pool(budget);
    PoolBlock block;
    REQUIRE(pool.take(Content::Elements, bytes, block).ok());
    CHECK(usable(block.data) == (bytes + 63) / 64 * 64);
    pool.give_back(block);
    CHECK(usable(block.data) == 0);
    PoolBlock again;
    REQUIRE(pool.take(Content::Elements, BlockPool::capacity(block), again).ok());
    CHECK(again.data == block.data);
    CHECK(usable(again.data) >= BlockPool::capacity(again));
    CHECK(usable(again.data) < BlockPool::capacity(again) + 64);
    pool.give_back(again);
  }
}

TEST_CASE("a list and an array are usable as far as they have grown") {
  MemoryBudget budget{4 << 20, 0};
  BlockPool pool(budget);
  Value list, item;  // blocks that are new lie in the order in which they are taken
  REQUIRE(make_array(pool, DType::U8, {}, 5000, item).ok());
  REQUIRE(make_list(pool, DType::U8, 1, 0, list).ok());
  for (uint64_t n = 1; n < 1000; ++n) {
    REQUIRE(append(list, item).ok());
    REQUIRE(usable(list->data) == (8 * n + 63) / 64 * 64);
  }
  set_size(*item.node(), 100);
  CHECK(usable(item->data) == 128);
  PoolArray<uint64_t> array(pool);
  REQUIRE(array.resize(100).ok());
  CHECK(usable(array.data()) == 832);
  REQUIRE(array.resize(1).ok());
  CHECK(usable(array.data()) == 64);
}

TEST_CASE("of the arena a run may touch its buffers, not what lies between them; of the scratch, what the kernel asks for") {
  test::PlanMaker m;
  const uint32_t one = m.constant(1), zero = m.constant(0), bytes = m.constant(100), n = m.dim(0, 0);
  m.arena_bytes = m.constant(4000);
  const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::U8, 0, n), y = m.buffer(fbp::BufferKind_Output, DType::U8, 0, n);
  const uint32_t a = m.buffer(fbp::BufferKind_Arena, DType::U8, 0, bytes, zero);
  const uint32_t b = m.buffer(fbp::BufferKind_Arena, DType::U8, 0, bytes, m.constant(256));
  m.inputs = {{"x", DType::U8, x, {n}}};
  m.outputs = {{"y", DType::U8, y, {n}}};
  m.body.push_back({fbp::InstrOp_Launch, 0, {a, x}, {}, one});
  m.body.push_back({fbp::InstrOp_Launch, 1, {b, y}, {}, one});
  const Plan plan = decode_plan(m.bytes(), {2, {}}).value();
  const auto pool = WorkerPool::create({.workers = 1}).value();
  Prober prober;
  NoConstants constants;
  const auto executor = std::move(Executor::create(plan, prober, constants, *pool, {})).value();
  const std::vector<uint8_t> data(2000);
  for (const int64_t extent : {1000, 70}) {  // the second run needs less of the same memory
    prober.found.clear();
    const InputArg in{DType::U8, {&extent, 1}, data.data() + 1, static_cast<uint64_t>(extent)};
    OutputArg out;
    REQUIRE(executor->run(0, {&in, 1}, {&out, 1}).ok());
    const uint64_t lines = extent == 70 ? 128 : 1024;
    CHECK(prober.found == std::vector<uint64_t>{128, lines, 1024, 128, lines, 128});
  }
}

#endif
