// Instructions of devices for what others compute by texts: powers of two, and two numbers rounded at once.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "packager/ir/context.h"
#include "packager/loop/verify.h"
#include "targets/families.h"
#include "tests/support/ptx/launch.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

namespace mlc {
namespace {

constexpr size_t kNumbers = 32;

// Each lane of one block computes `value`, of type `type`, of its number %4 and its neighbour's, %5.
loop::Kernel kernel_of_lanes(ir::Context& ctx, const std::string& type, const std::string& value) {
  auto all = loop::parse(ctx, "kernel \"k\" tiles 1 block 32 range %0 %1 {\n  param \"x\" f32 array 0\n  param \"y\" " + type + " out array 1\n  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 32 step 1 {\n"
                                  "      let %4.f32 = (load.f32 0 %3)\n      let %5.f32 = (load.f32 0 (floormod (add %3 1) 32))\n      store 1 [%3] " + value + "\n    }\n  }\n}\n");
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  const Status verified = loop::verify((*all)[0]);
  REQUIRE_MESSAGE(verified.ok(), verified.text());
  return std::move((*all)[0]);
}

std::vector<float> numbers_of_functions() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x{0, -0.0f, 1, -1, 0.25f, -17.3f, -125.5f, -126, -127, -1e30f, -kInf, kInf, 130, 1e-40f, std::nanf(""), 65504, 65520, -70000, 0x1.002p0f, 0x1.006p0f, 0x1.0101p0f, 3e-8f, 5e-8f};
  while (x.size() < kNumbers) x.push_back(static_cast<float>(x.size()) * -0.37f);
  return x;
}

// What the executor makes of the kernel for `target`, with its text; empty: the target has no such instruction.
std::string run_on(const targets::Target& target, const loop::Kernel& kernel, std::vector<float>& x, std::span<std::byte> y) {
  const auto module = targets::emit_module(target, std::span(&kernel, 1));
  if (!module.ok()) return "";
  CHECK(targets::audit_module(target, module->bytes).ok());
  const testing::ptx::LoadedModule loaded(module->bytes);
  REQUIRE(loaded.error() == "");
  std::vector<std::span<std::byte>> buffers{std::as_writable_bytes(std::span(x)), y};
  CHECK(testing::ptx::run_kernel(loaded, 0, buffers, {}, 1).error == "");
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  return {reinterpret_cast<const char*>(decoded->images[0].bytes.data()), decoded->images[0].bytes.size() - 1};
}

TEST_CASE("exp2 is an instruction of all targets of NVIDIA, of no other, and what the interpreter says") {
  ir::Context ctx;
  const loop::Kernel kernel = kernel_of_lanes(ctx, "f32", "(exp2.f32 %4)");
  std::vector<float> x = numbers_of_functions(), want(kNumbers);
  CHECK(loop::interpret(kernel, {{std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(want))}, [](const ir::Sym*) { return std::nullopt; }, 0, -1, {}}).ok());
  for (const targets::Target& target : targets::ptx::emitter().targets()) {
    CHECK(target.has_exp2);
    std::vector<float> got(kNumbers);
    CHECK(run_on(target, kernel, x, std::as_writable_bytes(std::span(got))).find("ex2.approx.ftz.f32") != std::string::npos);
    for (size_t k = 0; k < kNumbers; ++k) {
      CAPTURE(x[k]);
      CHECK((got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k]))));
      CHECK(std::isnan(want[k]) == std::isnan(x[k]));
    }
  }
  const targets::Target* other = targets::find_target("vulkan-base");
  REQUIRE(other);
  CHECK(!other->has_exp2);
  CHECK(!targets::emit_module(*other, std::span(&kernel, 1)).ok());
}

TEST_CASE("two numbers rounded to 16 bits in one word are one instruction from sm_80 on, and the same two anywhere") {
  for (const char* type : {"f16", "bf16"}) {
    ir::Context ctx;
    const auto half = [&](const char* number) { return std::string("(cast.u32 (bitcast.u16 (cast.") + type + " " + number + ")))"; };
    const loop::Kernel kernel = kernel_of_lanes(ctx, "u32", "(bitor.u32 " + half("%4") + " (shl.u32 " + half("%5") + " u32:16))");
    std::vector<float> x = numbers_of_functions();
    const DType t = std::string(type) == "f16" ? DType::F16 : DType::BF16;
    for (const targets::Target& target : targets::ptx::emitter().targets()) {
      CAPTURE(target.name);
      std::vector<uint32_t> got(kNumbers);
      const std::string text = run_on(target, kernel, x, std::as_writable_bytes(std::span(got)));
      REQUIRE(!text.empty());
      CHECK((text.find(std::string("cvt.rn.") + type + "x2.f32") != std::string::npos) == (target.name != "cuda-sm75"));
      for (size_t k = 0; k < 2 * kNumbers; ++k) {
        const float from = x[(k / 2 + k % 2) % kNumbers];
        CAPTURE(from);
        const auto bits = static_cast<uint16_t>(got[k / 2] >> (16 * (k % 2)));
        const double value = ir::load_element(t, &bits, 0).f;
        CHECK((value == ir::round_to(t, from) || (std::isnan(value) && std::isnan(from))));
      }
    }
  }
}

TEST_CASE("halves of two words as one are one instruction, and the same anywhere") {
  const std::string x = "(bitcast.u32 %4)", y = "(bitcast.u32 %5)";
  const std::string lower = "(bitor.u32 (bitand.u32 " + x + " u32:65535) (shl.u32 " + y + " u32:16))", upper = "(bitor.u32 (shr.u32 " + x + " u32:16) (bitand.u32 " + y + " u32:4294901760))";
  const std::string swapped = "(bitor.u32 (shl.u32 " + y + " u32:16) (bitand.u32 " + x + " u32:65535))", other = "(bitor.u32 (bitand.u32 " + x + " u32:65535) (shl.u32 " + y + " u32:15))";
  for (const std::string& value : {lower, upper, swapped, other}) {
    CAPTURE(value);
    ir::Context ctx;
    const loop::Kernel kernel = kernel_of_lanes(ctx, "u32", value);
    std::vector<float> numbers_in = numbers_of_functions();
    std::vector<uint32_t> want(kNumbers), got(kNumbers);
    CHECK(loop::interpret(kernel, {{std::as_writable_bytes(std::span(numbers_in)), std::as_writable_bytes(std::span(want))}, [](const ir::Sym*) { return std::nullopt; }, 0, -1, {}}).ok());
    for (const targets::Target& target : targets::ptx::emitter().targets()) {
      const std::string text = run_on(target, kernel, numbers_in, std::as_writable_bytes(std::span(got)));
      CHECK((text.find("prmt.b32") != std::string::npos) == (value != other));
      CHECK(got == want);
    }
  }
}

}  // namespace
}  // namespace mlc
