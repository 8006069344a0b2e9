// Steps that a service of the application does, in plans written as text: the call, plans that are refused, services
// that fail or lie.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "packager/plan/print.h"
#include "packager/plan/text.h"
#include "runtime/plan/execute/executor.h"
#include "runtime/plan/execute/service.h"
#include "tests/support/containers/misaligned_plan.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

struct NoKernels final : KernelModule {
  uint32_t num_kernels() const override { return 0; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch&, uint32_t, uint32_t, WorkMeter&) const override { return MLRUN_FAULT_BAD_CODE; }
};
struct NoConstants final : Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "none"); }
};

using Behaviour = std::function<Status(ServiceCall&)>;
Service service(const char* name, Behaviour& behaviour) {
  return {name, [](const Service& self, ServiceCall& call) { return (*static_cast<Behaviour*>(self.user))(call); },
          nullptr, &behaviour};
}

std::string refusal(const std::string& body) {
  auto text = plan::parse("plan\nfunction \"main\" {\n" + body + "}\n");
  if (!text.ok()) return "text: " + text.status().message;
  auto decoded = decode_plan(plan::encode(*text), {0, {}});
  return decoded.ok() ? std::string() : decoded.status().message;
}

struct Rig {
  Plan plan;
  NoKernels kernels;
  NoConstants constants;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<Executor> executor;
  std::vector<OutputArg> outputs;

  Rig(const std::string& body, const std::vector<Service>& services, Limits limits = {}) {
    auto text = plan::parse("plan\nfunction \"main\" {\n" + body + "}\n");
    REQUIRE_MESSAGE(text.ok(), (text.ok() ? std::string() : text.status().message));
    auto decoded = decode_plan(plan::encode(*text), {0, {}});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    CHECK(plan::print(plan) == plan::print(*plan::parse(plan::print(plan))));
    PoolOptions o;
    o.workers = 1;
    pool = WorkerPool::create(o).value();
    auto created = Executor::create(plan, kernels, constants, *pool, limits, services);
    REQUIRE(created.ok());
    executor = std::move(*created);
  }
  Status run(const std::vector<InputArg>& inputs) {
    outputs.assign(plan.functions[0].outputs.size(), {});
    return executor->run(0, inputs, outputs);
  }
};

const char* const kPlan = R"(
  $0 = dim 0 0
  input "x" u8 [$0] %0
  %1, %2 = host "test.unpack" "three channels" u8 [-1, -1, 3], i64 [] (%0) "Unpack_1"
  output "y" u8 rank 3 %1
  output "n" i64 rank 0 %2
)";

}  // namespace

TEST_CASE("a service gets its options and operands and makes results of sizes that only it knows") {
  Behaviour unpack = [](ServiceCall& call) -> Status {
    CHECK(call.step.options == "three channels");
    REQUIRE(call.inputs.size() == 1);
    const auto* from = static_cast<const uint8_t*>(call.inputs[0].data);
    const int64_t shape[] = {from[0], from[1], 3};
    void *pixels = nullptr, *count = nullptr;
    MLC_RETURN_IF_ERROR(call.make(0, DType::U8, shape, pixels));
    MLC_RETURN_IF_ERROR(call.make(1, DType::I64, {}, count));
    CHECK(reinterpret_cast<uintptr_t>(pixels) % 64 == 0);
    std::memset(pixels, from[2], static_cast<size_t>(shape[0] * shape[1] * 3));
    *static_cast<int64_t*>(count) = shape[0] * shape[1];
    return ok();
  };
  const std::vector<Service> services{service("test.unpack", unpack)};
  Rig rig(kPlan, services);
  for (const uint8_t height : {2, 5, 0, 2}) {
    const uint8_t file[] = {height, 4, 9};
    const int64_t shape[] = {3};
    REQUIRE(rig.run({{DType::U8, shape, file, 3}}).ok());
    CHECK(rig.outputs[0].shape[0] == height);
    CHECK(rig.outputs[0].bytes == height * 12u);
    if (height) CHECK(static_cast<const uint8_t*>(rig.outputs[0].data)[height * 12 - 1] == 9);
    CHECK(*static_cast<const int64_t*>(rig.outputs[1].data) == height * 4);
  }
}

