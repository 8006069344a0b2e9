#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>

#include "packager/lang/lang.h"
#include "packager/loop/print.h"
#include "packager/loop/verify.h"
#include "targets/families.h"
#include "targets/instructions.h"
#include "targets/llvm/host.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"
#include "tests/unit/targets/count_instructions.h"
#include "tests/unit/targets/cross_run.h"
#include "tests/unit/targets/dot_cases.h"
#include "tests/unit/targets/native_module.h"
#include "tests/unit/targets/tiles_case.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

struct Emitted {
  ir::Context ctx;
  std::vector<DotCase> cases = all_dot_cases(ctx);
  targets::Module module;

  explicit Emitted(const Target& target) {
    std::vector<loop::Kernel> kernels;
    for (DotCase& c : cases) {
      REQUIRE_MESSAGE(loop::verify(c.kernel).ok(), loop::verify(c.kernel).text());
      kernels.push_back(std::move(c.kernel));
    }
    for (size_t k = 0; k < kernels.size(); ++k) kernels[k].hoisting = static_cast<loop::Hoisting>(k % 3);
    auto emitted = targets::emit_module(target, kernels);
    REQUIRE_MESSAGE(emitted.ok(), target.name << ": " << (emitted.ok() ? "" : emitted.status().text()));
    module = std::move(*emitted);
    const Status audit = targets::audit_module(target, module.bytes);
    CHECK_MESSAGE(audit.ok(), audit.text());
    for (size_t k = 0; k < cases.size(); ++k) cases[k].kernel = std::move(kernels[k]);
  }
};

TEST_CASE("Dot means its formula, in the interpreter and through its text") {
  ir::Context ctx;
  for (const DotCase& c : all_dot_cases(ctx)) {
    ir::Context other;
    auto parsed = loop::parse(other, loop::to_string(c.kernel));
    REQUIRE(parsed.ok());
    REQUIRE(loop::verify(parsed->front()).ok());
    CHECK(loop::to_string(parsed->front()) == loop::to_string(c.kernel));
    DotData d(c, 1);
    loop::Run run;
    run.value = [](const ir::Sym*) { return std::nullopt; };
    for (AlignedBytes& b : d.buffers) run.buffers.push_back({b.data.get(), b.size});
    const auto fault = loop::interpret(parsed->front(), run);
    REQUIRE_MESSAGE(fault.ok(), (fault.ok() ? "" : fault.status().text()));
    CHECK_MESSAGE(first_wrong_sum(d) < 0, c.kernel.name);
  }
}

TEST_CASE("Dot and the splat of a group are refused with operands that do not fit") {
  ir::Context ctx;
  const auto value = [&](DType t, unsigned lanes) { return loop::vec_load(ctx, 0, {t, static_cast<uint16_t>(lanes)}, ctx.integer(0)); };
  const auto refused = [&](const ir::Expr* e) {
    loop::Kernel k;
    k.name = "k";
    k.params.push_back({"x", DType::U8, false, 0, loop::Role::Array, nullptr});
    for (DType t : {DType::I8, DType::I16, DType::U16, DType::I32, DType::F32, DType::BF16}) k.params.push_back({"x", t, false, 0, loop::Role::Array, nullptr});
    k.tile_begin = ctx.fresh_var({DType::I64, 1});
    k.tile_end = ctx.fresh_var({DType::I64, 1});
    k.tiles = ctx.integer(1);
    const ir::Expr* typed = ctx.rewrite(e, [&](const ir::Expr* x) -> const ir::Expr* {
      if (x->op != ir::Op::Load) return nullptr;
      for (uint32_t p = 0; p < k.params.size(); ++p)
        if (k.params[p].dtype == x->type.dtype) return loop::vec_load(ctx, p, x->type, x->args[0]);
      return nullptr;
    });
    loop::Builder(ctx, k.body).let(typed);
    return !loop::verify(k).ok();
  };
  CHECK(!refused(loop::vec_dot(ctx, value(DType::I32, 4), value(DType::U8, 16), value(DType::I8, 16))));
  CHECK(refused(loop::vec_dot(ctx, value(DType::I32, 4), value(DType::U8, 8), value(DType::I8, 8))));
  CHECK(refused(loop::vec_dot(ctx, value(DType::I32, 4), value(DType::U8, 16), value(DType::I8, 32))));
  CHECK(refused(loop::vec_dot(ctx, value(DType::F32, 4), value(DType::U8, 16), value(DType::I8, 16))));
  CHECK(refused(loop::vec_dot(ctx, value(DType::I32, 4), value(DType::U16, 8), value(DType::I16, 8))));
  CHECK(refused(loop::vec_dot(ctx, value(DType::I32, 4), value(DType::BF16, 8), value(DType::BF16, 8))));
  CHECK(!refused(loop::splat_group(ctx, value(DType::U8, 4), 16)));
  ir::Expr uneven;
  uneven.op = ir::Op::Splat;
  uneven.type = {DType::U8, 4};
  CHECK(refused(ctx.raw(uneven, {value(DType::U8, 8)})));
}

