// Products on tensor cores: what tiles of warps compute is what the nest says, on all sizes and layouts, without races and bank conflicts; f32
// loses nothing to three products of tf32; the assembler keeps all of it in registers.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "packager/passes/passes.h"
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

struct Size {
  int64_t m, k, n;
};

// By the best schedule, which has the instruction: what the nest says, and the same bytes on the executor.
void check_mma(ir::Context& ctx, const nest::Function& f, const char* instruction, const test::Symbols& symbols = {}, const schedule::Schedule* how = nullptr) {
  const targets::Target& target = device("cuda-sm80");
  const test::Kernels all = test::lower_all(ctx, f, target, test::test_math, how);
  std::string schedules;  // of a fold that is cut in parts the last one adds these
  for (const std::string& one : test::schedules_of(all)) schedules += one;
  CHECK_MESSAGE(schedules.find(std::string("instr mma.") + instruction) != std::string::npos, schedules);
  test::check_kernels(f, all, target, symbols, 1, 4e-6);
  CHECK(test::check_emitted(ctx, f, target, symbols, how).conflicts == 0);
}

schedule::Schedule best(ir::Context& ctx, const nest::Function& f, const char* name = "cuda-sm80") {
  const auto all = lower::candidates(ctx, f, f.body[0], device(name));
  REQUIRE(all.ok());
  return all->front();
}

}  // namespace

TEST_CASE("tiles of warps of many sizes, weights in panels or as rows") {
  for (const bool panels : {true, false})
    for (const auto& [m, k, n] : {Size{32, 32, 32}, {33, 37, 40}, {70, 48, 65}, {64, 100, 130}}) {
      CAPTURE(m);
      CAPTURE(panels);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels);
      check_mma(ctx, maker.f, "f32");
    }
}

TEST_CASE("every tile of warps that a schedule may have") {
  for (const int64_t rows : {32, 64, 128})
    for (const int64_t columns : {32, 64, 128})
      for (const DType t : {DType::F32, DType::F16}) {
        CAPTURE(rows);
        CAPTURE(columns);
        ir::Context ctx;
        NestMaker maker(ctx);
        maker.matmul(maker.n(rows + 3), maker.n(49), maker.n(columns + 5), false, true, t);
        schedule::Schedule how = best(ctx, maker.f);
        how.tile.rows = rows, how.tile.columns = columns, how.block = rows == 128 && columns == 128 ? 256 : 128;
        check_mma(ctx, maker.f, t == DType::F32 ? "f32" : "f16", {}, &how);
      }
}

TEST_CASE("tiles of warps of sizes that only the run knows, none and one among them") {
  for (const DType t : {DType::F32, DType::BF16}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
    maker.matmul(ctx.sym(m), ctx.sym(k), ctx.sym(n), false, true, t);
    for (const auto& [a, b, c] : {Size{0, 5, 7}, {1, 1, 1}, {5, 0, 3}, {5, 16, 3}, {65, 33, 20}})
      check_mma(ctx, maker.f, t == DType::F32 ? "f32" : "bf16", {{m, a}, {k, b}, {n, c}});
  }
}

TEST_CASE("factors of 16 bits are multiplied as they are, two of different types as f32") {
  for (const DType t : {DType::F16, DType::BF16})
    for (const bool panels : {true, false})
      for (const auto& [m, k, n] : {Size{32, 64, 32}, {50, 41, 70}}) {
        ir::Context ctx;
        NestMaker maker(ctx);
        maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels, true, t);
        check_mma(ctx, maker.f, t == DType::F16 ? "f16" : "bf16");
      }
  ir::Context ctx;
  NestMaker m(ctx);
  auto M = m.n(40), K = m.n(50), N = m.n(34);
  uint32_t x = m.array("x", DType::F32, {M, K}), w = m.array("w", DType::BF16, {K, N}), y = m.output("y", DType::F32, {M, N});
  auto i = m.dim("m", M), k = m.dim("k", K), j = m.dim("n", N);
  m.map({i, j}, y, {m.at(i), m.at(j)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, m.load(x, {m.at(i), m.at(k)}), ctx.cast(DType::F32, m.load(w, {m.at(k), m.at(j)})))));
  check_mma(ctx, m.f, "f32");
}

