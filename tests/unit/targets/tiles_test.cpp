// loop::StmtKind::Tiles: what it means, what is refused, and the code for it.
#include <doctest/doctest.h>

#include "packager/ir/context.h"
#include "packager/loop/print.h"
#include "packager/loop/verify.h"
#include "runtime/probe/probe.h"
#include "targets/families.h"
#include "targets/instructions.h"
#include "targets/llvm/host.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"
#include "tests/unit/targets/amx_trap.h"
#include "tests/unit/targets/native_module.h"
#include "tests/unit/targets/tiles_case.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

constexpr DType kU8 = DType::U8, kI8 = DType::I8;

struct Data {
  std::vector<AlignedBytes> buffers;
  std::vector<int32_t> expected;

  Data(DType a, DType b, int64_t depth) {
    std::mt19937 random(7);
    for (const size_t bytes : {size_t((kGroups + kTileRows) * kTileStride), size_t(2 * kTileTurns * 16 * depth), size_t(kGroups * 2 * kTileSums * 4)}) {
      buffers.emplace_back(bytes);
      for (size_t k = 0; k < bytes; ++k) buffers.back().data.get()[k] = static_cast<std::byte>(random());
    }
    const auto code = [&](size_t buffer, int64_t at, DType t) { return static_cast<int32_t>(read_element(buffers[buffer].data.get() + at, t).i); };
    for (int64_t t = 0; t < kGroups; ++t)
      for (const auto& [first, panel] : {std::pair<int64_t, int64_t>{0, 0}, {3, 1}})
        for (int64_t r = 0; r < 16; ++r)
          for (int64_t c = 0; c < 16; ++c) {
            int32_t sum = 0;
            for (int64_t k = 0; k < kTileTurns * depth; ++k) sum += code(0, (t + first + r) * kTileStride + k, a) * code(1, (panel * kTileTurns * depth + k / 4 * 4) * 16 + 4 * c + k % 4, b);
            expected.push_back(sum);
          }
  }
  bool is_right() const { return std::memcmp(buffers[2].data.get(), expected.data(), expected.size() * 4) == 0; }
};

void each_case(const std::function<void(DType, DType, int64_t)>& body) {
  for (const DType a : {kU8, kI8})
    for (const DType b : {kU8, kI8})
      for (const int64_t depth : {16, 32, 64}) body(a, b, depth);
}

TEST_CASE("tiles mean their formula, in the interpreter and through their text") {
  each_case([](DType a, DType b, int64_t depth) {
    ir::Context ctx, other;
    const loop::Kernel k = tiles_kernel(ctx, a, b, depth);
    REQUIRE_MESSAGE(loop::verify(k).ok(), loop::verify(k).text());
    auto parsed = loop::parse(other, loop::to_string(k));
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.status().text()));
    CHECK(loop::verify(parsed->front()).ok());
    CHECK(loop::to_string(parsed->front()) == loop::to_string(k));
    Data d(a, b, depth);
    loop::Run run;
    run.value = [](const ir::Sym*) { return std::nullopt; };
    for (AlignedBytes& buffer : d.buffers) run.buffers.push_back({buffer.data.get(), buffer.size});
    const auto fault = loop::interpret(parsed->front(), run);
    REQUIRE_MESSAGE(fault.ok(), (fault.ok() ? "" : fault.status().text()));
    CHECK_MESSAGE(d.is_right(), k.name);
  });
}

