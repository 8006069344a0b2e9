// Products by groups of four warps whose factors lie in shared memory (loop::StmtKind::GroupMma, wgmma): what the nest says, of all types, layouts and sizes, and the same
// bytes on the executor, which reads where factors lie from the descriptors; the assembler keeps the sums in registers.
#include <unistd.h>

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

const targets::Target& sm90a() {
  const targets::Target* t = targets::find_target("cuda-sm90a");
  REQUIRE(t);
  return *t;
}

struct Size {
  int64_t m, k, n;
};

// The best one by groups of warps, which is not the best one of all where there are few blocks.
schedule::Schedule best(ir::Context& ctx, const nest::Function& f) {
  const auto all = lower::alternatives(ctx, f, f.body[0], sm90a());
  REQUIRE(all.ok());
  const auto found = std::find_if(all->begin(), all->end(), schedule::is_group_mma);
  REQUIRE(found != all->end());
  return *found;
}

void check_group(ir::Context& ctx, const nest::Function& f, const char* instruction, const test::Symbols& symbols = {}, const schedule::Schedule* how = nullptr) {
  const schedule::Schedule group = how ? *how : best(ctx, f);
  how = &group;
  const test::Kernels all = test::lower_all(ctx, f, sm90a(), test::test_math, how);
  std::string schedules;
  for (const std::string& one : test::schedules_of(all)) schedules += one;
  CHECK_MESSAGE(schedules.find(std::string("instr wgmma.") + instruction) != std::string::npos, schedules);
  test::check_kernels(f, all, sm90a(), symbols, 1, 4e-6);
  CHECK(test::check_emitted(ctx, f, sm90a(), symbols, how).conflicts == 0);
}

// y[m, n] = sum x * w, each factor along the depth or by points, its last dim the one that lies together.
void product(NestMaker& m, const Expr* M, const Expr* K, const Expr* N, DType x_type, DType w_type, bool x_by_points = false, bool w_by_points = false) {
  ir::Context& ctx = m.ctx;
  const DType sum = is_float(x_type) ? DType::F32 : DType::I32;
  const uint32_t x = m.array("x", x_type, x_by_points ? std::vector{K, M} : std::vector{M, K}), w = m.array("w", w_type, w_by_points ? std::vector{K, N} : std::vector{N, K}), y = m.output("y", sum, {M, N});
  const ir::Dim *i = m.dim("m", M), *k = m.dim("k", K), *j = m.dim("n", N);
  const auto load = [&](uint32_t array, const ir::Dim* points, bool by_points) { return ctx.cast(sum, by_points ? m.load(array, {m.at(k), m.at(points)}) : m.load(array, {m.at(points), m.at(k)})); };
  m.map({i, j}, y, {m.at(i), m.at(j)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, load(x, i, x_by_points), load(w, j, w_by_points))));
}

// The text of a module of one image.
std::string text_of(const targets::Module& module) {
  const auto decoded = gpu::decode(module.bytes);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& bytes = decoded->images[0].bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1};
}

size_t times(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("groups of warps multiply factors of 16 bits along the depth and by points, of ragged sizes") {
  for (const DType t : {DType::F16, DType::BF16})
    for (const bool x_by_points : {false, true})
      for (const bool w_by_points : {false, true})
        for (const auto& [m, k, n] : {Size{64, 32, 64}, {72, 104, 136}}) {
          CAPTURE(x_by_points);
          CAPTURE(w_by_points);
          CAPTURE(m);
          ir::Context ctx;
          NestMaker maker(ctx);
          product(maker, maker.n(m), maker.n(k), maker.n(n), t, t, x_by_points, w_by_points);
          check_group(ctx, maker.f, t == DType::F16 ? "f16" : "bf16");
        }
}

TEST_CASE("every tile of groups of warps") {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 64}, {64, 128}, {128, 64}, {128, 128}, {128, 256}})
    for (const bool by_points : {false, true}) {
      CAPTURE(rows);
      CAPTURE(columns);
      CAPTURE(by_points);
      ir::Context ctx;
      NestMaker maker(ctx);
      product(maker, maker.n(rows + 8), maker.n(72), maker.n(columns + 8), DType::F16, DType::F16, by_points, by_points);
      schedule::Schedule how = best(ctx, maker.f);
      how.tile.rows = rows, how.tile.columns = columns, how.block = static_cast<unsigned>(2 * rows);
      check_group(ctx, maker.f, "f16", {}, &how);
    }
}

