// Speed of single kernels against the FMA ceiling of this machine, one thread (design: kernels.md sections 2 and 16).
//
//   bench_kernels [target ...] [--only TEXT] [--rounds N]
//
// Ceiling and kernel are timed in turn in every round; the table gives minimum and median, and the share of the ceiling
// in the same run. Before it is timed, a result is compared with that of the generic template, compiled for x86-64-v2.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

#include "bench/kernels/module.h"
#include "packager/loop/build.h"
#include "packager/loop/print.h"
#include "packager/lower/lower.h"
#include "packager/lower/walk/templates.h"
#include "targets/instructions.h"
#include "tests/support/nests/nests.h"

namespace {

using namespace mlc;
using ir::Expr;

// Time of this thread: what other processes take of the core does not count (what they evict from caches does).
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// acc[k] = acc[k] * a + b, twelve chains: nothing but FMAs, operands in registers.
loop::Kernel ceiling_kernel(ir::Context& ctx, const targets::Target& t, int64_t steps) {
  loop::Kernel k;
  k.name = "ceiling";
  k.params.push_back({"x", DType::F32, true, 0, loop::Role::Array, nullptr});
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  k.tiles = ctx.integer(1);
  loop::Builder b(ctx, k.body);
  uint16_t lanes = static_cast<uint16_t>(t.f32_lanes());
  auto load = [&](int64_t at) { return b.let(loop::vec_load(ctx, 0, {DType::F32, lanes}, ctx.integer(at))); };
  const Expr *x = load(0), *y = load(64);
  std::vector<const Expr*> acc;
  for (int i = 0; i < 12; ++i) acc.push_back(b.local(load(128 + 64 * i)));
  b.with_for(ctx.integer(0), ctx.integer(steps), 1, [&](const Expr*) {
    for (const Expr* a : acc) b.assign(a, loop::vec_fma(ctx, a, x, y));
  });
  for (int i = 0; i < 12; ++i) b.store(0, ctx.integer(128 + 64 * i), acc[static_cast<size_t>(i)]);
  return k;
}

// The register tile of a product of bytes that lie in L1: for each group of four, rows of `a` times columns of a panel.
loop::Kernel dot_tile_kernel(ir::Context& ctx, const targets::Target& t, DType a, DType b, int64_t rows, int64_t vectors, int64_t groups) {
  loop::Kernel k;
  k.name = "dot tile";
  k.schedule = std::string(targets::choose_dot(t, a, b).instruction->name);
  k.params.push_back({"a", a, false, 0, loop::Role::Array, nullptr});
  k.params.push_back({"b", b, false, 1, loop::Role::Array, nullptr});
  k.params.push_back({"c", DType::I32, true, 2, loop::Role::Array, nullptr});
  k.tile_begin = ctx.fresh_var({DType::I64, 1});
  k.tile_end = ctx.fresh_var({DType::I64, 1});
  k.tiles = ctx.integer(100);
  const auto lanes = static_cast<uint16_t>(t.f32_lanes()), wide = static_cast<uint16_t>(4 * lanes);
  loop::Builder build(ctx, k.body);
  build.with_for(k.tile_begin, k.tile_end, 1, [&](const Expr*) {
    std::vector<const Expr*> sums;
    for (int64_t n = 0; n < rows * vectors; ++n) sums.push_back(build.local(loop::vec_load(ctx, 2, {DType::I32, lanes}, ctx.integer(n * lanes))));
    build.with_for(ctx.integer(0), ctx.integer(groups), 1, [&](const Expr* g) {
      std::vector<const Expr*> columns;
      for (int64_t v = 0; v < vectors; ++v)
        columns.push_back(build.let(loop::vec_load(ctx, 1, {b, wide}, ctx.add(ctx.mul(g, ctx.integer(vectors * wide)), ctx.integer(v * wide)))));
      for (int64_t m = 0; m < rows; ++m) {
        const Expr* group = loop::vec_load(ctx, 0, {a, 4}, ctx.add(ctx.mul(g, ctx.integer(4)), ctx.integer(m * groups * 4)));
        const Expr* row = build.let(loop::splat_group(ctx, group, wide));
        for (int64_t v = 0; v < vectors; ++v) {
          const Expr* sum = sums[static_cast<size_t>(m * vectors + v)];
          build.assign(sum, loop::vec_dot(ctx, sum, row, columns[static_cast<size_t>(v)]));
        }
      }
    });
    for (int64_t n = 0; n < rows * vectors; ++n) build.store(2, ctx.integer(n * lanes), sums[static_cast<size_t>(n)]);
  });
  return k;
}

struct Case {
  std::string name;
  double flop;
  std::vector<loop::Kernel> kernels;
  std::unique_ptr<bench::Loaded> module;
  std::vector<bench::Buffer> buffers;
  std::vector<uint64_t> lengths;
  std::vector<std::byte> scratch;
  std::vector<double> times;
  std::unordered_map<const ir::Sym*, int64_t> symbols;
  std::vector<bench::Buffer> extra;
  bench::Buffer& workspace(int64_t elements) {
    if (extra.empty()) extra.emplace_back(static_cast<size_t>(elements));
    return extra[0];
  }
};

int64_t value(const Case& c, const Expr* e) {
  return *ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> { return c.symbols.at(s); });
}

