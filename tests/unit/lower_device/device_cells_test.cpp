// Cells of four codes as devices compute them: words as codes, codes as words, and Op::Dot of them, of all signs, on each target as the Loop interpreter
// says, and by the instruction of the target where it has one.
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "packager/loop/build.h"
#include "packager/loop/verify.h"
#include "targets/spirv/verify.h"
#include "tests/support/nests/device_run.h"

using namespace mlc;
using ir::Expr;

namespace {

constexpr int64_t kLanes = 32, kTiles = 2, kCells = 2;  // words of a lane

loop::Kernel cells_kernel(ir::Context& ctx, DType a, DType b, bool of_words) {
  loop::Kernel k;
  k.name = "cells";
  for (const auto& [name, type, written] : {std::tuple{"acc", DType::I32, false}, {"a", DType::I32, false}, {"b", DType::I32, false}, {"bytes", DType::I8, false}, {"sums", DType::I32, true}, {"codes", DType::U8, true}, {"words", DType::U32, true}})
    k.params.push_back({name, type, written, static_cast<uint32_t>(k.params.size()), loop::Role::Array, nullptr});
  k.tile_begin = ctx.fresh_var({DType::I64, 1}), k.tile_end = ctx.fresh_var({DType::I64, 1}), k.tiles = ctx.integer(kTiles);
  k.lanes = kLanes;
  loop::Builder build(ctx, k.body);
  build.with_for(k.tile_begin, k.tile_end, 1, [&](const Expr* tile) {
    loop::Stmt& lanes = build.append(loop::StmtKind::For);
    lanes.for_kind = loop::ForKind::Lanes;
    lanes.var = ctx.fresh_var({DType::I64, 1}), lanes.begin = ctx.integer(0), lanes.end = ctx.integer(kLanes);
    const Expr* lane = lanes.var;
    build.within(lanes.body, [&] {
      const Expr* at = build.let(ctx.mul(ctx.add(ctx.mul(tile, ctx.integer(kLanes)), lane), ctx.integer(kCells)));
      const auto words = [&](uint32_t array) { return build.let(loop::vec_load(ctx, array, {DType::I32, kCells}, at)); };
      const Expr *acc = words(0), *x = words(1);
      if (of_words) build.store(4, at, loop::vec_dot(ctx, acc, loop::codes_of(ctx, a, x), loop::codes_of(ctx, b, words(2))));
      for (unsigned w = 0; w < kCells; ++w) {
        const Expr *place = ctx.add(at, ctx.integer(w)), *one = loop::extract(ctx, x, w);
        const Expr* bytes = build.let(loop::vec_load(ctx, 3, {DType::I8, 4}, ctx.mul(place, ctx.integer(4))));
        const Expr* second = b == DType::I8 ? bytes : loop::vec_convert(ctx, ir::Op::Bitcast, b, bytes);
        if (!of_words) build.store(4, place, loop::vec_dot(ctx, loop::extract(ctx, acc, w), loop::codes_of(ctx, a, one), second));
        build.store(5, ctx.mul(place, ctx.integer(4)), loop::codes_of(ctx, DType::U8, one));
        build.store(6, place, loop::words_of(ctx, DType::U32, bytes));
      }
    });
  });
  return k;
}

struct Data {
  std::vector<std::vector<std::byte>> buffers{7, std::vector<std::byte>(kTiles * kLanes * kCells * 4)};
  loop::Run run;

  explicit Data(uint32_t seed) {
    std::mt19937 rng(seed);
    for (size_t k = 0; k < 4; ++k)
      for (std::byte& b : buffers[k]) b = static_cast<std::byte>(rng());
    for (size_t k = 1; k < 4; ++k) std::fill_n(buffers[k].begin(), 8, std::byte{0x80}), std::fill_n(buffers[k].begin() + 8, 8, std::byte{0xff});
    run.value = [](const ir::Sym*) { return std::nullopt; };
    run.tile_begin = 0, run.tile_end = kTiles;
    for (auto& b : buffers) run.buffers.emplace_back(b);
  }
};

int64_t code(std::byte b, DType t) { return t == DType::I8 ? int64_t{static_cast<int8_t>(b)} : int64_t{static_cast<uint8_t>(b)}; }

}  // namespace