TEST_CASE("groups of warps multiply codes of both signs, exactly") {
  for (const DType a : {DType::I8, DType::U8})
    for (const DType b : {DType::I8, DType::U8})
      for (const auto& [m, k, n] : {Size{64, 64, 64}, {70, 208, 75}}) {
        ir::Context ctx;
        NestMaker maker(ctx);
        product(maker, maker.n(m), maker.n(k), maker.n(n), a, b);
        check_group(ctx, maker.f, "i8");
      }
}

TEST_CASE("groups of warps take weights in panels with an epilogue, images in patches, batches, and sizes that only the run knows") {
  {
    ir::Context ctx;
    NestMaker maker(ctx);
    maker.matmul(maker.n(70), maker.n(48), maker.n(96), true, true, DType::F16);
    check_group(ctx, maker.f, "f16");
  }
  {
    ir::Context ctx;
    NestMaker maker(ctx);
    const Expr* B = maker.n(3);
    const Expr *M = maker.n(65), *K = maker.n(40), *N = maker.n(80);
    const uint32_t x = maker.array("x", DType::F16, {B, M, K}), w = maker.array("w", DType::F16, {B, N, K}), y = maker.output("y", DType::F32, {B, M, N});
    const ir::Dim *b = maker.dim("b", B), *i = maker.dim("m", M), *k = maker.dim("k", K), *j = maker.dim("n", N);
    maker.map({b, i, j}, y, {maker.at(b), maker.at(i), maker.at(j)},
              maker.fold(Join::Sum, {k}, ctx.binary(Op::Mul, ctx.cast(DType::F32, maker.load(x, {maker.at(b), maker.at(i), maker.at(k)})), ctx.cast(DType::F32, maker.load(w, {maker.at(b), maker.at(j), maker.at(k)})))));
    check_group(ctx, maker.f, "f16");
  }
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
  maker.matmul(ctx.sym(m), ctx.sym(k), ctx.sym(n), false, true, DType::BF16);
  for (const auto& [a, b, c] : {Size{0, 5, 7}, {1, 1, 1}, {5, 0, 3}, {65, 33, 70}}) check_group(ctx, maker.f, "bf16", {{m, a}, {k, b}, {n, c}});
}

TEST_CASE("groups of warps are for one target, and products of 16 bits and of codes whose tiles they do in less time") {
  ir::Context ctx;
  const auto instruction = [&](int64_t rows, int64_t columns, DType t, const char* target = "cuda-sm90a", int64_t depth = 512) {
    NestMaker maker(ctx);
    product(maker, maker.n(rows), maker.n(depth), maker.n(columns), t, t);
    const auto all = lower::candidates(ctx, maker.f, maker.f.body[0], *targets::find_target(target));
    REQUIRE(all.ok());
    return all->front().instruction;
  };
  CHECK(instruction(4096, 1024, DType::F16) == "wgmma.f16");
  CHECK(instruction(4096, 1024, DType::I8) == "wgmma.i8");
  CHECK(instruction(4096, 1024, DType::F16, "cuda-sm90") == "mma.f16");
  CHECK(instruction(4096, 1024, DType::F32) == "mma.f32");
  CHECK(instruction(64, 1024, DType::F16) == "mma.f16");
  CHECK(instruction(12800, 16, DType::BF16) == "mma.bf16");
  CHECK(instruction(4096, 1024, DType::F16, "cuda-sm90a", 64) == "wgmma.f16");
  // Few columns in chunks of 16 bytes are worth it; those of weights in pairs are copied 4 bytes at once, by more instructions of each warp.
  CHECK(instruction(40960, 40, DType::BF16) == "wgmma.bf16");
  NestMaker maker(ctx);
  maker.matmul(maker.n(40960), maker.n(512), maker.n(40), false, true, DType::BF16);
  maker.in_pairs(maker.f.inputs[1]);
  const auto all = lower::candidates(ctx, maker.f, maker.f.body[0], sm90a());
  REQUIRE(all.ok());
  CHECK(all->front().instruction == "mma.bf16");
}

