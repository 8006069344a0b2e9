// Products that fill less of a device than there is: their sums in parts that are added in order, and kernels for few rows and for many
// where only the run knows how many there are. Each is what the nest says, and no launch leaves half of a device idle for long.
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

struct Size {
  int64_t m, k, n;
};

struct Launch {
  std::string schedule;
  int64_t blocks = 0;
  double operations = 0;
};

// Those with blocks.
std::vector<Launch> launches_of(ir::Context& ctx, const nest::Function& f, const targets::Target& target, const test::Symbols& symbols = {}) {
  const auto kernels = lower::lower(ctx, f, f.body[0], target, test::test_math);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  std::vector<Launch> all;
  for (const loop::Kernel& kernel : *kernels) {
    const ir::Expr* operations = lower::product_operations(ctx, kernel, target);
    const int64_t blocks = test::extent_value(kernel.tiles, symbols);
    if (blocks > 0) all.push_back({kernel.schedule, blocks, operations ? static_cast<double>(test::extent_value(operations, symbols)) : 0});
  }
  return all;
}

// Half of the multiprocessors of an H100 are at work, or what there is to do is done in 5 us by the blocks that there are.
void check_fills(const std::vector<Launch>& all) {
  constexpr double kMultiprocessors = 132, kPerMicrosecond = 67e6;
  for (const Launch& launch : all) {
    const double share = std::min(1.0, static_cast<double>(launch.blocks) / kMultiprocessors);
    CHECK_MESSAGE((share >= 0.5 || launch.operations / (kPerMicrosecond * share) < 5), launch.schedule << ": " << launch.blocks << " blocks");
  }
}

bool is_product(const Launch& launch) { return launch.schedule.starts_with("tile ") || launch.schedule.starts_with("slices "); }

}  // namespace

TEST_CASE("few blocks with a long sum are parts of it and a launch that adds them") {
  for (const char* name : {"vulkan-base", "cuda-sm80"})
    for (const auto& [m, k, n] : {Size{33, 1024, 20}, {1, 4096, 48}}) {
      CAPTURE(name);
      CAPTURE(m);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n));
      const auto schedules = test::check_lowering(ctx, maker.f, device(name), {}, 1, 1e-4);
      REQUIRE(schedules.size() == 2);
      CHECK(schedules[0].starts_with(m == 1 ? "slices " : "tile "));
      CHECK(schedules[1].starts_with("map "));
    }
}

TEST_CASE("both emitters write parts of sums") {
  for (const char* name : {"vulkan-base", "cuda-sm80"}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(17), maker.n(1024), maker.n(20));
    test::check_emitted(ctx, maker.f, device(name));
  }
}

TEST_CASE("a convolution of a small picture is parts of its channels") {
  for (const bool channels_last : {true, false}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.conv({.h = 3, .w = 3, .c = 128, .m = 24, .channels_last = channels_last, .residual = true});
    const auto schedules = test::check_lowering(ctx, maker.f, device("vulkan-base"), {}, 1, 1e-4);
    REQUIRE(schedules.size() == 2);
    CHECK(schedules[0].starts_with("tile "));
  }
}

TEST_CASE("rows that only the run knows have a kernel for few of them, for some and for many") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym* rows = ctx.declare_sym("rows", 0, 100000);
  maker.matmul(ctx.sym(rows), maker.n(512), maker.n(130));
  test::check_free_lowering(ctx, maker.f, device("cuda-sm90"), {{{rows, 0}}, {{rows, 1}}, {{rows, 4}}, {{rows, 5}}, {{rows, 256}}, {{rows, 257}}});
  const auto all = [&](int64_t n) { return launches_of(ctx, maker.f, device("cuda-sm90"), {{rows, n}}); };
  CHECK(all(0).empty());
  for (const int64_t n : {1, 4}) CHECK(all(n)[0].schedule.starts_with("slices "));
  for (const int64_t n : {5, 256, 257, 5000}) CHECK(all(n)[0].schedule.starts_with("tile "));
  CHECK(all(256)[0].schedule != all(5000)[0].schedule);
}

TEST_CASE("products of known models fill half of a device, or are short") {
  const targets::Target& target = device("cuda-sm90");
  for (const auto& [m, k, n] : {Size{49, 2048, 512}, {49, 512, 2048}, {196, 1024, 256}, {1, 2048, 1000}, {128, 768, 768}, {128, 3072, 768}}) {
    CAPTURE(m);
    CAPTURE(k);
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(m), maker.n(k), maker.n(n));
    check_fills(launches_of(ctx, maker.f, target));
  }
  ir::Context ctx;
  NestMaker maker(ctx);
  maker.conv({.h = 7, .w = 7, .c = 512, .m = 512});
  check_fills(launches_of(ctx, maker.f, target));
}

TEST_CASE("products of free rows fill half of a device, or are short, for a token as for a sentence") {
  const targets::Target& target = device("cuda-sm90");
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{384, 384}, {1536, 384}, {768, 2304}, {768, 768}, {3072, 768}}) {
    CAPTURE(k);
    CAPTURE(n);
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym *batch = ctx.declare_sym("batch", 0, 1000), *length = ctx.declare_sym("length", 0, 1000);
    maker.matmul(ctx.mul(ctx.sym(batch), ctx.sym(length)), maker.n(k), maker.n(n));
    for (const int64_t tokens : {1, 5, 128, 300}) {
      const auto all = launches_of(ctx, maker.f, target, {{batch, 1}, {length, tokens}});
      check_fills(all);
      double operations = 0;
      for (const Launch& launch : all) operations += launch.operations;
      CHECK(std::count_if(all.begin(), all.end(), is_product) == 1);
      CHECK(operations == static_cast<double>(2 * tokens * k * n));
    }
  }
}

TEST_CASE("where one tile is best for one picture and for many, a free batch takes it, and fills half of a device with one") {
  const targets::Target& target = device("cuda-sm90");
  for (const auto& [side, m] : {std::pair<int64_t, int64_t>{160, 320}, {192, 512}}) {
    CAPTURE(side);
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym* batch = ctx.declare_sym("batch", 0, 1000);
    maker.conv({.h = side, .w = side, .c = 3, .m = m, .kh = 16, .kw = 16, .stride = 16, .pad = 0, .channels_last = false}, nullptr, nullptr, ctx.sym(batch));
    for (const int64_t pictures : {1, 3, 64}) {
      const auto all = launches_of(ctx, maker.f, target, {{batch, pictures}});
      check_fills(all);
      CHECK(std::count_if(all.begin(), all.end(), is_product) == 1);
    }
  }
}
