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

// Factors and sums. Those of bf16 are whole numbers, whose sums are the same in any order.
struct Data {
  std::vector<AlignedBytes> buffers;
  std::vector<int32_t> expected;
  bool is_float = false;

  Data(DType a, DType b, int64_t bytes) : is_float(a == DType::BF16) {
    std::mt19937 random(7);
    const int64_t size = bytes_of(a), group = 4 / size, depth = bytes / size;
    const size_t elements[] = {size_t((kGroups + kTileRows) * kTileStride), size_t(2 * kTileTurns * 16 * depth)};
    for (const size_t all : {elements[0] * size_t(size), elements[1] * size_t(size), size_t(kGroups * 2 * kTileSums * 4)}) {
      buffers.emplace_back(all);
      for (size_t k = 0; k < all; ++k) buffers.back().data.get()[k] = static_cast<std::byte>(random());
    }
    for (size_t buffer = 0; is_float && buffer < 2; ++buffer)
      for (size_t k = 0; k < elements[buffer]; ++k) write_element(buffers[buffer].data.get() + 2 * k, {static_cast<double>(random() % 255) - 127, 0}, a);
    const auto element = [&](size_t buffer, int64_t at, DType t) {
      const auto value = read_element(buffers[buffer].data.get() + at * size, t);
      return is_float ? static_cast<int32_t>(value.f) : static_cast<int32_t>(value.i);
    };
    for (int64_t t = 0; t < kGroups; ++t)
      for (const auto& [first, panel] : {std::pair<int64_t, int64_t>{0, 0}, {3, 1}})
        for (int64_t r = 0; r < 16; ++r)
          for (int64_t c = 0; c < 16; ++c) {
            int32_t sum = 0;
            for (int64_t k = 0; k < kTileTurns * depth; ++k)
              sum += element(0, (t + first + r) * kTileStride + k, a) * element(1, (panel * kTileTurns * depth + k / group * group) * 16 + group * c + k % group, b);
            expected.push_back(is_float ? std::bit_cast<int32_t>(static_cast<float>(sum)) : sum);
          }
  }
  bool is_right() const { return std::memcmp(buffers[2].data.get(), expected.data(), expected.size() * 4) == 0; }
};

void each_case(const std::function<void(DType, DType, int64_t)>& body) {
  for (const int64_t bytes : {16, 32, 64}) {
    for (const DType a : {kU8, kI8})
      for (const DType b : {kU8, kI8}) body(a, b, bytes);
    body(DType::BF16, DType::BF16, bytes);
  }
}

TEST_CASE("tiles mean their formula, in the interpreter and through their text") {
  each_case([](DType a, DType b, int64_t bytes) {
    ir::Context ctx, other;
    const loop::Kernel k = tiles_kernel(ctx, a, b, bytes);
    REQUIRE_MESSAGE(loop::verify(k).ok(), loop::verify(k).text());
    auto parsed = loop::parse(other, loop::to_string(k));
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.status().text()));
    CHECK(loop::verify(parsed->front()).ok());
    CHECK(loop::to_string(parsed->front()) == loop::to_string(k));
    Data d(a, b, bytes);
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
    auto k = loop::parse(ctx, std::string("kernel \"k\" tiles 1 ") + lanes + "range %0 %1 {\n  param \"a\" u8 array 0\n  param \"b\" i8 array 1\n  param \"y\" i32 out array 2\n  param \"c\" bf16 array 3\n" + body + "}\n");
    REQUIRE_MESSAGE(k.ok(), (k.ok() ? "" : k.status().text()));
    return loop::verify(k->front()).text();
  };
  const std::string dot = "  tiles dot 0 bytes 64 (load.u8 0 0) 64 (load.i8 1 0)\n";
  CHECK(refused("  tiles begin 64\n" + dot) == "ok");
  CHECK(refused(dot).find("before its sums are zero") != std::string::npos);
  CHECK(refused("  if (lt.bool %0 3) {\n    tiles begin 64\n  }\n" + dot).find("before its sums are zero") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  if (lt.bool %0 3) {\n    tiles begin 64\n" + dot + "  }\n" + dot) == "ok");
  CHECK(refused("  tiles begin 64\n  if (lt.bool %0 3) {\n    tiles begin 32\n  }\n" + dot).find("leaves tiles of another size") != std::string::npos);
  CHECK(refused("  tiles begin 20\n").find("tiles of 20 bytes") != std::string::npos);
  CHECK(refused("  tiles begin 32\n" + dot).find("another size") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles dot 0 bytes 64 (load.i32 2 0) 64 (load.i8 1 0)\n").find("a product of tiles of i32") != std::string::npos);
  CHECK(refused("  tiles begin 64\n" + dot + "  tiles dot 1 bytes 64 (load.bf16 3 0) 64 (load.bf16 3 0)\n").find("a product of tiles of bf16") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles dot 1 bytes 64 (load.bf16 3 0) 64 (load.i8 1 0)\n").find("a product of tiles of i8") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles dot 1 bytes 64 (load.bf16 3 0) 64 (load.bf16 3 0)\n  tiles store 1 to 2 [0]\n").find("store of a tile") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles store 4 to 2 [0]\n").find("tile 4 of 4") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles store 1 to 1 [0]\n").find("store of a tile") != std::string::npos);
  CHECK(refused("  tiles begin 64\n  tiles dot 0 bytes 64 (load.u8x4 0 0) 64 (load.i8 1 0)\n").find("a factor of a product of tiles is no load") != std::string::npos);
}

TEST_CASE("code with tiles is for targets that have them") {
  const Target& amx = *targets::find_target("x86-64-v4+amx");
  each_case([&](DType a, DType b, int64_t bytes) {
    ir::Context ctx;
    std::vector<loop::Kernel> kernels;
    kernels.push_back(tiles_kernel(ctx, a, b, bytes));
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
constexpr std::string_view kOtherBytes = ".other";

// Calls `launch` for every kernel with its name and what runs it on all groups; checks its sums afterwards.
void each_kernel(const Target& target, const std::function<void(const std::string&, const std::function<bool()>&)>& launch) {
  each_case([&](DType a, DType b, int64_t bytes) {
    ir::Context ctx;
    std::vector<loop::Kernel> kernels;
    for (const loop::Hoisting hoisting : {loop::Hoisting::All, loop::Hoisting::None}) {
      kernels.push_back(tiles_kernel(ctx, a, b, bytes));
      kernels.back().hoisting = hoisting;
    }
    kernels.push_back(tiles_kernel(ctx, a, b, bytes, bytes == 64 ? 16 : 64));
    kernels.back().name += kOtherBytes;
    const auto module = targets::emit_module(target, kernels);
    REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
    const NativeModule native(module->bytes);
    REQUIRE(native.get());
    for (uint32_t entry = 0; entry < kernels.size(); ++entry) {
      Data d(a, b, bytes);
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
  for (const char* feature : {"x86.amx_bf16", "x86.amx_int8", "x86.amx_permission", "x86.amx_tile"}) target.features.push_back(feature);
  std::sort(target.features.begin(), target.features.end());
  target.llvm_features.insert(target.llvm_features.end(), {"+amx-tile", "+amx-int8", "+amx-bf16"});
  target.has_tiles = true;
  each_kernel(target, [&](const std::string& name, const std::function<bool()>& run) {
    const AmxTrap trap;
    CHECK_MESSAGE(run(), name);
    CHECK(!trap.seen().wrong);
    // Rows of one length are configured once, several are each time.
    const bool once = !name.ends_with(kOtherBytes);
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