TEST_CASE("the audit refuses the code of each target under the name of every one with fewer features") {
  unsigned wrong = 0;
  for (const Target& t : targets::all_targets()) {
    if (t.machine == Machine::None) continue;
    const Emitted e(t);
    ir::Context ctx;
    std::vector<loop::Kernel> tiles;
    if (t.has_tiles) tiles.push_back(tiles_kernel(ctx, DType::U8, DType::I8, 64));
    const auto code = t.has_tiles ? targets::emit_module(t, tiles) : Result<targets::Module>(e.module);
    REQUIRE(code.ok());
    for (const Target& label : targets::all_targets()) {
      const bool is_weaker = label.machine == t.machine && label.features.size() < t.features.size() &&
                             std::includes(t.features.begin(), t.features.end(), label.features.begin(), label.features.end());
      if (!is_weaker) continue;
      ++wrong;
      const Status refused = targets::audit_module(label, code->bytes);
      CHECK_MESSAGE(!refused.ok(), t.name << " under the name of " << label.name);
      CHECK_MESSAGE(refused.text().find("instruction") != std::string::npos, refused.text());
    }
  }
  CHECK(wrong >= 31);  // 24 of x86-64, 5 of AArch64, 1 of RISC-V, 1 of LoongArch
}

TEST_CASE("Dot gives its formula's answer on every target of this machine") {
  for (const Target& t : targets::all_targets()) {
    if (t.machine != targets::host_machine()) continue;
    Emitted e(t);
    if (!targets::runs_here(t)) {
      MESSAGE("skipped: " << t.name << " does not run here");
      continue;
    }
    NativeModule native(e.module.bytes);
    REQUIRE(native.get() != nullptr);
    for (size_t k = 0; k < e.cases.size(); ++k) {
      DotData d(e.cases[k], k);
      void* buffers[4];
      uint64_t lengths[4];
      for (int b = 0; b < 4; ++b) buffers[b] = d.buffers[size_t(b)].data.get(), lengths[b] = d.buffers[size_t(b)].size;
      AlignedBytes scratch(e.module.scratch_bytes[k]);
      const MlrunLaunch launch = {buffers, lengths, nullptr, scratch.data.get(), 0, 1};
      CHECK(native.get()->entries[k].run(&launch, 0, kGroups) == 0);
      CHECK_MESSAGE(first_wrong_sum(d) < 0, t.name << " " << e.cases[k].kernel.name << " sum " << first_wrong_sum(d));
    }
  }
}

TEST_CASE("Dot gives its formula's answer on the targets of other machines, emulated") {
  for (const Target& t : targets::all_targets()) {
    if (t.machine == targets::host_machine() || !can_be_crossed(t)) continue;
    Emitted e(t);
    CrossMachine cross(t);
    if (!cross.ready()) {
      MESSAGE("skipped: " << t.name << " is emitted and audited, but not run (no clang, or no qemu for it)");
      continue;
    }
    std::vector<DotData> data;
    std::vector<CrossLaunch> launches(e.cases.size());
    for (size_t k = 0; k < e.cases.size(); ++k) data.emplace_back(e.cases[k], k);
    for (size_t k = 0; k < e.cases.size(); ++k) {
      launches[k] = {static_cast<uint32_t>(k), 0, kGroups, {}, {}, e.module.scratch_bytes[k], -1};
      for (AlignedBytes& b : data[k].buffers) launches[k].buffers.push_back(&b);
    }
    REQUIRE_MESSAGE(cross.run(e.module.bytes, launches), t.name);
    for (size_t k = 0; k < e.cases.size(); ++k) {
      CHECK(launches[k].code == 0);
      CHECK_MESSAGE(first_wrong_sum(data[k]) < 0, t.name << " " << e.cases[k].kernel.name << " sum " << first_wrong_sum(data[k]));
    }
  }
}

