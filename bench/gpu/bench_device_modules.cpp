// Modules of the kernels in kernels.h, one for each target of devices: bench_device_modules FOLDER writes FOLDER/TARGET.mlcg.
#include "bench/gpu/kernels.h"

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "packager/loop/build.h"
#include "targets/target.h"

namespace mlc::bench {
namespace {

using ir::Expr;

constexpr const char* kTargets[] = {"cuda-sm75", "cuda-sm80", "cuda-sm90", "vulkan-base"};  // as Bed::open takes them

constexpr ir::Type kVector{DType::F32, 4}, kOne{DType::F32, 1};

// for tile: lanes: body(tile, lane)
loop::Kernel kernel_of(ir::Context& ctx, const char* name, uint32_t buffers, const std::function<void(loop::Builder&, const Expr* tile, const Expr* lane)>& body) {
  loop::Kernel k;
  k.name = name;
  k.lanes = kLanes;
  for (uint32_t n = 0; n < buffers; ++n) k.params.push_back({n ? "y" : "x", DType::F32, n + 1 == buffers, n, loop::Role::Array, nullptr});
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  k.tiles = ctx.integer(1);
  loop::Builder b(ctx, k.body);
  b.with_for(k.tile_begin, k.tile_end, 1, [&](const Expr* tile) {
    b.with_for(ctx.integer(0), ctx.integer(kLanes), 1, [&](const Expr* lane) { body(b, tile, lane); });
    b.block().back()->for_kind = loop::ForKind::Lanes;
  });
  return k;
}

loop::Kernel copy_kernel(ir::Context& ctx) {
  return kernel_of(ctx, "copy", 2, [&](loop::Builder& b, const Expr* tile, const Expr* lane) {
    std::vector<const Expr*> at, values;  // all loads first, so that they are under way together
    for (int64_t n = 0; n < kVectorsOfLane; ++n) {
      at.push_back(b.let(ctx.add(ctx.mul(tile, ctx.integer(kCopied)), ctx.add(ctx.integer(n * kLanes * 4), ctx.mul(lane, ctx.integer(4))))));
      values.push_back(b.let(loop::vec_load(ctx, 0, kVector, at.back())));
    }
    for (size_t n = 0; n < at.size(); ++n) b.store(1, at[n], values[n]);
  });
}

loop::Kernel fma_kernel(ir::Context& ctx) {
  return kernel_of(ctx, "fma", 2, [&](loop::Builder& b, const Expr* tile, const Expr* lane) {
    const auto load = [&](int64_t n) { return loop::vec_load(ctx, 0, kOne, ctx.add(lane, ctx.integer(n * kLanes))); };
    const Expr *x = b.let(load(0)), *y = b.let(load(1));
    std::vector<const Expr*> chains;
    for (int64_t n = 0; n < kChains; ++n) chains.push_back(b.local(load(2 + n)));
    constexpr int64_t kUnrolled = 16;
    b.with_for(ctx.integer(0), ctx.integer(kTurns / kUnrolled), 1, [&](const Expr*) {
      for (int64_t turn = 0; turn < kUnrolled; ++turn)
        for (const Expr* chain : chains) b.assign(chain, loop::vec_fma(ctx, chain, x, y));
    });
    const Expr* sum = chains[0];
    for (size_t n = 1; n < chains.size(); ++n) sum = b.let(loop::vec_binary(ctx, ir::Op::Add, sum, chains[n]));
    b.store(1, ctx.add(ctx.mul(tile, ctx.integer(kLanes)), lane), sum);
  });
}

loop::Kernel touch_kernel(ir::Context& ctx) {
  return kernel_of(ctx, "touch", 1, [&](loop::Builder& b, const Expr* tile, const Expr* lane) {
    b.store(0, ctx.add(ctx.mul(tile, ctx.integer(kLanes)), lane), ctx.number(1, DType::F32));
  });
}

loop::Kernel stray_kernel(ir::Context& ctx) {
  return kernel_of(ctx, "stray", 1, [&](loop::Builder& b, const Expr* tile, const Expr* lane) {
    b.store(0, ctx.add(ctx.mul(tile, ctx.integer(int64_t{1} << 38)), lane), ctx.number(1, DType::F32));
  });
}

Result<std::vector<std::byte>> ceiling_module(const targets::Target& target) {
  ir::Context ctx;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(copy_kernel(ctx));
  kernels.push_back(fma_kernel(ctx));
  kernels.push_back(touch_kernel(ctx));
  kernels.push_back(stray_kernel(ctx));
  MLC_ASSIGN(targets::Module module, targets::emit_module(target, kernels));
  return std::move(module.bytes);
}

Status write_modules(const std::string& folder) {
  for (const char* name : kTargets) {
    MLC_ASSIGN(const std::vector<std::byte> bytes, ceiling_module(*targets::find_target(name)));
    const std::string path = folder + "/" + name + ".mlcg";
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) return Status(Code::NotFound, "{} cannot be written", path);
  }
  return ok();
}

}  // namespace
}  // namespace mlc::bench

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: bench_device_modules FOLDER\n"), 2;
  const mlc::Status done = mlc::bench::write_modules(argv[1]);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.text().c_str());
  return done.ok() ? 0 : 1;
}
