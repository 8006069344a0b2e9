// Products on devices: tiles through shared memory, slices of the fold. Each is what the nest says, without races, whatever its sizes
// and layouts are; and it asks memory for as little as it is made for.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

std::string check_product(ir::Context& ctx, const nest::Function& f, const char* family, const test::Symbols& symbols = {}, double tolerance = 2e-5) {
  const std::string best = test::check_lowering(ctx, f, device("vulkan-base"), symbols, 1, tolerance).back();
  CHECK_MESSAGE(best.starts_with(family), best);
  return best;
}

struct Size {
  int64_t m, k, n;
};

}  // namespace

TEST_CASE("tiles of products of many sizes, weights in panels or as rows") {
  for (const bool panels : {true, false})
    for (const auto& [m, k, n] : {Size{9, 8, 17}, {33, 33, 20}, {16, 24, 66}}) {
      CAPTURE(m);
      CAPTURE(k);
      CAPTURE(n);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels);
      check_product(ctx, maker.f, "tile ");
    }
}

TEST_CASE("tiles of sizes that only the run knows, none and one among them") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
  maker.matmul(ctx.sym(m), ctx.sym(k), ctx.sym(n), false);
  for (const auto& [a, b, c] : {Size{0, 5, 7}, {1, 1, 1}, {5, 0, 3}, {65, 17, 20}})
    CHECK(check_product(ctx, maker.f, "tile ", {{m, a}, {k, b}, {n, c}}).find("; block 64") != std::string::npos);
}

TEST_CASE("convolutions are tiles of rows that are gathered, in any layout") {
  for (const bool channels_last : {true, false})
    for (int form = 0; form < 6; ++form) {
      CAPTURE(form);
      CAPTURE(channels_last);
      NestMaker::Conv c{.n = 2, .h = 4, .w = 5, .c = 8, .m = 12};
      c.channels_last = channels_last, c.panels = form % 2 == 0;
      if (form == 1) c.stride = 2;
      if (form == 2) c.kh = c.kw = 1, c.pad = 0, c.residual = true;
      if (form == 3) c.c = 3, c.kh = c.kw = 5, c.pad = 2;
      if (form == 4) c.dilation = 2, c.pad = 2, c.residual = true;
      if (form == 5) c.group = 2, c.c = 16, c.m = 32, c.panels = false;
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.conv(c);
      const std::string best = check_product(ctx, maker.f, "tile ");
      CHECK((best.find(" flat") != std::string::npos) == (form == 3));
    }
}

TEST_CASE("a convolution of extents that only the run knows") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *h = ctx.declare_sym("h", 1, 1000), *w = ctx.declare_sym("w", 1, 1000), *b = ctx.declare_sym("b", 0, 1000);
  maker.conv({.c = 8, .m = 16}, ctx.sym(h), ctx.sym(w), ctx.sym(b));
  for (const auto& [x, y, z] : {Size{3, 5, 2}, {1, 1, 1}}) check_product(ctx, maker.f, "tile ", {{h, x}, {w, y}, {b, z}});
}

TEST_CASE("few rows are slices of the fold, columns side by side or each along the fold") {
  for (const bool panels : {true, false})
    for (const bool turned : {true, false})
      for (const auto& [m, k, n] : {Size{1, 64, 16}, {1, 150, 37}, {3, 131, 20}, {8, 128, 9}}) {
        CAPTURE(m);
        CAPTURE(k);
        CAPTURE(n);
        ir::Context ctx;
        NestMaker maker(ctx);
        if (turned) maker.matmul(maker.n(n), maker.n(k), maker.n(m), panels);
        else maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels);
        check_product(ctx, maker.f, "slices ");
      }
}

TEST_CASE("both products of attention, whose heads are batches") {
  ir::Context ctx;
  NestMaker scores(ctx), mix(ctx);
  const ir::Sym* length = ctx.declare_sym("length", 1, 4096);
  scores.scores(3, ctx.sym(length), 24);
  mix.mix(3, ctx.sym(length), 24);
  for (const int64_t n : {1, 19}) {
    check_product(ctx, scores.f, "tile ", {{length, n}});
    check_product(ctx, mix.f, "tile ", {{length, n}});
  }
}