TEST_CASE("groups of warps in blocks of a cluster add up what these have") {
  ir::Context ctx;
  NestMaker maker(ctx);
  maker.matmul(maker.n(128), maker.n(768), maker.n(64), true, true, DType::F16);
  const auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], sm90a(), test::test_math);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  CHECK(kernels->front().cluster > 1);
  check_group(ctx, maker.f, "f16");
}

TEST_CASE("tiles that groups of warps do not have are refused") {
  ir::Context ctx;
  NestMaker maker(ctx);
  product(maker, maker.n(128), maker.n(64), maker.n(256), DType::F16, DType::F16);
  const auto refusal = [&](const std::function<void(schedule::Schedule&)>& change) {
    schedule::Schedule how = best(ctx, maker.f);
    change(how);
    const auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], sm90a(), test::test_math, &how);
    return kernels.ok() ? "" : kernels.status().text();
  };
  CHECK(refusal([](schedule::Schedule& s) { s.tile.rows = 128, s.tile.columns = 256, s.block = 256; }) == "");
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{32, 64}, {64, 32}, {64, 256}, {256, 64}})
    CHECK(refusal([&, rows = rows, columns = columns](schedule::Schedule& s) { s.tile.rows = rows, s.tile.columns = columns, s.block = static_cast<unsigned>(2 * rows); }).find("64 rows") != std::string::npos);
  CHECK(refusal([](schedule::Schedule& s) { s.tile.rows = 128, s.tile.columns = 256, s.block = 128; }).find("256 lanes") != std::string::npos);
  CHECK(refusal([](schedule::Schedule& s) { s.tile.rows = 128, s.tile.columns = 256, s.block = 256, s.tile.stages = 5; }).find("96 KB") != std::string::npos);
  CHECK(refusal([](schedule::Schedule& s) { s.tile.depth = 16; }).find("16 cells deep") != std::string::npos);
  CHECK(refusal([](schedule::Schedule& s) { s.instruction = "wgmma.f32"; }) != "");
}