TEST_CASE("convolutions on tensor cores are tiles of rows that are gathered, in any layout") {
  for (const bool channels_last : {true, false})
    for (int form = 0; form < 6; ++form) {
      CAPTURE(form);
      CAPTURE(channels_last);
      NestMaker::Conv c{.n = 2, .h = 6, .w = 7, .c = 8, .m = 36};
      c.channels_last = channels_last, c.panels = form % 2 == 0;
      if (form == 1) c.stride = 2, c.h = c.w = 11;
      if (form == 2) c.kh = c.kw = 1, c.pad = 0, c.c = 40, c.residual = true;
      if (form == 3) c.c = 3, c.kh = c.kw = 5, c.pad = 2;
      if (form == 4) c.dilation = 2, c.pad = 2, c.c = 32, c.residual = true;
      if (form == 5) c.group = 2, c.c = 40, c.m = 72, c.panels = false;
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.conv(c);
      check_mma(ctx, maker.f, "f32");
    }
}

TEST_CASE("a convolution on tensor cores of extents that only the run knows") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *h = ctx.declare_sym("h", 1, 1000), *w = ctx.declare_sym("w", 1, 1000), *b = ctx.declare_sym("b", 0, 1000);
  maker.conv({.c = 8, .m = 40}, ctx.sym(h), ctx.sym(w), ctx.sym(b));
  for (const auto& [x, y, z] : {Size{5, 9, 2}, {1, 1, 1}}) check_mma(ctx, maker.f, "f32", {{h, x}, {w, y}, {b, z}});
}

TEST_CASE("heads are batches of products on tensor cores") {
  ir::Context ctx;
  NestMaker scores(ctx), mix(ctx);
  const ir::Sym* length = ctx.declare_sym("length", 1, 4096);
  scores.scores(3, ctx.sym(length), 40);
  mix.mix(3, ctx.sym(length), 40);
  for (const int64_t n : {1, 45}) {
    check_mma(ctx, scores.f, "f32", {{length, n}});
    check_mma(ctx, mix.f, "f32", {{length, n}});
  }
}

TEST_CASE("factors that are rounded to tf32 have one product, on tensor cores alone") {
  for (const bool panels : {true, false})
    for (const auto& [m, k, n] : {Size{32, 32, 32}, {33, 37, 40}, {70, 48, 65}}) {
      CAPTURE(m);
      CAPTURE(panels);
      ir::Context ctx;
      NestMaker maker(ctx);
      maker.matmul(maker.n(m), maker.n(k), maker.n(n), panels);
      const auto products = [&](const char* name) {
        const test::Kernels all = test::lower_all(ctx, maker.f, device(name), test::test_math, nullptr);
        std::string text;
        for (const std::vector<loop::Kernel>& kernels : all)
          for (const loop::Kernel& kernel : kernels) text += loop::to_string(kernel);
        std::array<size_t, 2> found{};
        for (size_t at = 0; (at = text.find("mma ", at)) != text.npos; ++at) ++found[0];
        for (size_t at = 0; (at = text.find("tf32", at)) != text.npos; ++at) ++found[1];
        return found;
      };
      const auto three = products("cuda-sm80");
      REQUIRE(passes::run(ctx, maker.f, {.pipeline = {"products-in-tf32"}}).ok());
      const auto one = products("cuda-sm80");
      CHECK(3 * one[0] == three[0]);
      CHECK((one[1] > 0 && three[1] == 0));
      for (const char* name : {"cuda-sm75", "vulkan-base"}) CHECK(products(name) == std::array<size_t, 2>{});
      check_mma(ctx, maker.f, "f32");
    }
}