TEST_CASE("a Dot is the instruction that its target has for it") {
  struct Row {
    const char* target;
    DType a, b;
    const char* instruction;
    size_t times;
  };
  constexpr DType u8 = DType::U8, i8 = DType::I8, i16 = DType::I16, bf16 = DType::BF16;
  for (const Row& row : {Row{"x86-64-v4+vnni", u8, i8, "vpdpbusd", 1}, {"x86-64-v4+vnni", i8, u8, "vpdpbusd", 1},
                         {"x86-64-v4+vnni", i8, i8, "vpdpbusd", 2}, {"x86-64-v4+vnni", u8, u8, "vpdpbusd", 2},
                         {"x86-64-v4+vnni", i16, i16, "vpdpwssd", 1}, {"x86-64-v3+vnni", u8, i8, "vpdpbusd", 1},
                         {"x86-64-v4+vnni+bf16", bf16, bf16, "vdpbf16ps", 1}, {"x86-64-v4", u8, i8, "vpmaddwd", 2},
                         {"x86-64-v3", i8, i8, "vpmaddwd", 2}, {"x86-64-v1", u8, i8, "pmaddwd", 2},
                         {"armv8-a+dotprod+fp16", i8, i8, "SDOT", 1}, {"armv8-a+dotprod+fp16", u8, u8, "UDOT", 1},
                         {"armv8-a+dotprod+fp16", u8, i8, "SDOT", 2}, {"armv8-a+i8mm+bf16", u8, i8, "USDOT", 1},
                         {"armv8-a+i8mm+bf16", bf16, bf16, "BFDOT", 1}}) {
    const Target* target = targets::find_target(row.target);
    REQUIRE_MESSAGE(target, row.target);
    ir::Context ctx;
    std::vector<loop::Kernel> kernels;
    kernels.push_back(dot_case(ctx, row.a, row.b, target->vector_bytes / 4, true).kernel);
    auto module = targets::emit_module(*target, kernels);
    REQUIRE(module.ok());
    // One whose second operand is a constant may have left the loop, but not the kernel.
    CHECK_MESSAGE(count_instructions(*target, module->bytes, row.instruction) == row.times,
                  row.target << " " << name_of(row.a) << " " << name_of(row.b));
  }
}

// y[0..16) = exp(x) as ops/math.mlop has it; y[16..32) = max(p, x), NaN if either is.
loop::Kernel exponentials(ir::Context& ctx) {
  loop::Kernel kernel;
  kernel.name = "exponentials";
  kernel.params = {{"p", DType::F32, false, 0, {}, nullptr}, {"x", DType::F32, false, 1, {}, nullptr}, {"y", DType::F32, true, 2, {}, nullptr}};
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
  loop::Builder b(ctx, kernel.body);
  b.prefetch(0, ctx.integer(1 << 20));
  const ir::Expr *p = b.let(loop::vec_load(ctx, 0, {DType::F32, 16}, ctx.integer(0))), *x = b.let(loop::vec_load(ctx, 1, {DType::F32, 16}, ctx.integer(0)));
  const auto library = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(library.ok());
  b.store(2, ctx.integer(0), library->expand_math(ctx, ir::Op::Exp, x));
  b.store(2, ctx.integer(16), loop::vec_binary(ctx, ir::Op::Max, p, x));
  return kernel;
}

// What a native module of the kernel makes of p and x; whether a floating-point operation underflowed meanwhile is left in the flags.
std::array<float, 32> run_exponentials(const NativeModule& native, const float (&p)[16], const float (&x)[16]) {
  alignas(64) float in[2][16], out[32];
  std::copy(p, p + 16, in[0]), std::copy(x, x + 16, in[1]);
  void* buffers[3] = {in[0], in[1], out};
  uint64_t lengths[3] = {sizeof in[0], sizeof in[1], sizeof out};
  const MlrunLaunch launch = {buffers, lengths, nullptr, nullptr, 0, 1};
  std::feclearexcept(FE_ALL_EXCEPT);
  CHECK(native.get()->entries[0].run(&launch, 0, 1) == 0);
  return std::to_array(out);
}

