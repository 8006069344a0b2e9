#include <doctest/doctest.h>

#include <algorithm>

#include "loaders/elf/elf_image.h"
#include "packager/loop/build.h"
#include "schema/features.h"
#include "targets/llvm/host.h"
#include "targets/target_groups.h"
#include "tests/unit/targets/native_module.h"
#include "tests/unit/targets/random_kernel.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

std::vector<loop::Kernel> some_kernels(Pool& pool, uint64_t count, std::vector<std::unique_ptr<RandomKernel>>& keep) {
  std::vector<loop::Kernel> out;
  for (uint64_t seed = 0; seed < count; ++seed) {
    keep.push_back(std::make_unique<RandomKernel>(pool, seed));
    out.push_back(keep.back()->take());
  }
  return out;
}

TEST_CASE("modules of every target keep the rules of the loader") {
  Pool pool;
  std::vector<std::unique_ptr<RandomKernel>> keep;
  auto kernels = some_kernels(pool, 8, keep);
  for (const Target& t : targets::all_targets()) {
    if (!is_plain(t) || t.machine == Machine::None) continue;
    auto module = emit_in_small_frames(t, kernels);
    if (!module.ok()) FAIL(t.name << ": " << module.status().text());
    auto image = elf::parse_image(module->bytes, t.machine, 65536);
    CHECK_MESSAGE(image.ok(), t.name << ": " << (image.ok() ? "" : image.status().text()));
    // All segments share one page of the file: no padding to 64 KiB.
    CHECK(module->bytes.size() < 64 * 1024);
    CHECK(targets::audit_module(t, module->bytes).ok());
  }
}

TEST_CASE("emitting twice gives the same bytes") {
  Pool pool;
  std::vector<std::unique_ptr<RandomKernel>> keep;
  auto kernels = some_kernels(pool, 14, keep);
  for (const Target& t : targets::all_targets()) {
    if (!is_plain(t)) continue;
    auto a = emit_in_small_frames(t, kernels), b = emit_in_small_frames(t, kernels);
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    CHECK_MESSAGE(a->bytes == b->bytes, t.name);
  }
}

// y[0..16) = x[0..16) between 0.25 and 0.5.
loop::Kernel clamped(ir::Context& ctx, DType dtype) {
  loop::Kernel kernel;
  kernel.name = "clamped";
  kernel.params = {{"x", dtype, false, 0, {}, nullptr}, {"y", dtype, true, 1, {}, nullptr}};
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
  loop::Builder b(ctx, kernel.body);
  const auto limit = [&](double v) { return loop::splat(ctx, ctx.number(v, dtype), 16); };
  const ir::Expr* x = loop::vec_binary(ctx, ir::Op::Max, loop::vec_load(ctx, 0, {dtype, 16}, ctx.integer(0)), limit(0.25));
  b.store(1, ctx.integer(0), loop::vec_binary(ctx, ir::Op::Min, x, limit(0.5)));
  return kernel;
}

TEST_CASE("halves are compared as vectors, where vectors of them are converted") {
  ir::Context ctx;
  std::vector<loop::Kernel> kernels;
  for (const DType dtype : {DType::F32, DType::F16}) kernels.push_back(clamped(ctx, dtype));
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target& t = *targets::find_target(name);
    const auto singles = targets::emit_module(t, std::span(kernels).subspan(0, 1)), halves = targets::emit_module(t, std::span(kernels).subspan(1, 1));
    REQUIRE(singles.ok());
    REQUIRE(halves.ok());
    INFO(name << ": " << singles->bytes.size() << ", " << halves->bytes.size());
    CHECK(halves->bytes.size() < singles->bytes.size() + 200);  // one by one: more than a thousand
  }
}

// y[0] = a sum over many names, forwards and then backwards; of vectors, lane by lane.
loop::Kernel crowded(ir::Context& ctx, loop::Hoisting hoisting, int64_t count = 700, uint16_t lanes = 1) {
  loop::Kernel kernel;
  kernel.name = "crowded";
  kernel.hoisting = hoisting;
  kernel.params = {{"x", DType::F64, false, 0, {}, nullptr}, {"y", DType::F64, true, 1, {}, nullptr}};
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
  loop::Builder b(ctx, kernel.body);
  std::vector<const ir::Expr*> names;
  for (int64_t k = 0; k < count; ++k)
    names.push_back(b.let(loop::vec_unary(ctx, ir::Op::Sqrt, loop::vec_load(ctx, 0, {DType::F64, lanes}, ctx.integer(k * lanes)))));
  const auto number = [&](double n) { return loop::splat(ctx, ctx.number(n, DType::F64), lanes); };
  const ir::Expr* sum = b.local(number(0));
  const auto add = [&](const ir::Expr* name) {
    b.assign(sum, loop::vec_binary(ctx, ir::Op::Add, loop::vec_binary(ctx, ir::Op::Mul, sum, number(0.75)), name));
  };
  for (const ir::Expr* name : names) add(name);
  std::for_each(names.rbegin(), names.rend(), add);
  b.store(1, ctx.integer(0), sum);
  return kernel;
}

