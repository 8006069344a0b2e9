// Segments on a device that is made up: recorded once per binding, ordered by barriers, failing where it fails.
#include "runtime/plan/device/device_runner.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/containers/plan_maker.h"
#include "tests/support/fake_device.h"

namespace mlc::exec {
namespace {

using test::FakeDevice;
using test::PlanMaker;
namespace fbp = mlc::fb::plan;

std::span<float> floats(std::span<std::byte> b) { return {reinterpret_cast<float*>(b.data()), b.size() / 4}; }

struct ConstantsOfTest final : Constants {
  alignas(64) float values[16] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160};
  mutable int acquired = 0;
  bool fail = false;
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override {
    ++acquired;
    if (fail) return Status(Code::BadSignature, "a leaf is damaged");
    return reinterpret_cast<const std::byte*>(values);
  }
};

// Kernel 0: y = x + 1; 1: y = 2 x; 2: faults; 3: y = x + c.
struct Rig {
  FakeDevice device;
  ConstantsOfTest constants;
  Plan plan;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<DeviceConstants> weights;
  std::unique_ptr<Executor> executor;

  explicit Rig(const PlanMaker& m) {
    const auto unary = [](float a, float b) {
      return [a, b](std::span<const std::span<std::byte>> buffers, std::span<const int64_t>) {
        const auto x = floats(buffers[0]), y = floats(buffers[1]);
        for (size_t i = 0; i < y.size(); ++i) y[i] = a * x[i] + b;
        return 0u;
      };
    };
    device.kernels = {{unary(1, 1), 2, 1, 2}, {unary(2, 0), 2, 1, 2}, {[](auto, auto) { return uint32_t{MLRUN_FAULT_INDEX}; }, 2, 1, 2},
                      {[](std::span<const std::span<std::byte>> b, auto) {
                         for (size_t i = 0; i < floats(b[2]).size(); ++i) floats(b[2])[i] = floats(b[0])[i] + floats(b[1])[i];
                         return 0u;
                       }, 3, 0, 4}};
    auto decoded = decode_plan(m.bytes(), {4, [](uint32_t t, uint32_t c) { return t < 2 && c == 0 ? std::optional<uint64_t>(64) : std::nullopt; }});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    PoolOptions o;
    o.workers = 1;
    pool = WorkerPool::create(o).value();
    weights = std::make_unique<DeviceConstants>(device);
  }
  Status start() {
    MLC_ASSIGN(auto runner, DeviceRunner::create(device, std::make_unique<FakeDevice::FakeModule>(device), plan, constants, *weights));
    MLC_ASSIGN(executor, Executor::create(plan, std::move(runner), *pool, Limits()));
    return ok();
  }
  Status run(int64_t n, std::vector<float>& y) {
    std::vector<float> x(static_cast<size_t>(n) * 3);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
    const std::vector<int64_t> shape = {n, 3};
    const InputArg in{DType::F32, shape, x.data(), x.size() * 4};
    OutputArg out;
    MLC_RETURN_IF_ERROR(executor->run(0, {&in, 1}, {&out, 1}));
    y.assign(static_cast<const float*>(out.data), static_cast<const float*>(out.data) + out.bytes / 4);
    return ok();
  }
  void check(int64_t n) {
    std::vector<float> y;
    const Status s = run(n, y);
    REQUIRE_MESSAGE(s.ok(), s.message);
    REQUIRE(y.size() == static_cast<size_t>(n) * 3);
    for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == 2 * (float(i) + 1));
    CHECK(device.races.empty());
  }
};

TEST_CASE("a binding is recorded once and submitted for each run") {
  Rig rig(PlanMaker::two_steps());
  REQUIRE(rig.start().ok());
  rig.check(5);
  CHECK(rig.device.recordings == 1);
  const uint64_t allocations = rig.device.allocations;
  for (int k = 0; k < 3; ++k) rig.check(5);
  CHECK(rig.device.recordings == 1);
  CHECK(rig.device.submissions == 4);
  CHECK(rig.device.launches == 8);
  CHECK(rig.device.allocations == allocations);
  rig.check(2);    // fits in what is there
  CHECK(rig.device.recordings == 2);
  CHECK(rig.device.allocations == allocations);
  rig.check(900);  // memory moves: everything is recorded anew when it is used again
  rig.check(5);
  CHECK(rig.device.recordings == 4);
  rig.check(900);
  CHECK(rig.device.recordings == 4);
  CHECK(rig.executor->arena_bytes() >= 900 * 12);
}

TEST_CASE("sixteen sets of shapes are kept, and the seventeenth takes the place of the oldest") {
  Rig rig(PlanMaker::two_steps());
  REQUIRE(rig.start().ok());
  rig.check(100);
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 20; ++n) rig.check(n);
}

