#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "packager/loop/build.h"
#include "packager/loop/verify.h"
#include "targets/instructions.h"
#include "targets/llvm/host.h"
#include "tests/unit/targets/count_instructions.h"
#include "tests/unit/targets/native_module.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

constexpr unsigned kLanes = 32;
constexpr int64_t kStride = 3;

// y[3 l] = x[2 l] for lanes whose place in x is below a limit, which is the element of `limits`.
loop::Kernel picks(ir::Context& ctx, DType t) {
  loop::Kernel k;
  k.name = "pick";
  k.params.push_back({"x", t, false, 0, loop::Role::Array, nullptr});
  k.params.push_back({"limits", DType::I64, false, 1, loop::Role::Array, nullptr});
  k.params.push_back({"y", t, true, 2, loop::Role::Array, nullptr});
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  k.tiles = ctx.integer(1);
  loop::Builder b(ctx, k.body);
  b.with_for(k.tile_begin, k.tile_end, 1, [&](const ir::Expr* tile) {
    const ir::Expr* limit = b.let(loop::vec_load(ctx, 1, {DType::I64, 1}, tile));
    const ir::Expr* from = loop::ramp(ctx, ctx.integer(0), kLanes, 2);
    const ir::Expr* mask = b.let(loop::vec_binary(ctx, ir::Op::Lt, from, loop::splat(ctx, limit, kLanes)));
    const ir::Expr* read = b.let(loop::vec_load(ctx, 0, {t, kLanes}, from, mask));
    b.store(2, loop::ramp(ctx, ctx.integer(0), kLanes, kStride), read, mask);
  });
  return k;
}

size_t branches(const Target& target, const targets::Module& module) {
  size_t found = 0;
  for (const char* name : {"jz", "jnz", "jb", "jnb", "jbe", "jnbe", "jl", "jnl", "jle", "jnle", "js", "jns"})
    found += count_instructions(target, module.bytes, name);
  return found;
}

}  // namespace

TEST_CASE("gathers and scatters under masks read and write what the masks say, without a branch for each lane") {
  for (const Target& target : targets::all_targets()) {
    if (target.machine != Machine::X86_64) continue;
    for (DType t : {DType::U8, DType::I16, DType::F32, DType::F64}) {
      CAPTURE(target.name);
      CAPTURE(name_of(t));
      ir::Context ctx;
      std::vector<loop::Kernel> kernels;
      kernels.push_back(picks(ctx, t));
      REQUIRE_MESSAGE(loop::verify(kernels[0]).ok(), loop::verify(kernels[0]).text());
      auto module = targets::emit_module(target, kernels);
      REQUIRE_MESSAGE(module.ok(), (module.ok() ? std::string() : module.status().text()));
      CHECK(branches(target, *module) < kLanes / 2);
      if (!targets::runs_here(target)) continue;
      NativeModule native(module->bytes);
      REQUIRE(native.get() != nullptr);
      const size_t bytes = bytes_of(t);
      for (int64_t limit : {0, 1, 7, 2 * static_cast<int>(kLanes)}) {
        alignas(64) std::array<unsigned char, 2 * kLanes * 8> x;
        alignas(64) std::array<unsigned char, kStride * kLanes * 8> y;
        alignas(64) int64_t limits[] = {limit};
        y.fill(0xee);
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<unsigned char>(i * 37 + 11);
        void* buffers[] = {x.data(), limits, y.data()};
        const uint64_t lengths[] = {x.size(), sizeof limits, y.size()};
        std::vector<std::byte> scratch(module->scratch_bytes[0] + 64);
        const MlrunLaunch launch = {buffers, lengths, nullptr, scratch.data(), 0, 1};
        CHECK(native.get()->entries[0].run(&launch, 0, 1) == 0);
        auto expected = y;
        expected.fill(0xee);
        for (size_t lane = 0; lane < kLanes && static_cast<int64_t>(2 * lane) < limit; ++lane)
          std::copy_n(x.begin() + static_cast<ptrdiff_t>(2 * lane * bytes), bytes, expected.begin() + static_cast<ptrdiff_t>(kStride * lane * bytes));
        CHECK(y == expected);
      }
    }
  }
}

}  // namespace mlc