TEST_CASE("kernels whose stack frame is too large are told, and values in scratch memory make it small") {
  ir::Context ctx;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(crowded(ctx, loop::Hoisting::None));
  kernels.push_back(crowded(ctx, loop::Hoisting::All));
  for (const char* name : {"x86-64-v2", "x86-64-v4", "armv8-a", "armv8-a+sve256", "armv8-a+sve512", "rv64gc", "rv64gcv", "loongarch64", "loongarch64-lsx"}) {
    const Target& t = *targets::find_target(name);
    std::vector<targets::LargeFrame> large;
    auto module = targets::emit_module(t, kernels, &large);
    REQUIRE_MESSAGE(module.ok(), name);
    REQUIRE_MESSAGE(large.size() == 1, name);
    CHECK(large[0].kernel == 1);
    CHECK(large[0].bytes > uint64_t{targets::kMaxFrame});
    CHECK(module->bytes.empty());
    const Status refused = targets::emit_module(t, kernels).status();
    CHECK_MESSAGE(refused.text().find("kernel crowded needs a stack frame of") != std::string::npos, refused.text());
    auto small = targets::emit_module(t, std::span(kernels).first(1), &large);
    REQUIRE(small.ok());
    CHECK(large.empty());
    CHECK(small->scratch_bytes[0] >= 700 * 8);
    CHECK(targets::audit_module(t, small->bytes).ok());
  }
}

TEST_CASE("as many registers of SVE may be on the stack as the longest that it meets leave room for") {
  ir::Context ctx;
  for (const char* name : {"armv8-a+sve256", "armv8-a+sve512"}) {
    const targets::Target& t = *targets::find_target(name);
    const auto large = [&](int64_t count) {
      const loop::Kernel kernel = crowded(ctx, loop::Hoisting::All, count, static_cast<uint16_t>(t.vector_bytes / 8));
      std::vector<targets::LargeFrame> found;
      const auto module = targets::emit_module(t, {&kernel, 1}, &found);
      REQUIRE(module.ok());
      if (found.empty()) CHECK(targets::audit_module(t, module->bytes).ok());
      return !found.empty();
    };
    CHECK(!large(80));
    CHECK(large(120));
  }
}

// y[0] = l[i], where i is what x holds and l a small array of which one element is written.
loop::Kernel small_array(ir::Context& ctx, int64_t count) {
  loop::Kernel kernel;
  kernel.name = "small_array";
  kernel.params = {{"x", DType::I64, false, 0, {}, nullptr}, {"y", DType::I64, true, 1, {}, nullptr}};
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
  loop::LocalArray local;
  local.name = "l", local.dtype = DType::I64, local.count = ctx.integer(count);
  kernel.locals.push_back(local);
  loop::Builder b(ctx, kernel.body);
  const ir::Expr* at = b.let(loop::vec_load(ctx, 0, {DType::I64, 1}, ctx.integer(0)));
  b.store(2, at, ctx.integer(7));
  b.store(1, ctx.integer(0), loop::vec_load(ctx, 2, {DType::I64, 1}, ctx.integer(count - 1)));
  return kernel;
}

TEST_CASE("small arrays begin as zeros without a call of any library") {
  ir::Context ctx;
  for (const int64_t count : {1, 3, 8, 16, 17})
    for (const Target& t : targets::all_targets()) {
      if (!is_plain(t) || t.machine == Machine::None) continue;
      std::vector<loop::Kernel> kernels;
      kernels.push_back(small_array(ctx, count));
      const auto module = targets::emit_module(t, kernels);
      REQUIRE_MESSAGE(module.ok(), t.name << ": " << (module.ok() ? "" : module.status().text()));
      CHECK(targets::audit_module(t, module->bytes).ok());
    }
}

TEST_CASE("a module without kernels is a module") {
  for (const char* name : {"x86-64-v2", "armv8-a", "armv8-a+sve256", "rv64gc", "rv64gcv", "loongarch64", "loongarch64-lsx", "portable"}) {
    auto module = targets::emit_module(*targets::find_target(name), {});
    REQUIRE_MESSAGE(module.ok(), name << (module.ok() ? "" : module.status().text()));
    CHECK(targets::audit_module(*targets::find_target(name), module->bytes).ok());
  }
}

TEST_CASE("targets are what the registry says") {
  CHECK(targets::find_target("x86-64-v3") != nullptr);
  CHECK(targets::find_target("x86-64-v9") == nullptr);
  CHECK(targets::all_targets().back().name == "portable");
  for (const Target& t : targets::all_targets())
    for (const std::string& f : t.features) CHECK_MESSAGE(feature_named(f) != Feature::None, f);
  const Target* native = targets::native_target();
  CHECK(native != nullptr);
  CHECK((native->machine == Machine::None || targets::runs_here(*native)));
  for (const Target& t : targets::all_targets())
    if (t.machine == native->machine && targets::runs_here(t)) CHECK_MESSAGE(t.features.size() <= native->features.size(), t.name << " is better than " << native->name);
}