TEST_CASE("a plan whose service nobody offers is refused before anything runs") {
  auto decoded =
      decode_plan(plan::encode(*plan::parse(std::string("plan\nfunction \"main\" {\n") + kPlan + "}\n")), {0, {}});
  REQUIRE(decoded.ok());
  PoolOptions o;
  o.workers = 1;
  auto pool = WorkerPool::create(o).value();
  NoKernels kernels;
  NoConstants constants;
  Behaviour nothing = [](ServiceCall&) { return ok(); };
  const std::vector<Service> others{service("test.unpac", nothing), service("test.unpack2", nothing)};
  for (const auto& offered : {std::span<const Service>(), std::span<const Service>(others)}) {
    const auto created = Executor::create(*decoded, kernels, constants, *pool, {}, offered);
    REQUIRE(!created.ok());
    CHECK(created.status().code == Code::NoVariant);
    CHECK(created.status().message == "the application does not offer the service 'test.unpack'");
  }
}

TEST_CASE("a service that fails or lies fails the run and nothing else") {
  Behaviour behaviour;
  const std::vector<Service> services{service("test.unpack", behaviour)};
  Limits limits;
  limits.max_memory_bytes = 8 << 20;
  Rig rig(kPlan, services, limits);
  const uint8_t file[] = {1, 2, 3};
  const int64_t length[] = {3};
  const auto outcome = [&](Behaviour b) {
    behaviour = std::move(b);
    const Status status = rig.run({{DType::U8, length, file, 3}});
    const std::string where = "'main', step 0 (Unpack_1): test.unpack: ", none = "'main', step 0 (Unpack_1): ";
    CHECK(!status.ok());
    return status.message.substr(status.message.find(where) == 0  ? where.size()
                                 : status.message.find(none) == 0 ? none.size()
                                                                  : 0);
  };
  const auto making = [&](uint32_t result, DType dtype, std::vector<int64_t> shape) {
    return outcome([=](ServiceCall& call) {
      void* data = nullptr;
      return call.make(result, dtype, shape, data);
    });
  };
  const std::string no_shape = "'test.unpack' gives result 0 another shape than the step wants";
  CHECK(outcome([](ServiceCall&) { return Status(Code::Malformed, "no picture"); }) == "no picture");
  CHECK(outcome([](ServiceCall&) { return ok(); }) == "'test.unpack' does not give all of its results");
  CHECK(making(0, DType::U8, {2, 2, 3}) == "'test.unpack' does not give all of its results");
  CHECK(making(2, DType::U8, {2, 2, 3}) == "'test.unpack' gives result 2 of none");
  CHECK(making(UINT32_MAX, DType::U8, {2, 2, 3}) == "'test.unpack' gives result 4294967295 of none");
  CHECK(making(0, DType::I8, {2, 2, 3}) == "'test.unpack' gives result 0 another type than the step wants");
  CHECK(making(0, DType::None, {2, 2, 3}) == "'test.unpack' gives result 0 another type than the step wants");
  CHECK(making(1, DType::U8, {}) == "'test.unpack' gives result 1 another type than the step wants");
  CHECK(making(0, DType::U8, {2, 2, 4}) == no_shape);
  CHECK(making(0, DType::U8, {2, 2}) == no_shape);
  CHECK(making(0, DType::U8, {2, 2, 3, 1}) == no_shape);
  CHECK(making(0, DType::U8, {-1, 2, 3}) == no_shape);
  CHECK(making(0, DType::U8, {INT64_MIN, 2, 3}) == no_shape);
  CHECK(making(0, DType::U8, {INT64_MAX, INT64_MAX, 3}).find("values of 18446744073709551615 bytes") == 0);
  CHECK(making(0, DType::U8, {1 << 20, 100, 3}).find("values of ") == 0);  // more than the session may have
  CHECK(outcome([](ServiceCall& call) {
          const int64_t shape[] = {1, 1, 3};
          void* data = nullptr;
          MLC_RETURN_IF_ERROR(call.make(0, DType::U8, shape, data));
          return call.make(0, DType::U8, shape, data);
        }) == "'test.unpack' gives result 0 twice");
}

TEST_CASE("a service is told what the session's limit leaves, and blocks kept for the next run count as left") {
  std::vector<uint64_t> told;
  Behaviour unpack = [&](ServiceCall& call) -> Status {
    told.push_back(call.available());
    const int64_t shape[] = {1 << 20, 1, 3};
    void *pixels = nullptr, *count = nullptr;
    MLC_RETURN_IF_ERROR(call.make(0, DType::U8, shape, pixels));
    told.push_back(call.available());
    return call.make(1, DType::I64, {}, count);
  };
  const std::vector<Service> services{service("test.unpack", unpack)};
  Limits limits;
  limits.max_memory_bytes = 8 << 20;
  Rig rig(kPlan, services, limits);
  const uint8_t file[] = {1, 2, 3};
  const int64_t length[] = {3};
  for (int run = 0; run < 3; ++run) REQUIRE(rig.run({{DType::U8, length, file, 3}}).ok());
  REQUIRE(told.size() == 6);
  CHECK(told[0] <= 8 << 20);
  CHECK(told[0] > 7 << 20);
  CHECK(told[1] <= told[0] - (3 << 20));
  CHECK(told[2] == told[4]);  // the pixels of the run before are still the caller's
  CHECK(told[3] == told[5]);
}