TEST_CASE("exp, a maximum that keeps NaN, and a prefetch are the instructions that x86 has for them") {
  ir::Context ctx;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(exponentials(ctx));
  REQUIRE_MESSAGE(loop::verify(kernels[0]).ok(), loop::verify(kernels[0]).text());
  const float p[16] = {1, 1.25f, 1.5f, -1, 0.75f, 1.9999999f, 1.3f, 1, NAN, 1, 1.1f, 1.2f, 1, -1.7f, 0, 1};
  const float x[16] = {0, -126, -103.9f, -103.27f, -103.98f, -127, 88.7f, 3.5f, 1, NAN, -104, -0.0f, INFINITY, -1, 90, -87.4f};
  const float masked[16] = {-104.4f, -104.5f, -105, -110, -120, -130, -132, -133, -1000, -10000, -65504, -1e9f, -3.4e38f, -INFINITY, -INFINITY, -150};
  for (const Target& t : targets::all_targets()) {
    if (t.machine != Machine::X86_64) continue;
    const auto module = targets::emit_module(t, kernels);
    REQUIRE(module.ok());
    INFO(t.name);
    const bool wide = targets::has_feature(t, "x86.avx512f");
    CHECK(count_instructions(t, module->bytes, "vscalefps") == (wide ? 1 : 0));
    CHECK(count_instructions(t, module->bytes, "prefetcht1") == 1);
    if (wide) {
      CHECK(count_instructions(t, module->bytes, "vmaxps") == 2);
      CHECK(count_instructions(t, module->bytes, "vpmovd2m") == 0);  // the signs are not asked for
    }
    if (t.machine != targets::host_machine() || !targets::runs_here(t)) continue;
    NativeModule native(module->bytes);
    REQUIRE(native.get() != nullptr);
    const auto out = run_exponentials(native, p, x);
    for (int k = 0; k < 16; ++k) {
      CAPTURE(k);
      if (std::isnan(x[k])) {
        CHECK(std::isnan(out[k]));
      } else {
        const float exact = static_cast<float>(std::exp(static_cast<double>(x[k])));
        const float ulp = std::nextafter(exact, INFINITY) - exact;
        CHECK((out[k] == exact || std::abs(out[k] - exact) <= 1.5f * ulp));
      }
      if (!std::isnan(x[k]) && !std::isnan(p[k])) CHECK(out[16 + k] == std::max(p[k], x[k]));
      else CHECK(std::isnan(out[16 + k]));
    }
    const auto zeros = run_exponentials(native, p, masked);
    if (wide) CHECK(std::fetestexcept(FE_UNDERFLOW) == 0);
    for (int k = 0; k < 16; ++k) CHECK(zeros[k] == 0);
  }
}

TEST_CASE("code is made for the least target that has the instructions it uses") {
  const Target& all = *targets::find_target("x86-64-v4+vnni+bf16");
  const Target& plain = *targets::find_target("x86-64-v4");
  ir::Context ctx;
  const auto least = [&](DType a, DType b) { return targets::least_target(all, dot_case(ctx, a, b, 16, false).kernel).name; };
  CHECK(least(DType::U8, DType::I8) == "x86-64-v4+vnni");
  CHECK(least(DType::BF16, DType::BF16) == "x86-64-v4+vnni+bf16");
  Pool pool;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(op_case(pool, Op::Mul, DType::I16, DType::I16, 16, 2).kernel);
  kernels.push_back(op_case(pool, Op::Cast, DType::F32, DType::BF16, 16, 1).kernel);
  for (const loop::Kernel& k : kernels) CHECK(&targets::least_target(all, k) == &plain);
  auto a = targets::emit_module(all, kernels), b = targets::emit_module(plain, kernels);
  REQUIRE((a.ok() && b.ok()));
  CHECK(a->bytes == b->bytes);
  CHECK(&targets::least_target(plain, kernels[0]) == &plain);
}

TEST_CASE("which signs suit a target can be asked") {
  using targets::choose_dot;
  const auto steps = [](const char* target, DType a, DType b) { return choose_dot(*targets::find_target(target), a, b).steps(); };
  CHECK(steps("x86-64-v4+vnni", DType::U8, DType::I8) == 1);
  CHECK(steps("x86-64-v4+vnni", DType::I8, DType::I8) == 2);
  CHECK(steps("x86-64-v4", DType::U8, DType::I8) == steps("x86-64-v4", DType::I8, DType::I8));
  CHECK(steps("armv8-a+dotprod+fp16", DType::I8, DType::I8) < steps("armv8-a+dotprod+fp16", DType::U8, DType::I8));
  CHECK(steps("portable", DType::I8, DType::U8) == 1);
  CHECK(choose_dot(*targets::find_target("x86-64-v3"), DType::U8, DType::I8).parts() == 2);
  CHECK(choose_dot(*targets::find_target("x86-64-v3+vnni"), DType::U8, DType::I8).parts() == 1);
  CHECK(steps("armv8-a+dotprod+fp16", DType::U8, DType::I8) < steps("armv8-a", DType::U8, DType::I8));
}

}  // namespace
}  // namespace mlc