void run_once(Case& c) {
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    std::vector<void*> pointers;
    std::vector<uint64_t> lengths;
    for (const loop::Param& p : c.kernels[k].params) {
      bench::Buffer& b = p.role == loop::Role::Array ? c.buffers[p.array] : c.workspace(value(c, p.elements));
      pointers.push_back(b.data);
      lengths.push_back(b.bytes);
    }
    std::vector<int64_t> scalars;
    for (const ir::Sym* sym : c.kernels[k].scalars) scalars.push_back(c.symbols.at(sym));
    for (const loop::Cut& cut : c.kernels[k].cuts) scalars.push_back(std::max<int64_t>(1, value(c, cut.units)));  // one worker: whole
    MlrunLaunch launch{pointers.data(), lengths.data(), scalars.data(), c.scratch.data(), 0, 1};
    c.module->entry(k).run(&launch, 0, static_cast<uint32_t>(value(c, c.kernels[k].tiles)));
  }
}

size_t stored(ir::Context& ctx, const Case& c, const nest::Array& a) {
  return static_cast<size_t>(value(c, nest::stored_elements(ctx, a.layout, a.shape)));
}

// The same statement through the generic template; its output against the one of `c`.
double largest_difference(ir::Context& ctx, const nest::Function& f, Case& c) {
  const targets::Target& target = *targets::find_target("x86-64-v2");
  auto flat = lower::flatten(ctx, f, *f.body[0].nest);
  if (!flat.ok()) return 1e30;
  auto kernel = lower::kernel_of({ctx, target, {}, "reference"}, *flat, /*tiles=*/false);
  if (!kernel.ok()) return 1e30;
  Case r;
  r.kernels.push_back(std::move(*kernel));
  auto m = bench::Loaded::compile(target, r.kernels);
  if (!m.ok()) return 1e30;
  r.module = std::move(*m);
  for (const bench::Buffer& b : c.buffers) {
    r.buffers.emplace_back(b.bytes / 4);
    std::memcpy(r.buffers.back().data, b.data, b.bytes);
  }
  r.scratch.resize(1 << 20);
  r.symbols = c.symbols;
  const uint32_t out = f.outputs[0];
  std::memset(r.buffers[out].data, 0, r.buffers[out].bytes);
  run_once(r);
  double worst = 0;
  for (size_t k = 0; k < r.buffers[out].bytes / 4; ++k)
    worst = std::max(worst, static_cast<double>(std::abs(r.buffers[out].data[k] - c.buffers[out].data[k])));
  return worst;
}

void summarise(const char* label, Case& c, const Case& ceiling) {
  std::vector<double> ratio, t = c.times;
  for (size_t k = 0; k < t.size(); ++k) ratio.push_back((c.flop / c.times[k]) / (ceiling.flop / ceiling.times[k]));
  std::sort(t.begin(), t.end());
  std::sort(ratio.begin(), ratio.end());
  double best_ceiling = ceiling.flop / *std::min_element(ceiling.times.begin(), ceiling.times.end());
  std::printf(
      "%-10s %-30s %-20s min %9.1f us  median %9.1f us  %7.1f GFLOP/s  best/best %5.1f %%  median ratio %5.1f %%  code "
      "%zu\n",
      label, c.name.c_str(), c.kernels.back().schedule.c_str(), t[0] * 1e6, t[t.size() / 2] * 1e6, c.flop / t[0] * 1e-9,
      100 * (c.flop / t[0]) / best_ceiling, 100 * ratio[ratio.size() / 2], c.module->code_bytes);
  std::fflush(stdout);
}