TEST_CASE("what a step expects of its service may lie out of alignment") {  // the sanitizer sees it read as it must not be
  auto bytes = plan::encode(*plan::parse("plan\nfunction \"main\" {\n" + std::string(kPlan) + "}\n"));
  test::misalign_results(bytes);
  const auto decoded = decode_plan(bytes, {0, {}});
  REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
  CHECK(decoded->functions[0].steps[0].results == std::vector<int64_t>{15, 3, -1, -1, 3, 7, 0});
}

TEST_CASE("plans with services that are put together wrongly are refused") {
  const auto step = [](const std::string& text) {
    return "$0 = dim 0 0\ninput \"x\" u8 [$0] %0\n" + text + "\noutput \"y\" u8 rank 1 %1\n";
  };
  CHECK(refusal(step("%1 = host \"a.b\" \"\" u8 [-1] (%0)")).empty());
  CHECK(refusal(step("%1 = host \"a.b\" \"\" u8 [-1] ()")).empty());
  const std::string unfit = "plan: 'main': step 0: its operands are not what it takes";
  CHECK(refusal(step("%1 = host \"\" \"\" u8 [-1] (%0)")).find("name of a service") != std::string::npos);
  CHECK(refusal(step("%1 = host \"a\nb\" \"\" u8 [-1] (%0)")).find("name of a service") != std::string::npos);
  CHECK(refusal(step("%1 = host \"a.b\" \"\" u8 [-2] (%0)")) == unfit);
  CHECK(refusal(step("%1 = host \"a.b\" \"\" str [-1] (%0)")) == unfit);
  CHECK(refusal(step("%1 = host \"a.b\" \"\" u8 [1,1,1,1,1,1,1,1,1] (%0)")) == unfit);
  CHECK(refusal(step("%1 = host \"a.b\" \"\" (%0)")) == "plan: 'main': step 0: number of results");
  CHECK(refusal(step("%1 = host \"a.b\" \"\" u8 [1], u8 [1] (%0)")) == "plan: 'main': step 0: number of results");
  CHECK(refusal(step("%1 = host \"a.b\" \"\" u8 [1] (-)")) ==
        "plan: 'main': step 0: reads a value before it is written");
  CHECK(refusal(step("%2 = list_make (%0)\n%1 = host \"a.b\" \"\" u8 [1] (%2)")).find("its operands") != std::string::npos);

  // What the text form cannot say: numbers that describe no results, a zero in the options, a service elsewhere.
  const auto changed = [&](const std::function<void(Step&)>& change) {
    auto parsed = plan::parse("plan\nfunction \"main\" {\n" + step("%1 = host \"a.b\" \"\" u8 [-1] (%0)") + "}\n");
    REQUIRE(parsed.ok());
    change(parsed->functions[0].steps[0]);
    auto decoded = decode_plan(plan::encode(*parsed), {0, {}});
    return decoded.ok() ? std::string() : decoded.status().message;
  };
  for (const std::vector<int64_t>& numbers : std::vector<std::vector<int64_t>>{{15},
                                                                               {15, 1},
                                                                               {15, 2, -1},
                                                                               {15, -1},
                                                                               {15, INT64_MIN},
                                                                               {15, INT64_MAX, 1},
                                                                               {0, 1, -1},
                                                                               {-1, 1, -1},
                                                                               {static_cast<int64_t>(kLastDType) + 1, 1, -1},
                                                                               {INT64_MAX, 1, -1},
                                                                               {271, 1, -1}})
    CHECK(changed([&](Step& s) { s.results = numbers; }) == unfit);
  CHECK(changed([](Step& s) { s.options = std::string("a\0b", 3); }) == unfit);
  CHECK(changed([](Step& s) { s.functions = {0}; }) == "plan: 'main': step 0: number of functions");
  CHECK(changed([](Step& s) { s.op = StepOp::ListLength; }) == unfit);
  CHECK(changed([](Step&) {}).empty());
}
