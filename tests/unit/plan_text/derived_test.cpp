#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "packager/plan/print.h"
#include "packager/plan/text.h"
#include "runtime/plan/derived.h"
#include "runtime/plan/execute/executor.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

// main: y = derived constant 0, which is a copy of the container's only tensor; derived constant 1 begins with another one.
constexpr const char* kPlan = R"(plan
derive "derive" 64 128
function "derive" {
  $0 = const 64
  $1 = const 0
  buffer #0 f32 bytes $0 constant 0 copy 0
  buffer #1 f32 bytes $0 derived 0
  buffer #2 f32 bytes $0 derived 1
  arena $1
  copy (#1, #0)
  copy (#2, #1)
}
function "main" {
  $0 = const 64
  $1 = const 0
  $2 = const 16
  buffer #0 f32 bytes $0 output 0
  buffer #1 f32 bytes $0 derived 0
  output "y" f32 [$2] #0
  arena $1
  copy (#0, #1)
}
)";

struct NoKernels final : KernelModule {
  uint32_t num_kernels() const override { return 0; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch&, uint32_t, uint32_t, WorkMeter&) const override { return 0; }
};

struct OneTensor final : Constants {
  alignas(64) float values[16] = {};
  mutable std::atomic<int> acquired{0};
  std::atomic<bool> fail{false};
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override {
    ++acquired;
    if (fail) return Status(Code::BadSignature, "leaf 3 is damaged");
    return reinterpret_cast<const std::byte*>(values);
  }
};

Result<Plan> plan_of(std::string text) {
  auto parsed = plan::parse(text);
  if (!parsed) return std::move(parsed).status();
  return decode_plan(plan::encode(*parsed), {0, [](uint32_t t, uint32_t c) { return t == 0 && c == 0 ? std::optional<uint64_t>(64) : std::nullopt; }});
}

struct Rig {
  Plan plan = plan_of(kPlan).value();
  NoKernels module;
  OneTensor constants;
  std::unique_ptr<WorkerPool> pool;
  std::shared_ptr<DerivedConstants> shared = std::make_shared<DerivedConstants>();

  Rig() {
    PoolOptions o;
    o.workers = 2;
    pool = WorkerPool::create(o).value();
    for (int i = 0; i < 16; ++i) constants.values[i] = float(i);
  }
  std::unique_ptr<Executor> executor(const Limits& limits = {}) {
    return Executor::create(plan, module, constants, *pool, limits, {}, shared).value();
  }
  Status run(Executor& e, float& last) {
    OutputArg out;
    MLC_RETURN_IF_ERROR(e.run(*plan.find("main"), {}, {&out, 1}));
    last = static_cast<const float*>(out.data)[15];
    return ok();
  }
};

}  // namespace

TEST_CASE("derived constants are computed by the first session that needs them, and read by all") {
  Rig rig;
  auto first = rig.executor(), second = rig.executor();
  CHECK(rig.constants.acquired == 0);
  float last = 0;
  REQUIRE(rig.run(*first, last).ok());
  CHECK(last == 15);
  const auto* of_1 = reinterpret_cast<const float*>(rig.shared->blocks[1].data());
  CHECK(of_1[15] == 15);
  CHECK(of_1[31] == 0);
  rig.constants.values[15] = 99;  // would be seen if they were computed again
  REQUIRE(rig.run(*second, last).ok());
  CHECK(last == 15);
  CHECK(rig.constants.acquired == 1);
}

TEST_CASE("sessions that need derived constants at the same time get the same ones") {
  for (int round = 0; round < 20; ++round) {
    Rig rig;
    std::atomic<int> good{0};
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k)
      threads.emplace_back([&] {
        auto executor = rig.executor();
        float last = 0;
        if (rig.run(*executor, last).ok() && last == 15) ++good;
      });
    for (std::thread& t : threads) t.join();
    CHECK(good == 4);
    CHECK(rig.constants.acquired == 1);
  }
}

TEST_CASE("derived constants count against what a session may hold, whoever computed them") {
  Rig rig;
  auto large = rig.executor();
  const auto refuses = [&] {
    auto small = rig.executor({.max_memory_bytes = 2000});
    float last = 0;
    const Status s = rig.run(*small, last);
    return s.code == Code::Resource && s.number == 6006;
  };
  rig.plan.derived[1] = 4096;
  CHECK(refuses());
  float last = 0;
  REQUIRE(rig.run(*large, last).ok());
  CHECK(refuses());
}

TEST_CASE("who could not derive constants says why, and the next run tries again") {
  Rig rig;
  auto executor = rig.executor();
  float last = 0;
  rig.constants.fail = true;
  CHECK(rig.run(*executor, last).code == Code::BadSignature);
  CHECK(rig.run(*executor, last).code == Code::BadSignature);
  rig.constants.fail = false;
  REQUIRE(rig.run(*executor, last).ok());
  CHECK(last == 15);
  CHECK(executor->run(*rig.plan.find("derive"), {}, {}).code == Code::Usage);
}

TEST_CASE("plans whose derived constants break a rule are refused") {
  const auto says = [](std::string_view from, std::string_view to, std::string_view words) {
    std::string text = kPlan;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto plan = plan_of(text);
    REQUIRE(!plan.ok());
    INFO(plan.status().message);
    CHECK(plan.status().code == Code::Malformed);
    CHECK(plan.status().message.find(words) != std::string::npos);
  };
  says("derived 1\n", "derived 2\n", "no such derived constant");
  says("64 128", "18446744073709551615 128", "too large");
  says("64 128", "70368744177664 128", "too large");
  says("derive \"derive\" 64 128\n", "", "no such derived constant");
  says("derive \"derive\"", "derive \"main\"", "operands");  // then the other one writes them
  says("buffer #2 f32 bytes $0 derived 1", "buffer #2 f32 bytes $1 output 0\n  output \"z\" f32 [$0] #2", "without inputs and outputs");
  says("buffer #2 f32 bytes $0 derived 1", "buffer #2 f32 bytes $1 state 0", "do not depend on states");
  says("copy (#0, #1)", "copy (#1, #0)", "operands");  // main writes one
  says("function \"derive\" {", "function \"caller\" {\n  input \"x\" f32 [] %0\n  output \"y\" f32 rank 0 %0\n  call \"derive\" ()\n}\nfunction \"derive\" {",
       "derives constants");
}

TEST_CASE("a derived constant is not read beyond its length") {
  Rig rig;
  rig.plan = plan_of(std::string(kPlan).replace(std::string(kPlan).find("64 128"), 6, "60 128")).value();
  auto executor = rig.executor();
  float last = 0;
  const Status s = rig.run(*executor, last);
  CHECK(s.code == Code::Malformed);
  CHECK(s.message.find("longer than the derived constant") != std::string::npos);
}

TEST_CASE("derived constants survive the text of a plan") {
  const Plan plan = plan_of(kPlan).value();
  CHECK(plan::print(plan).rfind("plan\nderive \"derive\" 64 128\n", 0) == 0);
  const auto again = plan::parse(plan::print(plan));
  REQUIRE(again.ok());
  CHECK(again->derived == plan.derived);
  CHECK(again->derive == plan.derive);
  CHECK(plan::encode(*again) == plan::encode(plan));
}