// Ceiling and case in turn.
void time_both(const char* label, Case& c, Case& ceiling, int rounds) {
  double once = now();
  run_once(c);
  once = now() - once;
  const int repeat = std::max(1, static_cast<int>(0.01 / std::max(once, 1e-7)));
  ceiling.times.clear();
  for (int r = 0; r < rounds; ++r) {
    const double t0 = now();
    run_once(ceiling);
    const double t1 = now();
    for (int k = 0; k < repeat; ++k) run_once(c);
    const double t2 = now();
    ceiling.times.push_back(t1 - t0);
    c.times.push_back((t2 - t1) / repeat);
  }
  summarise(label, c, ceiling);
}

struct Options {
  std::vector<std::string> targets;
  std::string only;  // in the names of cases
  int rounds = 15;
  bool print = false;
};

// The cases on one target, each timed in turn with the ceiling of its multiply-adds.
class Bench {
 public:
  Bench(const targets::Target& target, std::string name, const Options& options)
      : target_(target), name_(std::move(name)), options_(options) {}

  // False: a case computed something else than the generic template.
  Result<bool> run() {
    MLC_RETURN_IF_ERROR(prepare_ceiling());
    MLC_RETURN_IF_ERROR(dot_tiles());
    fixed_extents();
    symbolic_extents();
    depthwise();
    return all_right_;
  }

 private:
  using Make = std::function<void(test::NestMaker&)>;
  using Extents = std::unordered_map<const ir::Sym*, int64_t>;

  Status prepare_ceiling() {
    const int64_t steps = 200'000;
    ceiling_.name = "FMA ceiling";
    ceiling_.flop = 24.0 * target_.f32_lanes() * static_cast<double>(steps);
    ceiling_.kernels.push_back(ceiling_kernel(ctx_, target_, steps));
    MLC_ASSIGN(ceiling_.module, bench::Loaded::compile(target_, ceiling_.kernels));
    ceiling_.buffers.emplace_back(1024);
    for (size_t k = 0; k < 1024; ++k) ceiling_.buffers[0].data[k] = 0.5f;
    return ok();
  }

  // What products of bytes can reach, signs as each target likes them and not.
  Status dot_tiles() {
    for (const DType a : {DType::U8, DType::I8}) {
      // As many rows as registers hold beside the columns, one row in its parts and a product.
      const int64_t parts = targets::choose_dot(target_, a, DType::I8).parts(), registers = target_.vector_registers, groups = 64;
      const int64_t vectors = registers < 32 ? 2 : parts == 1 ? 4 : 3, rows = (registers - vectors * parts - parts - 1) / vectors;
      Case c;
      c.name = "dot tile " + std::string(name_of(a)) + " x i8 " + std::to_string(rows) + "x" + std::to_string(vectors * target_.f32_lanes());
      if (c.name.find(options_.only) == std::string::npos) continue;
      c.flop = 2.0 * 100 * static_cast<double>(rows * vectors * target_.f32_lanes() * groups * 4);
      c.kernels.push_back(dot_tile_kernel(ctx_, target_, a, DType::I8, rows, vectors, groups));
      MLC_ASSIGN(c.module, bench::Loaded::compile(target_, c.kernels));
      for (int k = 0; k < 3; ++k) c.buffers.emplace_back(size_t{8192});
      time_both(name_.c_str(), c, ceiling_, options_.rounds);
    }
    return ok();
  }