TEST_CASE("tiles that no unit has are refused") {
  const auto refused = [](const std::string& body, const char* lanes = "") {
    ir::Context ctx;
    auto k = loop::parse(ctx, std::string("kernel \"k\" tiles 1 ") + lanes + "range %0 %1 {\n  param \"a\" u8 array 0\n  param \"b\" i8 array 1\n  param \"y\" i32 out array 2\n" + body + "}\n");
    REQUIRE_MESSAGE(k.ok(), (k.ok() ? "" : k.status().text()));
    return loop::verify(k->front()).text();
  };
  const std::string dot = "  tiles dot 0 depth 64 (load.u8 0 0) 64 (load.i8 1 0)\n";
  CHECK(refused("  tiles begin 64\n" + dot) == "ok");
  CHECK(refused(dot).find("before its sums are zero") != std::string::npos);
  CHECK(refused("  if (lt.bool %0 3) {\n    tiles begin 64\n  }\n" + dot).find("before its sums are zero") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  if (lt.bool %0 3) {\n    tiles begin 64\n" + dot + "  }\n" + dot) == "ok");
  CHECK(refused("  tiles begin 64\n  if (lt.bool %0 3) {\n    tiles begin 32\n  }\n" + dot).find("leaves tiles of another depth") != std::string::npos);
  CHECK(refused("  tiles begin 20\n").find("tiles of 20 codes") != std::string::npos);
  CHECK(refused("  tiles begin 32\n" + dot).find("another depth") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles store 4 to 2 [0]\n").find("tile 4 of 4") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles store 1 to 1 [0]\n").find("store of a tile") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles dot 0 depth 64 (load.u8x4 0 0) 64 (load.i8 1 0)\n").find("no load of a code") != std::string::npos);
}

TEST_CASE("code with tiles is for targets that have them") {
  const Target& amx = *targets::find_target("x86-64-v4+amx");
  each_case([&](DType a, DType b, int64_t depth) {
    ir::Context ctx;
    std::vector<loop::Kernel> kernels;
    kernels.push_back(tiles_kernel(ctx, a, b, depth));
    CHECK(&targets::least_target(amx, kernels[0]) == &amx);
    const auto module = targets::emit_module(amx, kernels);
    REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
    CHECK(targets::audit_module(amx, module->bytes).ok());
    const Status weaker = targets::audit_module(*targets::find_target("x86-64-v4+vnni+bf16"), module->bytes);
    CHECK(weaker.text().find("x86.amx_") != std::string::npos);
    for (const char* without : {"x86-64-v4", "armv8-a", "portable"}) CHECK(!targets::emit_module(*targets::find_target(without), kernels).ok());
  });
}

#if defined(__x86_64__) && defined(__linux__)
constexpr std::string_view kOtherDepth = ".other";

// Calls `launch` for every kernel with its name and what runs it on all groups; checks its sums afterwards.
void each_kernel(const Target& target, const std::function<void(const std::string&, const std::function<bool()>&)>& launch) {
  each_case([&](DType a, DType b, int64_t depth) {
    ir::Context ctx;
    std::vector<loop::Kernel> kernels;
    for (const loop::Hoisting hoisting : {loop::Hoisting::All, loop::Hoisting::None}) {
      kernels.push_back(tiles_kernel(ctx, a, b, depth));
      kernels.back().hoisting = hoisting;
    }
    kernels.push_back(tiles_kernel(ctx, a, b, depth, depth == 64 ? 16 : 64));
    kernels.back().name += kOtherDepth;
    const auto module = targets::emit_module(target, kernels);
    REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
    const NativeModule native(module->bytes);
    REQUIRE(native.get());
    for (uint32_t entry = 0; entry < kernels.size(); ++entry) {
      Data d(a, b, depth);
      void* buffers[3];
      uint64_t lengths[3];
      for (size_t k = 0; k < 3; ++k) buffers[k] = d.buffers[k].data.get(), lengths[k] = d.buffers[k].size;
      AlignedBytes scratch(module->scratch_bytes[entry]);
      const MlrunLaunch arguments = {buffers, lengths, nullptr, scratch.data.get(), 0, 1};
      launch(kernels[entry].name, [&] { return native.get()->entries[entry].run(&arguments, 0, kGroups) == 0; });
      CHECK_MESSAGE(d.is_right(), kernels[entry].name);
    }
  });
}

TEST_CASE("what AMX is told computes what tiles mean, by trap") {
  const Target* host = targets::native_target();
  // Where there is AMX, a thread without the permission to use it would be trapped at some of its instructions only.
  if (!targets::has_feature(*host, "x86.avx2") || targets::has_feature(*host, "x86.amx_tile")) {
    MESSAGE("skipped: no AVX2 for the code around tiles, or AMX itself");
    return;
  }
  Target target = *targets::find_target("x86-64-v3");
  for (const char* feature : {"x86.amx_int8", "x86.amx_permission", "x86.amx_tile"}) target.features.push_back(feature);
  std::sort(target.features.begin(), target.features.end());
  target.llvm_features.insert(target.llvm_features.end(), {"+amx-tile", "+amx-int8"});
  target.has_tiles = true;
  each_kernel(target, [&](const std::string& name, const std::function<bool()>& run) {
    const AmxTrap trap;
    CHECK_MESSAGE(run(), name);
    CHECK(!trap.seen().wrong);
    // One depth is configured once, several are each time.
    const bool once = !name.ends_with(kOtherDepth);
    CHECK(trap.seen().configured == (once ? 1 : 2 * kGroups));
    CHECK(trap.seen().zeroed == (once ? kGroups * loop::kTiles : 0));
    CHECK(trap.seen().products == kGroups * kTileTurns * 3);
    CHECK(trap.seen().released == 1);
  });
}

TEST_CASE("what AMX is told computes what tiles mean, on AMX") {
  const Target& amx = *targets::find_target("x86-64-v4+amx");
  if (targets::native_target() != &amx || probe::request_amx() != 0) {
    MESSAGE("skipped: no AMX, or no permission to use it");
    return;
  }
  each_kernel(amx, [](const std::string& name, const std::function<bool()>& run) { CHECK_MESSAGE(run(), name); });
}
#endif

}  // namespace
}  // namespace mlc