TEST_CASE("groups are of targets that there are, and have the portable one") {
  const Target* portable = targets::find_target("portable");
  for (const targets::TargetGroup& group : targets::target_groups()) {
    CHECK_MESSAGE(std::count(group.targets.begin(), group.targets.end(), portable) == 1, group.name);
    CHECK_MESSAGE(std::count(group.targets.begin(), group.targets.end(), nullptr) == 0, group.name);
    CHECK(targets::find_target(group.name) == nullptr);
    CHECK(targets::find_target_group(group.name) == &group);
  }
  CHECK(targets::find_target_group("all")->targets.size() == targets::all_targets().size());
  CHECK(targets::find_target_group(targets::kDefaultGroup)->targets.size() < targets::all_targets().size());
  CHECK(targets::find_target_group("each") == nullptr);
}

TEST_CASE("faults, bounds and early returns of native code") {
  const Target* native = targets::native_target();
  if (native->machine == Machine::None) {
    MESSAGE("skipped: no target for this machine");
    return;
  }
  Pool p;
  auto make = [&](std::vector<loop::StmtPtr> body) {
    loop::Kernel k = kernel(p, "k", {{DType::I64, true}});
    k.body = std::move(body);
    return k;
  };
  auto store = [&](int64_t at, int64_t v) { return store_(0, p.integer(at), p.integer(v)); };
  const Expr* first = p.load(0, {DType::I64, 1}, p.integer(0));
  const Expr* four = p.load(0, {DType::I64, 4}, p.integer(0));
  auto below = [&](const Expr* a, int64_t b) {
    const Expr* c = p.integer(b);
    return p.make(Op::Lt, {DType::Bool, a->type.lanes}, {a, a->type.lanes == 1 ? c : p.splat(c, a->type.lanes)});
  };
  std::vector<loop::Kernel> kernels;
  kernels.push_back(make(seq(store(1, 1), fault(below(first, 0), MLRUN_FAULT_INDEX), store(1, 2))));
  kernels.push_back(make(seq(store(1, 1), fault(below(four, 0), MLRUN_FAULT_DIVISION), store(1, 2))));
  kernels.push_back(make(seq(store(1, 1), fault(below(first, 0), 0), store(1, 2))));
  kernels.push_back(make(seq(while_(below(first, 100), p.integer(5), seq(store_(0, p.integer(0), p.add(first, p.integer(10))))))));
  auto module = targets::emit_module(*native, kernels);
  REQUIRE(module.ok());
  NativeModule m(module->bytes);
  REQUIRE(m.get() != nullptr);
  auto run = [&](size_t k, std::vector<int64_t> data, std::vector<int64_t>& out) {
    AlignedBytes buffer(32);
    std::memcpy(buffer.data.get(), data.data(), 32);
    void* pointers[] = {buffer.data.get()};
    const uint64_t lengths[] = {32};
    const MlrunLaunch launch = {pointers, lengths, nullptr, nullptr, 0, 1};
    const int32_t code = m.get()->entries[k].run(&launch, 0, 1);
    out.assign(4, 0);
    std::memcpy(out.data(), buffer.data.get(), 32);
    return code;
  };
  std::vector<int64_t> out;
  CHECK(run(0, {5, 0, 0, 0}, out) == 0);
  CHECK(out[1] == 2);
  CHECK(run(0, {-5, 0, 0, 0}, out) == MLRUN_FAULT_INDEX);
  CHECK(out[1] == 1);
  CHECK(run(1, {5, 0, 0, -1}, out) == MLRUN_FAULT_DIVISION);
  CHECK(run(2, {-5, 0, 0, 0}, out) == 0);
  CHECK(out[1] == 1);
  CHECK(run(3, {60, 0, 0, 0}, out) == 0);
  CHECK(out[0] == 100);
  CHECK(run(3, {0, 0, 0, 0}, out) == MLRUN_FAULT_BOUND);
}

TEST_CASE("what Loop does not allow is an error, not a module") {
  Pool p;
  for (const char* name : {"x86-64-v2", "portable"}) {
    const Target& t = *targets::find_target(name);
    auto fails = [&](loop::StmtPtr s) {
      std::vector<loop::Kernel> kernels;
      kernels.push_back(kernel(p, "bad", {{DType::F32, true}}));
      kernels[0].body.push_back(std::move(s));
      return !targets::emit_module(t, kernels).ok();
    };
    const Expr* x = p.load(0, {DType::F32, 1}, p.integer(0));
    CHECK(fails(store_(0, p.integer(0), p.make(Op::Exp, {DType::F32, 1}, {x}))));
    CHECK(fails(store_(0, p.integer(0), p.var({DType::F32, 1}))));
    CHECK(fails(define(loop::StmtKind::Assign, p.var({DType::F32, 1}), x)));
    CHECK(fails(for_(p.var(), p.integer(0), p.integer(4), 0, {})));
    CHECK(fails(for_(p.var(), p.integer(0), p.make(Op::Cast, {DType::I64, 1}, {x}), 1, {}, loop::ForKind::Unroll)));
  }
}

}  // namespace
}  // namespace mlc