  void fixed_extents() {
    gemm(512, 768, 768);
    gemm(128, 768, 768);
    gemm(128, 3072, 768);
    gemm(32, 384, 384);
    gemm(1, 2048, 1000);
    conv("conv 3x3 56^2 64->64", {.h = 56, .w = 56, .c = 64, .m = 64});
    conv("conv 3x3 28^2 128->128", {.h = 28, .w = 28, .c = 128, .m = 128});
    conv("conv 3x3 14^2 256->256", {.h = 14, .w = 14, .c = 256, .m = 256});
    conv("conv 3x3 7^2 512->512", {.h = 7, .w = 7, .c = 512, .m = 512});
    conv("conv 1x1 56^2 64->256", {.h = 56, .w = 56, .c = 64, .m = 256, .kh = 1, .kw = 1, .pad = 0});
    conv("conv 1x1 56^2 256->64", {.h = 56, .w = 56, .c = 256, .m = 64, .kh = 1, .kw = 1, .pad = 0});
    conv("conv 1x1 14^2 1024->256", {.h = 14, .w = 14, .c = 1024, .m = 256, .kh = 1, .kw = 1, .pad = 0});
    conv("conv 1x1 7^2 2048->512", {.h = 7, .w = 7, .c = 2048, .m = 512, .kh = 1, .kw = 1, .pad = 0});
    conv("conv 1x1 s2 56^2 256->512", {.h = 56, .w = 56, .c = 256, .m = 512, .kh = 1, .kw = 1, .stride = 2, .pad = 0});
    conv("conv 7x7 s2 224^2 3->64", {.h = 224, .w = 224, .c = 3, .m = 64, .kh = 7, .kw = 7, .stride = 2, .pad = 3});
  }

  void symbolic_extents() {
    const ir::Sym *S = ctx_.declare_sym("S", 1, 4096), *H = ctx_.declare_sym("H", 1, 4096),
                  *W = ctx_.declare_sym("W", 1, 4096);
    for (int64_t rows : {32, 128})
      measure("matmul S=" + std::to_string(rows) + " x384x1536", 2.0 * static_cast<double>(rows * 384 * 1536),
              [&](test::NestMaker& f) { f.matmul(ctx_.sym(S), f.n(384), f.n(1536)); }, {{S, rows}});
    measure("conv 3x3 HxW=24x160 96->96", 2.0 * 24 * 160 * 96 * 96 * 9,
            [&](test::NestMaker& f) { f.conv({.c = 96, .m = 96}, ctx_.sym(H), ctx_.sym(W)); }, {{H, 24}, {W, 160}});
    measure("conv 1x1 HxW=24x160 96->24", 2.0 * 24 * 160 * 96 * 24,
            [&](test::NestMaker& f) { f.conv({.c = 96, .m = 24, .kh = 1, .kw = 1, .pad = 0}, ctx_.sym(H), ctx_.sym(W)); },
            {{H, 24}, {W, 160}});
    for (bool symbolic : {false, true}) {
      const Expr* L = symbolic ? ctx_.sym(S) : ctx_.integer(128);
      std::unordered_map<const ir::Sym*, int64_t> at{{S, 128}};
      measure(
          symbolic ? "Q K^T 12 heads, S=128, 32" : "Q K^T 12 heads, 128, 32", 2.0 * 12 * 128 * 128 * 32,
          [=](test::NestMaker& f) { f.scores(12, L, 32); }, at);
      measure(
          symbolic ? "P V 12 heads, S=128, 32" : "P V 12 heads, 128, 32", 2.0 * 12 * 128 * 128 * 32,
          [=](test::NestMaker& f) { f.mix(12, L, 32); }, at);
    }
    measure("conv transpose 2x2 s2 24->24", 2.0 * 320 * 320 * 24 * 24,
            [&](test::NestMaker& f) { f.conv_transpose(24, 24, 2, 2, 0, ctx_.sym(H), ctx_.sym(W)); },
            {{H, 160}, {W, 160}});
    measure("conv transpose 2x2 s2 24->1", 2.0 * 640 * 640 * 24,
            [&](test::NestMaker& f) { f.conv_transpose(24, 1, 2, 2, 0, ctx_.sym(H), ctx_.sym(W)); },
            {{H, 320}, {W, 320}});
    measure(
        "depthwise 3x3 HxW=24x160 96", 2.0 * 24 * 160 * 96 * 9,
        [&](test::NestMaker& f) { f.conv({.c = 96, .m = 96, .group = 96, .panels = false}, ctx_.sym(H), ctx_.sym(W)); },
        {{H, 24}, {W, 160}});
  }

