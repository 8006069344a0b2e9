// Folds over the lanes of a block by shuffles: the bits that Loop promises, of each type, operation and width.
#include <doctest/doctest.h>

#include <random>

#include "packager/ir/context.h"
#include "packager/ir/numeric.h"
#include "packager/loop/verify.h"
#include "targets/families.h"
#include "tests/support/ptx/launch.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

namespace mlc {
namespace {

constexpr uint32_t kLanes = 128, kTiles = 3;

// Two folds after each other, so that the second one finds the memory of the first.
std::string folding(DType t, const std::string& op, uint32_t width) {
  const std::string type(name_of(t)), wide = (width == kLanes ? "" : " width " + std::to_string(width)) + "\n", load = "(load." + type + " 0 %4)";
  return "kernel \"k\" tiles 3 block 128 range %0 %1 {\n  param \"x\" " + type + " array 0\n  param \"y\" " + type + " out array 1\n"
         "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 128 step 1 {\n      let %4 = (add (mul %2 128) %3)\n"
         "      fold %5." + type + " = " + op + " of " + load + wide + "      fold %6." + type + " = " + op + " of (select." + type + " (lt.bool %3 64) %5 " + load + ")" + wide +
         "      store 1 [%4] %6\n    }\n  }\n}\n";
}

loop::Kernel parsed(ir::Context& ctx, const std::string& text) {
  auto all = loop::parse(ctx, text);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  const Status verified = loop::verify((*all)[0]);
  REQUIRE_MESSAGE(verified.ok(), verified.text());
  return std::move((*all)[0]);
}

std::vector<std::byte> numbers(DType t, std::mt19937_64& random) {
  std::vector<std::byte> bytes(kTiles * kLanes * bytes_of(t));
  for (uint32_t k = 0; k < kTiles * kLanes; ++k) {
    const double real = std::ldexp(double(int64_t(random()) >> 11), -52);
    ir::store_element(t, bytes.data(), k, {t == DType::Bool ? int64_t(random() % 8 != 0) : int64_t(random()), real});
  }
  return bytes;
}

TEST_CASE("a fold of lanes has the interpreter's bits, and a barrier only where it is of several warps") {
  std::mt19937_64 random(11);
  uint32_t widths = 0;
  const std::vector<std::string> kNumbers = {"add", "mul", "min", "max"}, kTruths = {"and", "or"};
  for (const targets::Target& target : targets::ptx::emitter().targets())
    for (const DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::U64, DType::I32, DType::U32, DType::I8, DType::U8, DType::I16, DType::Bool})
      for (const std::string& op : t == DType::Bool ? kTruths : kNumbers) {
        const uint32_t width = 2u << widths++ % 7;  // 2 to 128
        CAPTURE(target.name);
        CAPTURE(name_of(t));
        CAPTURE(op);
        CAPTURE(width);
        ir::Context ctx;
        const loop::Kernel kernel = parsed(ctx, folding(t, op, width));
        std::vector<std::byte> x = numbers(t, random), expected(x.size()), y(x.size(), std::byte{0x5a});
        loop::Run run;
        run.buffers = {x, expected};
        run.value = [](const ir::Sym*) { return std::nullopt; };
        const auto interpreted = loop::interpret(kernel, run);
        REQUIRE_MESSAGE(interpreted.ok(), (interpreted.ok() ? "" : interpreted.status().text()));
        const auto module = targets::emit_module(target, std::span(&kernel, 1));
        REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
        const Status audit = targets::audit_module(target, module->bytes);
        CHECK_MESSAGE(audit.ok(), audit.text());
        const testing::ptx::LoadedModule loaded(module->bytes);
        REQUIRE_MESSAGE(loaded.error().empty(), loaded.error());
        CHECK(loaded.code(0)->has_barriers == (width > 32));
        CHECK(loaded.entry(0).shared_bytes == (width > 32 ? 32 : 0));
        const auto out = testing::ptx::run_kernel(loaded, 0, {x, y}, {}, kTiles);
        REQUIRE_MESSAGE(out.error.empty(), out.error);
        CHECK(y == expected);
      }
}

TEST_CASE("a shuffle that a lane of its warp does not come to is found by the executor, and blocks of half a warp are refused") {
  ir::Context ctx;
  std::string text = folding(DType::F32, "add", 32);
  for (size_t at; (at = text.find("128")) != text.npos;) text.replace(at, 3, "16");
  for (size_t at; (at = text.find(" width 32")) != text.npos;) text.replace(at, 9, " width 16");
  const loop::Kernel kernel = parsed(ctx, text);
  const auto module = targets::emit_module(targets::ptx::emitter().targets()[0], std::span(&kernel, 1));
  REQUIRE(!module.ok());
  CHECK(module.status().text().find("no whole warps") != std::string::npos);
  const auto image = targets::ptx::parse(
      ".version 6.5\n.target sm_75\n.address_size 64\n.visible .entry k(\n)\n.maxntid 64, 1, 1\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\n"
      "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\n@%p1 bra $L_1;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n$L_1:\nret;\n}\n");
  REQUIRE_MESSAGE(image.ok(), image.status().text());
  testing::ptx::Executor program(image->entries[0], {});
  testing::lanes::Memory memory;
  testing::lanes::Launch launch{.lanes = 64};
  CHECK(testing::lanes::run(program, memory, launch).find("waits for lanes that never come") != std::string::npos);
}

}  // namespace
}  // namespace mlc