TEST_CASE("constants are uploaded once for all sessions of a container on a device") {
  PlanMaker m = PlanMaker::two_steps();
  const uint32_t bytes = m.constant(12);
  const uint32_t c = m.buffer(fbp::BufferKind_Constant, DType::F32, 0, bytes);
  const uint32_t t = m.buffer(fbp::BufferKind_Arena, DType::F32, 0, bytes, m.constant(4096));
  m.arena_bytes = m.constant(8192);
  const uint32_t x3 = m.buffer(fbp::BufferKind_Arena, DType::F32, 0, bytes, m.constant(0));
  const uint32_t y3 = m.buffer(fbp::BufferKind_Output, DType::F32, 0, bytes);
  m.body.push_back({fbp::InstrOp_Launch, 3, {x3, c, t}, {}, bytes});
  m.body.push_back({fbp::InstrOp_Copy, 0, {y3, t}, {}, 0});
  Rig rig(m);
  REQUIRE(rig.start().ok());
  std::vector<float> y;
  REQUIRE(rig.run(2, y).ok());
  CHECK(y == std::vector<float>{11, 22, 33, 8, 10, 12});  // x + 1 and the constant; 2 (x + 1)
  CHECK(rig.device.races.empty());
  CHECK(rig.constants.acquired == 1);
  REQUIRE(rig.run(4, y).ok());
  REQUIRE(rig.start().ok());  // another session
  REQUIRE(rig.run(2, y).ok());
  CHECK(y[2] == 33);
  CHECK(rig.constants.acquired == 1);
}

TEST_CASE("damaged constants end the run, and it can be tried again") {
  PlanMaker m = PlanMaker::two_steps();
  const uint32_t bytes = m.constant(12);
  const uint32_t c = m.buffer(fbp::BufferKind_Constant, DType::F32, 0, bytes);
  const uint32_t t = m.buffer(fbp::BufferKind_Arena, DType::F32, 0, bytes, m.constant(4096));
  m.arena_bytes = m.constant(8192);
  m.body.push_back({fbp::InstrOp_Copy, 0, {t, c}, {}, 0});
  Rig rig(m);
  REQUIRE(rig.start().ok());
  rig.constants.fail = true;
  std::vector<float> y;
  CHECK(rig.run(2, y).code == Code::BadSignature);
  rig.constants.fail = false;
  rig.check(2);
}

TEST_CASE("a fault names its kernel, and the device goes on") {
  PlanMaker m = PlanMaker::two_steps();
  m.body[1].index = 2;
  m.body[1].name = "gather";
  Rig rig(m);
  REQUIRE(rig.start().ok());
  std::vector<float> y;
  for (int k = 0; k < 2; ++k) {
    const Status s = rig.run(3, y);
    CHECK(s.code == Code::InputMismatch);
    CHECK(s.message.find("kernel 2 (gather) failed") != std::string::npos);
  }
  CHECK(rig.device.lost.empty());
}

TEST_CASE("each allocation fails once, with an error, and the next run is right") {
  for (uint64_t n = 1; n < 20; ++n) {
    Rig rig(PlanMaker::two_steps());
    REQUIRE(rig.start().ok());
    rig.device.fail_allocation = n;
    std::vector<float> y;
    const Status s = rig.run(50, y);
    if (s.ok()) {
      CHECK(n > 4);
      return;
    }
    CHECK(s.code == Code::Resource);
    CHECK(s.message.find("fake: no") != std::string::npos);
    rig.device.fail_allocation = 0;
    rig.check(50);
  }
  FAIL("there are not so many allocations");
}

TEST_CASE("what a device cannot do is refused before it is tried") {
  Rig rig(PlanMaker::two_steps());
  rig.device.limit.range_bytes = 1000;
  REQUIRE(rig.start().ok());
  rig.check(80);
  std::vector<float> y;
  const Status s = rig.run(100, y);
  CHECK(s.code == Code::Unsupported);
  CHECK(rig.device.submissions == 1);
  rig.check(80);
}

TEST_CASE("a lost device is said, and one that does not end is given up") {
  Rig lost(PlanMaker::two_steps());
  REQUIRE(lost.start().ok());
  lost.device.loses = true;
  std::vector<float> y;
  CHECK(lost.run(3, y).message.find("VK_ERROR_DEVICE_LOST") != std::string::npos);
  CHECK(lost.run(3, y).code == Code::Resource);

  Rig hung(PlanMaker::two_steps());
  REQUIRE(hung.start().ok());
  hung.device.hangs = true;
  const Status s = hung.run(3, y);
  CHECK(s.code == Code::Resource);
  CHECK(s.message.find("lost to this process") != std::string::npos);
  CHECK(!hung.device.lost.empty());
}

TEST_CASE("measured runs have the moments of each instruction") {
  Rig rig(PlanMaker::two_steps());
  REQUIRE(rig.start().ok());
  rig.check(5);
  rig.executor->set_profiling(true);
  rig.check(5);
  rig.check(5);
  const auto entry = rig.executor->profile(0, 1);
  REQUIRE(entry);
  CHECK(entry->runs == 2);
  CHECK(entry->op == InstrOp::Launch);
  const auto moments = rig.executor->moments(0, 1, 0);
  REQUIRE(moments);
  CHECK(moments->done >= moments->begin);
  CHECK(moments->left == moments->done);  // copies to the host that follow are not part of it
  CHECK(rig.device.submissions == 1 + 2 * 4);
  CHECK(!rig.executor->profile(0, 2));
}

}  // namespace
}  // namespace mlc::exec