TEST_CASE("factors of 16 bits, and sums of integers, which are exact") {
  for (const DType t : {DType::F16, DType::BF16}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(20), maker.n(24), maker.n(40), false, true, t);
    check_product(ctx, maker.f, "tile ");
  }
  for (const bool few : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto M = m.n(few ? 3 : 21), K = m.n(100), N = m.n(34);
    uint32_t x = m.array("x", DType::U8, {M, K}), w = m.array("w", DType::I8, {K, N}), y = m.output("y", DType::I32, {M, N});
    auto i = m.dim("m", M), k = m.dim("k", K), j = m.dim("n", N);
    const Expr* a = ctx.binary(Op::Sub, ctx.cast(DType::I32, m.load(x, {m.at(i), m.at(k)})), ctx.integer(2, DType::I32));
    m.map({i, j}, y, {m.at(i), m.at(j)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, a, ctx.cast(DType::I32, m.load(w, {m.at(k), m.at(j)})))));
    check_product(ctx, m.f, few ? "slices " : "tile ");
  }
}

TEST_CASE("a long epilogue is code once, on sums in shared memory") {
  ir::Context ctx;
  NestMaker m(ctx);
  auto M = m.n(20), K = m.n(24), N = m.n(40);
  uint32_t x = m.array("x", DType::F32, {M, K}), w = m.array("w", DType::F32, {K, N}), y = m.output("y", DType::F32, {M, N});
  auto i = m.dim("m", M), k = m.dim("k", K), j = m.dim("n", N);
  const Expr* sum = m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, m.load(x, {m.at(i), m.at(k)}), m.load(w, {m.at(k), m.at(j)})));
  const Expr* clipped = ctx.binary(Op::Min, ctx.binary(Op::Max, sum, ctx.number(-4, DType::F32)), ctx.number(4, DType::F32));
  m.map({i, j}, y, {m.at(i), m.at(j)}, ctx.binary(Op::Div, sum, ctx.binary(Op::Add, ctx.unary(Op::Exp, clipped), ctx.number(1, DType::F32))));
  CHECK(check_product(ctx, m.f, "tile ", {}, 1e-4).find("; place sums") != std::string::npos);
}

TEST_CASE("what is no product of two sides has a lane for each point") {
  ir::Context ctx;
  NestMaker depthwise(ctx);
  depthwise.conv({.c = 16, .m = 16, .group = 16, .panels = false});
  for (const char* name : {"vulkan-base", "cuda-sm80"}) CHECK(test::check_lowering(ctx, depthwise.f, device(name)).back().starts_with("map "));
}

TEST_CASE("both emitters write tiles and slices, whose loads are as few as they say, without bank conflicts") {
  for (const char* name : {"vulkan-base", "cuda-sm80"})
    for (const auto& [m, k, n] : {Size{64, 16, 128}, {70, 17, 30}, {4, 256, 20}, {1, 200, 30}}) {
      CAPTURE(name);
      CAPTURE(m);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n));
      const targets::Target& target = device(name);
      const auto all = lower::candidates(ctx, maker.f, maker.f.body[0], target);
      REQUIRE(all.ok());
      schedule::Schedule tile = all->front();
      const bool is_tile = tile.family == schedule::Family::Tile;
      if (is_tile) tile.tile.rows = tile.tile.columns = 64, tile.places.clear();
      const auto generic = std::find_if(all->begin(), all->end(), [](const schedule::Schedule& s) { return s.family == schedule::Family::Map; });
      REQUIRE(generic != all->end());
      const auto fast = test::check_emitted(ctx, maker.f, target, {}, &tile), slow = test::check_emitted(ctx, maker.f, target, {}, &*generic);
      CHECK(fast.conflicts == 0);
      CHECK(slow.global_loads >= static_cast<uint64_t>(2 * m * k * n));
      if (!is_tile) continue;
      // Each block reads its rows and its columns once, and the bias.
      const int64_t row_blocks = (m + 63) / 64, column_blocks = (n + 63) / 64, depth = (k + tile.tile.depth - 1) / tile.tile.depth * tile.tile.depth;
      CHECK(fast.global_loads <= static_cast<uint64_t>(row_blocks * column_blocks * (128 * depth + 64 * 8)));
      if (m == 64) CHECK(fast.global_loads * 20 < slow.global_loads);
      // 16 bytes in one access, where there are such: four for 64 products. Columns that no block has may be left out.
      const uint64_t shared = static_cast<uint64_t>(row_blocks * column_blocks * 64 * depth);
      CHECK(fast.shared_loads <= (name == std::string("cuda-sm80") ? 4 : 16) * shared);
    }
}