TEST_CASE("words are four codes, codes are words, and their products are those of their signs on every device") {
  for (const DType a : {DType::U8, DType::I8})
    for (const DType b : {DType::U8, DType::I8})
      for (const bool of_words : {true, false}) {
        CAPTURE(name_of(a));
        CAPTURE(name_of(b));
        CAPTURE(of_words);
        ir::Context ctx;
        const loop::Kernel kernel = cells_kernel(ctx, a, b, of_words);
        REQUIRE_MESSAGE(loop::verify(kernel).ok(), loop::verify(kernel).text());
        Data interpreted(7);
        const auto outcome = loop::interpret(kernel, interpreted.run);
        REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.status().text()));
        for (size_t w = 0; w < kTiles * kLanes * kCells; ++w) {
          int32_t acc = 0, sum = 0;
          std::memcpy(&acc, interpreted.buffers[0].data() + 4 * w, 4);
          std::memcpy(&sum, interpreted.buffers[4].data() + 4 * w, 4);
          int64_t want = acc;
          for (size_t k = 0; k < 4; ++k) want += code(interpreted.buffers[1][4 * w + k], a) * code(interpreted.buffers[of_words ? 2 : 3][4 * w + k], b);
          REQUIRE(sum == static_cast<int32_t>(want));
        }
        CHECK(interpreted.buffers[5] == interpreted.buffers[1]);
        CHECK(interpreted.buffers[6] == interpreted.buffers[3]);
        for (const char* name : {"vulkan-base", "vulkan-subgroup", "cuda-sm75", "cuda-sm90"}) {
          CAPTURE(name);
          testing::lanes::Counts counts;
          Data executed(7);
          const auto fault = test::on_executor(*targets::find_target(name), counts)(kernel, executed.run);
          REQUIRE_MESSAGE(fault.ok(), (fault.ok() ? "" : fault.status().text()));
          CHECK(executed.buffers == interpreted.buffers);
        }
      }
}

TEST_CASE("products of cells in SPIR-V want their capabilities and their format, and the validator of Khronos takes them") {
  ir::Context ctx;
  const loop::Kernel kernel = cells_kernel(ctx, DType::U8, DType::I8, true);
  const auto module = targets::emit_module(*targets::find_target("vulkan-subgroup"), std::span(&kernel, 1));
  REQUIRE(module.ok());
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& bytes = decoded->images[0].bytes;
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const auto accepted = [&](const std::vector<uint32_t>& w, bool subgroups = true) { return targets::spirv::verify(w, decoded->entries[0], subgroups).ok(); };
  CHECK(accepted(words));
  CHECK(!accepted(words, false));
  int changes = 0;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const uint32_t op = words[at] & 0xffff;
    std::vector<uint32_t> changed = words;
    if (op == 17 && (words[at + 1] == 6018 || words[at + 1] == 6019)) changed.erase(changed.begin() + static_cast<ptrdiff_t>(at), changed.begin() + static_cast<ptrdiff_t>(at) + 2);
    else if (op >= 4450 && op <= 4452) ++changed[at + 5];
    else continue;
    ++changes;
    CHECK(!accepted(changed));
  }
  CHECK(changes == 2 + kCells);
  if (std::system("spirv-val --version >/dev/null 2>&1") != 0) {
    MESSAGE("skipped: spirv-val is not installed");
    return;
  }
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("mlc-cells-" + std::to_string(getpid()) + ".spv");
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  CHECK(std::system(("spirv-val --target-env vulkan1.3 " + file.string()).c_str()) == 0);
  std::filesystem::remove(file);
}

TEST_CASE("bits change their number of lanes only between words of 32 bits and codes of 8") {
  ir::Context ctx;
  const auto accepted = [&](ir::Type from, ir::Type to) {
    loop::Kernel k;
    k.name = "k";
    k.params.push_back({"x", from.dtype, false, 0, loop::Role::Array, nullptr});
    k.tile_begin = ctx.fresh_var({DType::I64, 1}), k.tile_end = ctx.fresh_var({DType::I64, 1}), k.tiles = ctx.integer(1);
    loop::Builder(ctx, k.body).let(ctx.convert(ir::Op::Bitcast, to, loop::vec_load(ctx, 0, from, ctx.integer(0))));
    return loop::verify(k).ok();
  };
  CHECK(accepted({DType::U32, 1}, {DType::I8, 4}));
  CHECK(accepted({DType::I32, 4}, {DType::U8, 16}));
  CHECK(accepted({DType::U8, 8}, {DType::U32, 2}));
  CHECK(!accepted({DType::U32, 1}, {DType::I8, 8}));
  CHECK(!accepted({DType::U32, 2}, {DType::I8, 4}));
  CHECK(!accepted({DType::F32, 1}, {DType::I8, 4}));
  CHECK(!accepted({DType::U32, 1}, {DType::I16, 2}));
  CHECK(!accepted({DType::I64, 1}, {DType::I8, 8}));
  CHECK(!accepted({DType::I8, 6}, {DType::I32, 1}));
}