  void depthwise() {
    conv("depthwise 3x3 7^2 960", {.h = 7, .w = 7, .c = 960, .m = 960, .group = 960, .panels = false});
    conv("depthwise 3x3 s2 112^2 96",
         {.h = 112, .w = 112, .c = 96, .m = 96, .stride = 2, .group = 96, .panels = false});
    conv("depthwise 3x3 320^2 32", {.h = 320, .w = 320, .c = 32, .m = 32, .group = 32, .panels = false});
    conv("depthwise 3x3 s2 320^2 48",
         {.h = 320, .w = 320, .c = 48, .m = 48, .stride = 2, .group = 48, .panels = false});
    conv("depthwise 5x5 14^2 672",
         {.h = 14, .w = 14, .c = 672, .m = 672, .kh = 5, .kw = 5, .pad = 2, .group = 672, .panels = false});
    conv("depthwise 3x3 56^2 144", {.h = 56, .w = 56, .c = 144, .m = 144, .group = 144, .panels = false});
  }

  void gemm(int64_t m, int64_t k, int64_t n) {
    measure("matmul " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n),
            2.0 * static_cast<double>(m * k * n), [=](test::NestMaker& f) { f.matmul(f.n(m), f.n(k), f.n(n)); });
  }

  void conv(const char* label, test::NestMaker::Conv p) {
    int64_t oh = (p.h + 2 * p.pad - (p.kh - 1) * p.dilation - 1) / p.stride + 1,
            ow = (p.w + 2 * p.pad - (p.kw - 1) * p.dilation - 1) / p.stride + 1;
    measure(label, 2.0 * static_cast<double>(oh * ow * p.m * (p.c / p.group) * p.kh * p.kw),
            [=](test::NestMaker& f) { f.conv(p); });
  }

  void measure(const std::string& label, double flop, const Make& make, const Extents& symbols = {}) {
    if (label.find(options_.only) == std::string::npos) return;
    test::NestMaker maker(ctx_);
    make(maker);
    Case c;
    c.name = label;
    c.flop = flop;
    c.symbols = symbols;
    auto kernels = lower::lower(ctx_, maker.f, maker.f.body[0], target_, {});
    if (!kernels.ok()) {
      std::printf("%s: %s\n", label.c_str(), kernels.status().text().c_str());
      return;
    }
    c.kernels = std::move(*kernels);
    if (options_.print)
      for (const auto& k : c.kernels) std::printf("%s", loop::to_string(k).c_str());
    const double before = now();
    auto module = bench::Loaded::compile(target_, c.kernels);
    if (!module.ok()) {
      std::printf("%s: %s\n", label.c_str(), module.status().text().c_str());
      return;
    }
    const double compile = now() - before;
    c.module = std::move(*module);
    for (const nest::Array& a : maker.f.arrays) c.buffers.emplace_back(stored(ctx_, c, a));
    c.scratch.resize(1 << 20);
    run_once(c);
    if (double d = largest_difference(ctx_, maker.f, c); !(d < 1e-3)) {
      std::printf("%-10s %-30s WRONG: differs by %g\n", name_.c_str(), label.c_str(), d);
      all_right_ = false;
      return;
    }
    time_both(name_.c_str(), c, ceiling_, options_.rounds);
    if (options_.print) std::printf("compiled in %.1f ms\n", compile * 1e3);
  }

  const targets::Target& target_;
  const std::string name_;
  const Options& options_;
  ir::Context ctx_;
  Case ceiling_;
  bool all_right_ = true;
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int k = 1; k < argc; ++k) {
    if (!std::strcmp(argv[k], "--only") && k + 1 < argc) options.only = argv[++k];
    else if (!std::strcmp(argv[k], "--rounds") && k + 1 < argc) options.rounds = std::atoi(argv[++k]);
    else if (!std::strcmp(argv[k], "--print")) options.print = true;
    else options.targets.emplace_back(argv[k]);
  }
  if (options.targets.empty()) options.targets = {"x86-64-v4", "x86-64-v3"};
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  bool all_right = true;
  for (const std::string& name : options.targets) {
    const targets::Target* target = targets::find_target(name);
    if (!target) {
      std::fprintf(stderr, "no target %s\n", name.c_str());
      return 2;
    }
    const auto right = Bench(*target, name, options).run();
    if (!right.ok()) {
      std::fprintf(stderr, "%s\n", right.status().text().c_str());
      return 1;
    }
    all_right = all_right && *right;
  }
  return all_right ? 0 : 1;
}
