// Numbers that become codes: without a division, and without limits that nothing reaches, but the same codes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "packager/loop/build.h"
#include "packager/loop/verify.h"
#include "targets/llvm/host.h"
#include "targets/quotient.h"
#include "tests/unit/targets/count_instructions.h"
#include "tests/unit/targets/native_module.h"

namespace mlc {
namespace {

using namespace testing;
using ir::Expr;
using ir::Op;
using targets::Target;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Numbers next to every border between two codes, and what is no usual number.
std::vector<float> borders(float scale, int least, int most) {
  std::vector<float> x{0.0F, -0.0F, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 3e38F, -3e38F, 1e-40F, 1e20F, -1e20F, 2147483647.0F, -2147483648.0F, 1e10F};
  for (int n = least; n <= most; ++n) {
    auto at = static_cast<float>((n + 0.5) * scale);
    for (int k = 0; k < 4; ++k) at = std::nextafter(at, -kInf);
    for (int k = 0; k < 9; ++k, at = std::nextafter(at, kInf)) x.push_back(at);
    x.push_back(static_cast<float>(n) * scale);
  }
  while (x.size() % 16) x.push_back(1);
  return x;
}

TEST_CASE("a quotient that is rounded needs no division") {
  std::mt19937 rng(7);
  int known = 0, tried = 0;
  for (int round = 0; round < 200; ++round) {
    float scale = std::ldexp(1.0F + static_cast<float>(rng() % (1 << 23)) * 0x1p-23F, static_cast<int>(rng() % 40) - 30);
    if (round == 0) scale = 0.05F;
    if (round == 1) scale = 0.25F;
    if (round == 2) scale = std::nextafter(1.0F, 2.0F);
    const int zero = static_cast<int>(rng() % 256) - 128;
    ++tried;
    const auto q = targets::quotient_by(scale, -128 - zero, 127 - zero);
    if (!q) continue;
    ++known;
    CHECK(q->high > 0);
    CHECK(q->low >= 0);
    int exponent = 0;
    CHECK((q->low == 0) == (std::frexp(scale, &exponent) == 0.5F));
    for (const float x : borders(scale, -300, 300)) {
      if (std::isnan(x)) continue;
      const float exact = std::nearbyint(x / scale), product = std::nearbyint(q->low == 0 ? x * q->high : std::fma(x, q->high, x * q->low));
      const auto code = [&](float v) { return std::clamp(v + static_cast<float>(zero), -128.0F, 127.0F); };
      CHECK_MESSAGE(code(exact) == code(product), scale << " " << x);
    }
  }
  CHECK(known > tried * 9 / 10);
  for (const float none : {0.0F, -0.05F, kInf, 1e-30F, 1e30F, std::numeric_limits<float>::quiet_NaN()}) CHECK(!targets::quotient_by(none, -128, 127));
}

struct Coded {
  float scale = 0.05F;  // 0: nothing is divided
  int zero = 0;
  DType type = DType::I8;
  bool flipped = false, is_real_again = false, from_codes = false, at_least_zero = false;
};

loop::Kernel kernel_of(ir::Context& ctx, const Coded& c, unsigned lanes, int64_t count) {
  const DType in = c.from_codes ? DType::I8 : DType::F32, flip = c.type == DType::I8 ? DType::U8 : DType::I8;
  const DType out = c.is_real_again ? DType::F32 : c.flipped ? flip : c.type;
  loop::Kernel kernel;
  kernel.name = "coded";
  kernel.params = {{"x", in, false, 0, {}, nullptr}, {"y", out, true, 1, {}, nullptr}};
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
  loop::Builder b(ctx, kernel.body);
  const auto n = static_cast<uint16_t>(lanes);
  const auto number = [&](double v) { return loop::splat(ctx, ctx.number(v, DType::F32), n); };
  b.with_for(ctx.integer(0), ctx.integer(count), lanes, [&](const Expr* at) {
    const Expr* v = loop::vec_load(ctx, 0, {in, n}, at);
    if (c.from_codes) v = loop::vec_binary(ctx, Op::Mul, ctx.convert(Op::Cast, {DType::F32, n}, v), number(0.07F));
    if (c.at_least_zero) v = loop::vec_binary(ctx, Op::Max, v, number(0));
    if (c.scale != 0) v = loop::vec_binary(ctx, Op::Div, v, number(c.scale));
    v = loop::vec_unary(ctx, Op::Rint, v);
    if (c.zero != 0) v = loop::vec_binary(ctx, Op::Add, v, number(c.zero));
    v = ctx.convert(Op::SatCast, {c.type, n}, v);
    if (c.is_real_again) v = ctx.convert(Op::Cast, {DType::F32, n}, v);
    if (c.flipped) v = loop::vec_binary(ctx, Op::BitXor, ctx.convert(Op::Bitcast, {out, n}, v), loop::splat(ctx, ctx.integer(out == DType::I8 ? -128 : 128, out), n));
    b.store(1, at, v);
  });
  return kernel;
}

int expected(const Coded& c, float x) {
  if (c.at_least_zero) x = std::isnan(x) ? x : std::max(x, 0.0F);
  const float v = std::nearbyint(c.scale == 0 ? x : x / c.scale) + static_cast<float>(c.zero);
  const float least = c.type == DType::I8 ? -128 : 0;
  const int code = std::isnan(v) ? 0 : static_cast<int>(std::clamp(v, least, least + 255));
  return c.flipped ? (c.type == DType::I8 ? code + 128 : code - 128) : code;
}

TEST_CASE("codes are those of a division, a rounding and two limits, on every x86 target") {
  std::vector<Coded> cases;
  for (const DType type : {DType::I8, DType::U8})
    for (const int zero : {0, -128, 128, 7, -3, 255})
      for (const unsigned how : {0U, 1U, 2U, 4U, 5U, 6U, 8U, 9U, 12U, 13U})
        cases.push_back({how % 3 == 2 ? 0.0123F : 0.05F, zero, type, (how & 1) != 0, (how & 2) != 0, (how & 4) != 0, (how & 8) != 0});
  cases.push_back({0, 0, DType::I8});
  cases.push_back({0, 114, DType::U8});
  cases.push_back({0.5F, 3, DType::U8});
  cases.push_back({1e-30F, 3, DType::U8});
  for (const Target& t : targets::all_targets()) {
    if (t.machine != Machine::X86_64 || t.machine != targets::host_machine() || !targets::runs_here(t)) continue;
    INFO(t.name);
    for (const unsigned lanes : {1U, 4U, 8U, 16U, 32U}) {
      ir::Context ctx;
      std::vector<loop::Kernel> kernels;
      std::vector<std::vector<float>> inputs;
      for (const Coded& c : cases) {
        std::vector<float> x = borders(c.scale == 0 ? 1 : c.scale, -260, 260);
        if (c.from_codes) x.resize(256);
        while (x.size() % 32) x.push_back(-1);
        kernels.push_back(kernel_of(ctx, c, lanes, static_cast<int64_t>(x.size())));
        REQUIRE_MESSAGE(loop::verify(kernels.back()).ok(), loop::verify(kernels.back()).text());
        inputs.push_back(std::move(x));
      }
      const auto module = targets::emit_module(t, kernels);
      REQUIRE(module.ok());
      // Only one scale is too small. Vectors that no instruction takes whole stay divisions.
      if (t.has_fma && lanes >= 4 && lanes * 4 <= t.vector_bytes) CHECK(count_instructions(t, module->bytes, "vdivps") <= 4);
      NativeModule native(module->bytes);
      REQUIRE(native.get() != nullptr);
      for (size_t k = 0; k < cases.size(); ++k) {
        const Coded& c = cases[k];
        std::vector<int8_t> codes(256);
        for (int i = 0; i < 256; ++i) codes[static_cast<size_t>(i)] = static_cast<int8_t>(i);
        std::vector<float> out(inputs[k].size());
        void* buffers[2] = {c.from_codes ? static_cast<void*>(codes.data()) : inputs[k].data(), out.data()};
        uint64_t lengths[2] = {c.from_codes ? 256 : inputs[k].size() * 4, out.size() * (c.is_real_again ? 4 : 1)};
        const MlrunLaunch launch = {buffers, lengths, nullptr, nullptr, 0, 1};
        REQUIRE(native.get()->entries[k].run(&launch, 0, 1) == 0);
        size_t wrong = 0;
        for (size_t i = 0; i < inputs[k].size(); ++i) {
          const int want = expected(c, c.from_codes ? static_cast<float>(codes[i]) * 0.07F : inputs[k][i]);
          const auto* bytes = reinterpret_cast<const uint8_t*>(out.data());
          wrong += c.is_real_again ? out[i] != static_cast<float>(want) : bytes[i] != static_cast<uint8_t>(want);
        }
        CHECK_MESSAGE(wrong == 0, t.name << " lanes " << lanes << " case " << k << " scale " << c.scale << " zero " << c.zero);
      }
    }
  }
}

}  // namespace
}  // namespace mlc
