// A session of two functions on a device that is made up, beside an executor that does what the device cannot.
#pragma once

#include <doctest/doctest.h>

#include <cstring>

#include "packager/plan/text.h"
#include "runtime/plan/device/device_runner.h"
#include "tests/support/fake_device.h"

namespace mlc::exec::test_rig {

using test::FakeDevice;

inline std::span<float> floats(std::span<std::byte> b) { return {reinterpret_cast<float*>(b.data()), b.size() / 4}; }

// Kernel 0: y = a + b; 1: s = s + x, y = s.
inline const std::vector<FakeDevice::KernelRow>& kernel_rows() {
  static const std::vector<FakeDevice::KernelRow> rows = {
      {[](std::span<const std::span<std::byte>> b, std::span<const int64_t>) {
         for (size_t i = 0; i < floats(b[2]).size(); ++i) floats(b[2])[i] = floats(b[0])[i] + floats(b[1])[i % floats(b[1]).size()];
         return 0u;
       }, 3, 0, 4},
      {[](std::span<const std::span<std::byte>> b, std::span<const int64_t>) {
         for (size_t i = 0; i < floats(b[1]).size(); ++i) floats(b[2])[i] = floats(b[1])[i] += floats(b[0])[i];
         return 0u;
       }, 3, 0, 6}};
  return rows;
}

// The same kernels, on the processor.
struct HostKernels final : KernelModule {
  mutable uint64_t launches = 0;
  uint32_t num_kernels() const override { return static_cast<uint32_t>(kernel_rows().size()); }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t kernel, const MlrunLaunch& l, uint32_t, uint32_t, WorkMeter&) const override {
    ++launches;
    std::vector<std::span<std::byte>> buffers;
    for (uint32_t k = 0; k < kernel_rows()[kernel].buffers; ++k) buffers.emplace_back(static_cast<std::byte*>(l.buffers[k]), static_cast<size_t>(l.lengths[k]));
    return static_cast<int32_t>(kernel_rows()[kernel].run(buffers, {}));
  }
};

struct Tensors final : Constants {
  alignas(64) float values[16] = {0.5f, 0.5f, 0.5f, 0.5f};
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return reinterpret_cast<const std::byte*>(values); }
};

// "sum": y = x + the derived constant, which is a copy of the tensor, + x; "keep": y and the state are the sum of all x. `steps`: of
// the launches in "sum", a turn for each element.
inline std::string plan_text(const std::string& steps = "steps $1") {
  return R"(plan
derive "derive" 16
function "derive" {
  $0 = const 16
  $1 = const 0
  $2 = const 4
  buffer #0 f32 bytes $0 constant 0 copy 0
  buffer #1 f32 bytes $0 derived 0
  arena $1
  copy (#1, #0)
}
function "keep" {
  $0 = const 16
  $1 = const 4
  $2 = const 1
  buffer #0 f32 bytes $0 input 0
  buffer #1 f32 bytes $0 output 0
  buffer #2 f32 bytes $0 state 0
  input "x" f32 [$1] #0
  output "y" f32 [$1] #1
  arena $1
  launch 1 (#0, #2, #1) () tiles $2 steps $1 "keep"
}
function "sum" {
  $0 = const 4
  $1 = dim 0 0
  $2 = mul $0 $1
  $3 = const 16
  $4 = const 1
  $5 = const 0
  $6 = const 255
  $7 = add $2 $6
  $8 = const 256
  $9 = floordiv $7 $8
  $10 = mul $9 $8
  buffer #0 f32 bytes $2 input 0
  buffer #1 f32 bytes $2 output 0
  buffer #2 f32 bytes $2 arena $5
  buffer #3 f32 bytes $3 derived 0
  input "x" f32 [$1] #0
  output "y" f32 [$1] #1
  arena $10
  launch 0 (#0, #3, #2) () tiles $4 )" + steps + R"( "first"
  launch 0 (#2, #0, #1) () tiles $4 )" + steps + R"( "second"
}
)";
}

struct DeviceRig {
  FakeDevice device;
  HostKernels host;
  Tensors tensors;
  Plan plan;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<DeviceConstants> weights;
  std::unique_ptr<Executor> other, executor;
  std::vector<std::string> lines;
  bool forbidden = false;

  explicit DeviceRig(const std::string& text = plan_text()) {
    device.kernels = kernel_rows();
    device.told.title = "fake";
    auto parsed = plan::parse(text);
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().message));
    auto decoded = decode_plan(plan::encode(*parsed), {2, [](uint32_t, uint32_t) { return std::optional<uint64_t>(64); }});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    PoolOptions o;
    o.workers = 1;
    pool = WorkerPool::create(o).value();
    weights = std::make_unique<DeviceConstants>(device);
    other = Executor::create(plan, host, tensors, *pool, Limits()).value();
    const auto open = [this]() -> Result<Substitute::Other> {
      if (forbidden) return Status(Code::NoVariant, "'fake' is required");
      return Substitute::Other{&plan, other.get(), "host"};
    };
    auto substitute = std::make_unique<Substitute>(open, [this](const std::string& line) { lines.push_back(line); });
    auto runner = DeviceRunner::create(device, std::make_unique<FakeDevice::FakeModule>(device), plan, tensors, *weights, std::move(substitute)).value();
    executor = Executor::create(plan, std::move(runner), *pool, Limits()).value();
  }
  Status run(const char* name, int64_t n, std::vector<float>& y, CancelFlag* cancelled = nullptr) {
    std::vector<float> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
    const InputArg in{DType::F32, {&n, 1}, x.data(), x.size() * 4};
    OutputArg out;
    MLC_RETURN_IF_ERROR(executor->run(*plan.find(name), {&in, 1}, {&out, 1}, {cancelled, std::nullopt}));
    y.assign(static_cast<const float*>(out.data), static_cast<const float*>(out.data) + out.bytes / 4);
    return ok();
  }
  void check_sum(int64_t n) {
    std::vector<float> y;
    const Status s = run("sum", n, y);
    REQUIRE_MESSAGE(s.ok(), s.message);
    REQUIRE(y.size() == static_cast<size_t>(n));
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == 2 * float(i) + 0.5f);
    CHECK(device.races.empty());
  }
};

}  // namespace mlc::exec::test_rig