TEST_CASE("the executor reads where factors lie from their descriptors, and finds a fence or a wait that is missing") {
  ir::Context ctx;
  NestMaker maker(ctx);
  product(maker, maker.n(64), maker.n(64), maker.n(64), DType::F16, DType::F16, false, true);
  const schedule::Schedule how = best(ctx, maker.f);
  auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], sm90a(), test::test_math, &how);
  REQUIRE(kernels.ok());
  const auto module = targets::emit_module(sm90a(), *kernels);
  REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
  std::mt19937 rng(5);
  std::vector<nest::Tensor> inputs;
  for (const uint32_t a : maker.f.inputs) inputs.push_back(test::random_tensor(rng, maker.f.arrays[a].dtype, test::shape_of(maker.f.arrays[a], {})));
  // The results; what went wrong is in `error`.
  std::string error;
  const auto run = [&](std::string text, const std::string& what, const std::string& with) {
    if (!what.empty()) {
      REQUIRE_MESSAGE(text.find(what) != text.npos, text);
      for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) text.replace(at, what.size(), with);
    }
    auto memory = test::memory_of(maker.f, inputs, {});
    const auto image = targets::ptx::parse(text);
    REQUIRE_MESSAGE(image.ok(), image.status().text());
    testing::lanes::Memory lanes;
    std::vector<uint64_t> params;
    uint32_t out = 0;
    for (const loop::Param& p : kernels->front().params) {
      params.push_back(lanes.add(std::as_writable_bytes(std::span(memory[p.array])), p.written));
      if (p.written) out = p.array;
    }
    params.push_back(1), params.push_back(0);
    testing::ptx::Executor program(image->entries[0], params);
    REQUIRE(program.error() == "");
    error = testing::lanes::run(program, lanes, {.lanes = kernels->front().lanes, .grid = {1, 1, 1}, .shared_bytes = 200 << 10});
    return memory[out];
  };
  const std::string text = text_of(*module);
  const auto bits = [](uint64_t leading, uint64_t stride, uint64_t swizzle) { return std::to_string(static_cast<int64_t>(leading << 16 | stride << 32 | swizzle << 62)); };
  const auto right = run(text, "", "");
  CHECK(error == "");
  // Along the depth eight rows are 512 bytes, in a swizzle of 64; by points 64 of them are 4,096 bytes, eight steps 1,024, in one of 128.
  CHECK(run(text, bits(1, 32, 2), bits(1, 32, 2)) == right);
  CHECK((run(text, bits(1, 32, 2), bits(1, 32, 1)) != right || !error.empty()));
  CHECK((run(text, bits(1, 32, 2), bits(1, 64, 2)) != right || !error.empty()));
  CHECK((run(text, bits(256, 64, 1), bits(256, 32, 1)) != right || !error.empty()));
  run(text, bits(1, 32, 2), bits(1, 32, 0));
  CHECK(error.find("without a swizzle") != std::string::npos);
  run(text, bits(256, 64, 1), std::to_string(static_cast<int64_t>(uint64_t{256} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62 | 4)));
  CHECK(error.find("within a pattern") != std::string::npos);
  run(text, "fence.proxy.async.shared::cta;\n", "");
  CHECK(error.find("without a fence") != std::string::npos);
  run(text, "wgmma.fence.sync.aligned;\n", "");
  CHECK(error.find("without a fence") != std::string::npos);
  CHECK((run(text, "wgmma.wait_group.sync.aligned 0;\n", "") != right || !error.empty()));
}

TEST_CASE("the assembler keeps the sums of a group of warps in registers, and their loop is products") {
  const auto has = [](const char* tool) { return std::system((std::string(tool) + " --version >/dev/null 2>&1").c_str()) == 0; };
  if (!has("ptxas") || !has("nvdisasm")) {
    MESSAGE("skipped: 1 test, no ptxas or nvdisasm here");
    return;
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-group-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto read = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  for (const DType t : {DType::F16, DType::I8, DType::U8})
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 64}, {128, 128}, {128, 256}})
      for (const bool by_points : {false, true}) {
        if (by_points && t != DType::F16) continue;
        ir::Context ctx;
        NestMaker maker(ctx);
        product(maker, maker.n(12800), maker.n(512), maker.n(1024), t, t == DType::U8 ? DType::I8 : t, by_points, by_points);
        schedule::Schedule how = best(ctx, maker.f);
        how.tile.rows = rows, how.tile.columns = columns, how.block = static_cast<unsigned>(2 * rows);
        auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], sm90a(), test::test_math, &how);
        REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
        const auto module = targets::emit_module(sm90a(), *kernels);
        REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
        const std::string at = (folder / "").string();
        std::ofstream(folder / "tile.ptx", std::ios::binary) << text_of(*module);
        CHECK(std::system(("ptxas -v -arch=sm_90a -o " + at + "tile.cubin " + at + "tile.ptx >" + at + "log 2>&1").c_str()) == 0);
        CHECK(std::system(("nvdisasm " + at + "tile.cubin >" + at + "sass 2>&1").c_str()) == 0);
        const std::string said = read(folder / "log"), sass = read(folder / "sass");
        CHECK_MESSAGE(said.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos, said);
        CHECK_MESSAGE(said.find("serializ") == std::string::npos, said);
        // Two steps of a piece; no factor comes to a register.
        CHECK(times(sass, t == DType::F16 ? "HGMMA" : "IGMMA") == 2);
        CHECK(times(sass, "LDSM") == 0);
        const size_t used = said.find("Used ");
        REQUIRE(used != std::string::npos);
        MESSAGE(std::string(name_of(t)) << " " << rows << " x " << columns << std::string(by_points ? " by points: " : ": ") << said.substr(used, said.find('\n', used) - used));
      }
  std::filesystem::remove_all(folder);
}