TEST_CASE("the assembler keeps the sums of a tile in registers") {
  if (std::system("ptxas --version >/dev/null 2>&1") != 0) {
    MESSAGE("skipped: 1 test, no ptxas here");
    return;
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-tile-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (const char* name : {"cuda-sm75", "cuda-sm90"})
    for (const bool image : {false, true}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      const ir::Sym* rows = ctx.declare_sym("rows", 0, 100000);
      if (image) maker.conv({.n = 8, .h = 56, .w = 56, .c = 64, .m = 64, .residual = true});
      else maker.matmul(ctx.sym(rows), maker.n(512), maker.n(1000));
      auto all = lower::candidates(ctx, maker.f, maker.f.body[0], device(name));
      REQUIRE(all.ok());
      schedule::Schedule how = all->front();
      how.tile.rows = how.tile.columns = 64;
      auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], device(name), test::test_math, &how);
      REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
      const auto module = targets::emit_module(device(name), *kernels);
      REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
      const auto decoded = gpu::decode(module->bytes);
      REQUIRE(decoded.ok());
      const std::vector<std::byte>& text = decoded->images[0].bytes;
      std::ofstream(folder / "tile.ptx", std::ios::binary).write(reinterpret_cast<const char*>(text.data()), std::streamsize(text.size() - 1));
      const std::string architecture = std::string(name).substr(std::string(name).size() - 2);
      const std::string log = (folder / "log").string();
      const std::string command = "ptxas -v -arch=sm_" + architecture + " -o " + (folder / "tile.cubin").string() + " " + (folder / "tile.ptx").string() + " >" + log + " 2>&1";
      CHECK(std::system(command.c_str()) == 0);
      std::ifstream file(log);
      const std::string said((std::istreambuf_iterator<char>(file)), {});
      CHECK_MESSAGE(said.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos, said);
      const size_t at = said.find("Used ");
      REQUIRE(at != std::string::npos);
      MESSAGE(std::string(name) << std::string(image ? ", convolution: " : ", product: ") << said.substr(at, said.find('\n', at) - at));
    }
  std::filesystem::remove_all(folder);
}

TEST_CASE("schedules of products on devices are read and refused as others are") {
  ir::Context ctx;
  NestMaker tiled(ctx), few(ctx);
  tiled.matmul(tiled.n(70), tiled.n(24), tiled.n(40));
  few.matmul(few.n(2), few.n(200), few.n(40));
  const auto by = [&](NestMaker& m, const char* text) {
    auto how = schedule::parse(text);
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    CHECK(schedule::print(*how) == text);
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], device("vulkan-base"), test::test_math, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  const std::string loops = "m:1 grid | n:1 grid || k:1 ; ";
  const auto tile = [&](const std::string& what, const std::string& block = "64") {
    return by(tiled, ("tile " + loops + "tile " + what + " ; instr mul.f32 ; block " + block + " ; vectors 1").c_str());
  };
  CHECK(tile("64 x 64 depth 16 copies 4") == "");
  CHECK(tile("16 x 32 depth 8 copies 8 flat") == "");
  CHECK(tile("48 x 64 depth 16 copies 4").find("16, 32 or 64") != std::string::npos);
  CHECK(tile("64 x 64 depth 16 copies 3").find("copies divide") != std::string::npos);
  CHECK(tile("16 x 64 depth 6 copies 2").find("do not divide the depth") != std::string::npos);
  CHECK(tile("64 x 64 depth 64 copies 4").find("larger than the memory") != std::string::npos);
  CHECK(tile("64 x 64 depth 16 copies 4", "128").find("64 lanes") != std::string::npos);
  const auto slices = [&](const std::string& what) { return by(few, ("slices " + loops + "tile " + what + " ; instr mul.f32 ; block 128 ; vectors 1").c_str()); };
  CHECK(slices("2 x 16 depth 8 copies 4") == "");
  CHECK(slices("2 x 32 depth 4 copies 1") == "");
  CHECK(slices("2 x 16 depth 16 copies 4").find("columns times slices") != std::string::npos);
  CHECK(slices("3 x 16 depth 8 copies 4").find("columns times slices") != std::string::npos);
}