TEST_CASE("tensor cores are for devices that have them, and products with enough of everything") {
  ir::Context ctx;
  NestMaker large(ctx), flat(ctx), thin(ctx);
  large.matmul(large.n(64), large.n(64), large.n(64));
  flat.matmul(flat.n(64), flat.n(16), flat.n(64));
  thin.matmul(thin.n(16), thin.n(64), thin.n(64));
  for (const char* name : {"cuda-sm75", "vulkan-base", "vulkan-subgroup"}) CHECK(!schedule::is_mma(best(ctx, large.f, name)));
  for (const char* name : {"cuda-sm80", "cuda-sm90"}) {
    CHECK(schedule::is_mma(best(ctx, large.f, name)));
    CHECK(!schedule::is_mma(best(ctx, flat.f, name)));
    CHECK(!schedule::is_mma(best(ctx, thin.f, name)));
  }
  // An instruction of 16 bits does so much that half of a tile may be empty.
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{16, 64}, {64, 16}, {15, 64}, {64, 15}}) {
    NestMaker half(ctx);
    half.matmul(half.n(rows), half.n(64), half.n(columns), true, true, DType::F16);
    CHECK(schedule::is_mma(best(ctx, half.f, "cuda-sm80")) == (std::min(rows, columns) == 16));
    if (std::min(rows, columns) == 16) check_mma(ctx, half.f, "f16");
  }
}

// The largest error of a product without an epilogue, on the executor, over the largest result in f64.
double error_of(DType t, int64_t depth, bool on_lanes) {
  ir::Context ctx;
  NestMaker m(ctx);
  auto M = m.n(32), K = m.n(depth), N = m.n(32);
  uint32_t x = m.array("x", t, {M, K}), w = m.array("w", t, {K, N}), y = m.output("y", DType::F32, {M, N});
  auto i = m.dim("m", M), k = m.dim("k", K), j = m.dim("n", N);
  m.map({i, j}, y, {m.at(i), m.at(j)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, ctx.cast(DType::F32, m.load(x, {m.at(i), m.at(k)})), ctx.cast(DType::F32, m.load(w, {m.at(k), m.at(j)})))));
  std::mt19937 rng(5);
  std::normal_distribution<double> normal;
  std::vector<nest::Tensor> inputs{nest::Tensor::zeros(t, {32, depth}), nest::Tensor::zeros(t, {depth, 32})};
  const auto element = [&](size_t which, int64_t at) { return ir::load_element(t, inputs[which].bytes.data(), static_cast<uint64_t>(at)).f; };
  for (nest::Tensor& input : inputs)
    for (int64_t e = 0; e < 32 * depth; ++e) ir::store_element(t, input.bytes.data(), static_cast<uint64_t>(e), {0, ir::round_to(t, normal(rng))});
  const auto all = lower::candidates(ctx, m.f, m.f.body[0], device("cuda-sm80"));
  REQUIRE(all.ok());
  const auto how = std::find_if(all->begin(), all->end(), [&](const schedule::Schedule& s) { return s.family == schedule::Family::Tile && schedule::is_mma(s) != on_lanes; });
  REQUIRE(how != all->end());
  testing::lanes::Counts counts;
  const test::Lowered got = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {}, test::test_math, 1, &*how, test::on_executor(device("cuda-sm80"), counts));
  double error = 0, largest = 0;
  for (int64_t r = 0; r < 32; ++r)
    for (int64_t c = 0; c < 32; ++c) {
      double sum = 0;
      for (int64_t d = 0; d < depth; ++d) sum += element(0, r * depth + d) * element(1, d * 32 + c);
      error = std::max(error, std::abs(sum - ir::load_element(DType::F32, got.outputs[0].bytes.data(), static_cast<uint64_t>(r * 32 + c)).f));
      largest = std::max(largest, std::abs(sum));
    }
  return error / largest;
}

TEST_CASE("three products of tf32 are as good as f32") {
  for (const int64_t depth : {128, 1072}) {  // 1,072 is 67 pieces, which no number of parts divides: it stays one fold
    const double tensor = error_of(DType::F32, depth, false), half = error_of(DType::F16, depth, false);
    MESSAGE("depth " << depth << ": three products " << tensor << ", f16 " << half);
    CHECK(tensor < 1e-6);
    CHECK(half < 1e-6);
  }
}

