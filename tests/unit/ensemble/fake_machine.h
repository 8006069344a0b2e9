// A plan with a cut, and devices that are made up that run it.
#pragma once

#include <doctest/doctest.h>

#include "packager/plan/text.h"
#include "runtime/ensemble/part.h"
#include "runtime/plan/device/device_runner.h"
#include "tests/support/fake_device.h"

namespace mlc::test {

// t = x + 1, u = 2 t, v = u + 1, y = t + v; kernels 0: + 1, 1: times 2, 2: +.
inline constexpr char kPlan[] = R"(plan
function "main" {
  $0 = const 0
  $1 = const 4
  $2 = dim 0 0
  $3 = mul $2 $1
  $4 = const 4096
  $5 = const 8192
  $6 = const 16384
  buffer #0 f32 bytes $3 input 0
  buffer #1 f32 bytes $3 arena $0
  buffer #2 f32 bytes $3 arena $4
  buffer #3 f32 bytes $3 arena $5
  buffer #4 f32 bytes $3 output 0
  input "x" f32 [$2] #0
  output "y" f32 [$2] #4
  arena $6
  launch 0 (#0, #1) ($2) tiles $2 "t"
  launch 1 (#1, #2) ($2) tiles $2 "u"
  launch 0 (#2, #3) ($2) tiles $2 "v"
  launch 2 (#1, #3, #4) ($2) tiles $2 "y"
}
function "main.*" {
  $0 = dim 0 0
  input "x" f32 [$0] %0
  output "y" f32 rank 1 %4
  %1 = call "main.0" (%0) "t"
  %2 = call "main.1" (%1) "u"
  %3 = call "main.2" (%2) "v"
  %4 = call "main.3" (%1, %3) "y"
}
function "main.0" {
  $0 = const 0
  $1 = const 4
  $2 = dim 0 0
  $3 = mul $2 $1
  $4 = lt $0 $2
  check $4 after 5 "the batch is empty"
  buffer #0 f32 bytes $3 input 0
  buffer #1 f32 bytes $3 output 0
  input "x" f32 [$2] #0
  output "t" f32 [$2] #1
  arena $0
  launch 0 (#0, #1) ($2) tiles $2 operations $2 read $3 written $3 "t"
}
function "main.1" {
  $0 = const 0
  $1 = const 4
  $2 = dim 0 0
  $3 = mul $2 $1
  buffer #0 f32 bytes $3 input 0
  buffer #1 f32 bytes $3 output 0
  buffer #2 f32 bytes $3 arena $0
  input "t" f32 [$2] #0
  output "u" f32 [$2] #1
  arena $3
  launch 1 (#0, #2) ($2) tiles $2 operations $2 "u"
  copy (#1, #2)
}
function "main.2" {
  $0 = const 0
  $1 = const 4
  $2 = dim 0 0
  $3 = mul $2 $1
  buffer #0 f32 bytes $3 input 0
  buffer #1 f32 bytes $3 output 0
  input "u" f32 [$2] #0
  output "v" f32 [$2] #1
  arena $0
  launch 0 (#0, #1) ($2) tiles $2 operations $2 "v"
}
function "main.3" {
  $0 = const 0
  $1 = const 4
  $2 = dim 0 0
  $3 = mul $2 $1
  buffer #0 f32 bytes $3 input 0
  buffer #1 f32 bytes $3 input 1
  buffer #2 f32 bytes $3 output 0
  input "t" f32 [$2] #0
  input "v" f32 [$2] #1
  output "y" f32 [$2] #2
  arena $0
  launch 2 (#0, #1, #2) ($2) tiles $2 operations $2 "y"
}
)";

inline exec::Plan plan_of(const std::string& text) {
  auto parsed = plan::parse(text);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().message));
  const std::vector<std::byte> bytes = plan::encode(*parsed);
  auto decoded = exec::decode_plan(bytes, {3, [](uint32_t, uint32_t) { return std::optional<uint64_t>(); }});
  REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
  return std::move(*decoded);
}

struct NoConstants final : exec::Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "there are none"); }
};

inline std::span<float> floats(std::span<std::byte> b) { return {reinterpret_cast<float*>(b.data()), b.size() / 4}; }

struct Machine {  // a device and what runs on it
  FakeDevice device;
  NoConstants constants;
  exec::Plan plan;
  std::unique_ptr<WorkerPool> pool = WorkerPool::create(PoolOptions()).value();
  std::unique_ptr<exec::DeviceConstants> weights = std::make_unique<exec::DeviceConstants>(device);
  std::unique_ptr<exec::Executor> executor;

  explicit Machine(exec::Plan p) : plan(std::move(p)) {
    const auto unary = [](float a, float b) {
      return [a, b](std::span<const std::span<std::byte>> buffers, std::span<const int64_t>) {
        const auto x = floats(buffers[0]), y = floats(buffers[1]);
        for (size_t i = 0; i < y.size(); ++i) y[i] = a * x[i] + b;
        return 0u;
      };
    };
    device.kernels = {{unary(1, 1), 2, 1, 2}, {unary(2, 0), 2, 1, 2},
                      {[](std::span<const std::span<std::byte>> b, auto) {
                         for (size_t i = 0; i < floats(b[2]).size(); ++i) floats(b[2])[i] = floats(b[0])[i] + floats(b[1])[i];
                         return 0u;
                       }, 3, 1, 4}};
    auto runner = exec::DeviceRunner::create(device, std::make_shared<FakeDevice::FakeModule>(device), plan, constants, *weights);
    REQUIRE(runner.ok());
    auto made = exec::Executor::create(plan, std::move(*runner), *pool, exec::Limits());
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? std::string() : made.status().message));
    executor = std::move(*made);
  }
  ensemble::Part part(std::string name) { return {std::move(name), "fake", nullptr, &plan, executor.get(), &device}; }
};

}  // namespace mlc::test