// Of a listing, the shortest loop with products: from a label to a branch back to it.
std::string loop_of_products(const std::string& sass) {
  std::string best;
  for (size_t at = 0; (at = sass.find("BRA", at)) != sass.npos; ++at) {
    const size_t label = sass.find(".L_x_", at), end = sass.find('\n', at);
    if (label == sass.npos || label > end) continue;
    const size_t begin = sass.rfind("\n" + sass.substr(label, sass.find_first_not_of("0123456789", label + 5) - label) + ":", at);
    if (begin == sass.npos) continue;
    const std::string loop = sass.substr(begin, end - begin);
    if (loop.find("MMA.") != loop.npos && (best.empty() || loop.size() < best.size())) best = loop;
  }
  return best;
}
size_t times(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++found;
  return found;
}

// What the assembler says of a module, and its listing. Nothing where it is not here.
struct Assembled {
  std::string text, said, sass;
};
std::optional<Assembled> assemble(const char* name, const std::vector<loop::Kernel>& kernels) {
  const auto has = [](const char* tool) { return std::system((std::string(tool) + " --version >/dev/null 2>&1").c_str()) == 0; };
  static const bool is_here = has("ptxas") && has("nvdisasm");
  if (!is_here) return std::nullopt;
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-mma-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto text_of = [&](const char* file) {
    std::ifstream in(folder / file);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  const auto module = targets::emit_module(device(name), kernels);
  REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& bytes = decoded->images[0].bytes;
  Assembled made{std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1), "", ""};
  std::ofstream(folder / "tile.ptx", std::ios::binary) << made.text;
  const std::string architecture = std::string(name).substr(std::string(name).size() - 2), at = (folder / "").string();
  CHECK(std::system(("ptxas -v -arch=sm_" + architecture + " -o " + at + "tile.cubin " + at + "tile.ptx >" + at + "log 2>&1").c_str()) == 0);
  CHECK(std::system(("nvdisasm " + at + "tile.cubin >" + at + "sass 2>&1").c_str()) == 0);
  made.said = text_of("log"), made.sass = text_of("sass");
  std::filesystem::remove_all(folder);
  return made;
}

TEST_CASE("three blocks of the largest tile of four warps are at once in f32, whatever the assembler takes for best") {
  for (const char* name : {"cuda-sm80", "cuda-sm90"})
    for (const bool image : {false, true})
      for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{128, 64}, {64, 128}, {64, 64}}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(image);
        ir::Context ctx;
        NestMaker maker(ctx);
        if (image) maker.conv({.n = 16, .h = 56, .w = 56, .c = 64, .m = 64, .residual = true});
        else maker.matmul(maker.n(12800), maker.n(512), maker.n(1024), true, true, DType::F32);
        schedule::Schedule how = best(ctx, maker.f, name);
        how.tile.rows = rows, how.tile.columns = columns, how.block = 128;
        const auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], device(name), test::test_math, &how);
        REQUIRE(kernels.ok());
        const bool is_large = rows * columns == 128 * 64 && !image;
        CHECK(kernels->front().resident == (is_large ? 3 : 0));
        if (!image) {  // of one product lanes have fewer registers, and more blocks fit
          NestMaker rounded(ctx);
          rounded.matmul(rounded.n(12800), rounded.n(512), rounded.n(1024), true, true, DType::F32);
          REQUIRE(passes::run(ctx, rounded.f, {.pipeline = {"products-in-tf32"}}).ok());
          const auto one = lower::lower(ctx, rounded.f, rounded.f.body[0], device(name), test::test_math, &how);
          REQUIRE(one.ok());
          CHECK(one->front().resident == 0);
        }
        const auto made = assemble(name, *kernels);
        if (!made) continue;
        CHECK((made->text.find(".minnctapersm 3") != std::string::npos) == is_large);
        const size_t used = made->said.find("Used "), spilled = made->said.find("stack frame, ");
        REQUIRE((used != std::string::npos && spilled != std::string::npos));
        CHECK_MESSAGE(std::stoi(made->said.substr(spilled + 13)) <= (is_large ? 8 : 0), made->said);  // addresses of the epilogue
        if (is_large) CHECK(std::stoi(made->said.substr(used + 5)) <= 168);                          // 65,536 registers of three blocks, eight at once
      }
}

TEST_CASE("the assembler keeps a tile of warps in registers, and its loop is products") {
  for (const char* name : {"cuda-sm80", "cuda-sm90"})
    for (const DType t : {DType::F32, DType::F16, DType::BF16})
      for (const int64_t side : {64, 128})
        for (const bool image : {false, true}) {
          if (image && t != DType::F32) continue;
          ir::Context ctx;
          NestMaker maker(ctx);
          // Rows enough that the fold is not cut in parts, and known, so that one kernel is for all.
          if (image) maker.conv({.n = 16, .h = 56, .w = 56, .c = 64, .m = 64, .residual = true});
          else maker.matmul(maker.n(12800), maker.n(512), maker.n(1024), true, true, t);
          if (t == DType::BF16) maker.in_pairs(maker.f.inputs[1]);
          const bool is_by_cells = t != DType::F16;
          schedule::Schedule how = best(ctx, maker.f, name);
          how.tile.rows = how.tile.columns = side, how.block = side == 128 ? 256 : 128;
          auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], device(name), test::test_math, &how);
          REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
          const auto made = assemble(name, *kernels);
          if (!made) {
            MESSAGE("skipped: 1 test, no ptxas or nvdisasm here");
            return;
          }
          const auto& [text, said, sass] = *made;
          CHECK_MESSAGE(said.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos, said);
          const std::string loop = loop_of_products(sass);
          const size_t products = times(sass, "HMMA");
          // A barrier for each piece; rows are copied by 16 bytes a lane, weights in panels cell by cell if they are f32 or pairs, else as they lie, and transposed by a load of two steps of eight columns.
          const size_t chunks = static_cast<size_t>(side * 4) / how.block;
          CHECK(times(loop, "HMMA") == products);
          CHECK(times(loop, " BAR.") == 1);
          CHECK(times(loop, "LDGSTS.E.BYPASS.128") == (is_by_cells ? chunks : 2 * chunks));
          CHECK(times(loop, "LDGSTS.E ") == (is_by_cells ? 4 * chunks : 0));
          CHECK(times(loop, "LDG.") == 0);
          CHECK(times(loop, " STS.128 ") == 0);
          // Rows by step, columns by piece, each by one load of four matrices, whose registers products take as they are.
          const size_t loads_of_rows = static_cast<size_t>(side / 32) * 2, loads_of_columns = static_cast<size_t>(side / (how.block / 64) / 8);
          CHECK(times(loop, "LDSM.16.M88.4") == loads_of_rows + (is_by_cells ? loads_of_columns : 0));
          CHECK(times(loop, "LDSM.16.MT88.4") == (is_by_cells ? 0 : loads_of_columns));
          if (t != DType::F32) CHECK(times(loop, "MOV ") + times(loop, "IMAD.MOV") <= 4);
          // All of a piece, once: 16 rows by 8 columns and half a piece in each, three of them in f32.
          const auto warps = static_cast<size_t>(how.block / 32), want = static_cast<size_t>(side * side / 128) * 2 * (t == DType::F32 ? 3 : 1) / warps;
          CHECK(products == want);
          const size_t used = said.find("Used ");
          REQUIRE(used != std::string::npos);
          MESSAGE(std::string(name) << " " << std::string(name_of(t)) << " " << side << std::string(image ? " convolution: " : " product: ") << products << " HMMA, " << times(loop, "LDGSTS") << " LDGSTS, " << times(loop, "LDG.") << " LDG, " << times(loop, " BAR.") << " BAR of " << times(loop, ";") << " in the loop, "
                                    << said.substr(used, said.find('\n', used) - used));
        }
}
