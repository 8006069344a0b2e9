// Copies beside lanes in PTX: what the interpreter says, on the executor, which finds waits that are missing or too short, and sources that must not be read.
#include <doctest/doctest.h>

#include <numeric>

#include "packager/ir/context.h"
#include "packager/loop/verify.h"
#include "targets/families.h"
#include "tests/support/ptx/launch.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

namespace mlc {
namespace {

// Each lane of one block of 32 brings 16 or 4 bytes a turn for five turns, into three places of the memory that lanes share, and adds up the words that its neighbour
// brought: those of turn 4 are zeros, whose source is out of range. `left`: groups that a turn leaves under way.
std::string ring_of_copies(int left, int64_t words = 4) {
  const std::string size = std::to_string(words);
  const std::string copy = "copy " + std::to_string(4 * words) + " to 2 [(mul (add (mul (floormod %T 3) 32) %3) " + size + ")] (load.i32 0 (mul (add (mul %T 32) %3) " + size + ")) where (lt.bool %T 4)\n";
  const auto of_turn = [&](const std::string& turn) {
    std::string text = copy;
    for (size_t at; (at = text.find("%T")) != std::string::npos;) text.replace(at, 2, turn);
    return text;
  };
  return "kernel \"k\" tiles 1 block 32 range %0 %1 {\n  param \"x\" i32 array 0\n  param \"y\" i32 out array 1\n  shared \"s\" i32 384\n"
         "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 32 step 1 {\n      " +
         of_turn("0") + "      close copies\n      " + of_turn("1") + "      close copies\n      local %4.i32 = i32:0\n      for %5 = 0 .. 5 step 1 {\n        wait copies " + std::to_string(left) +
         "\n        barrier\n        let %6 = (add %5 2)\n        if (lt.bool %6 5) {\n          " + of_turn("%6") +
         "        }\n        close copies\n        let %8 = (add (mul (floormod %5 3) 32) (floormod (add %3 1) 32))\n        " +
         (words == 1 ? "let %7.i32 = (load.i32 2 %8)\n"
                     : "let %9.i32x4 = (load.i32x4 2 (mul %8 4))\n        let %7.i32 = (add.i32 (add.i32 (extract.i32 0 %9) (extract.i32 1 %9)) (add.i32 (extract.i32 2 %9) (extract.i32 3 %9)))\n") +
         "        %4 = (add.i32 (mul.i32 %4 i32:3) %7)\n      }\n      wait copies 0\n      store 1 [%3] %4\n    }\n  }\n}\n";
}

loop::Kernel kernel_with_copies(ir::Context& ctx, const std::string& text) {
  auto all = loop::parse(ctx, text);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  const Status verified = loop::verify((*all)[0]);
  REQUIRE_MESSAGE(verified.ok(), verified.text());
  return std::move((*all)[0]);
}

struct CopiedNumbers {
  std::vector<int32_t> x = std::vector<int32_t>(512), y = std::vector<int32_t>(32);
  CopiedNumbers() { std::iota(x.begin(), x.end(), 1); }
  std::vector<std::span<std::byte>> buffers() { return {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))}; }
};

std::vector<int32_t> copied_sums(int32_t words = 4) {
  std::vector<int32_t> sums(32);
  for (int32_t lane = 0; lane < 32; ++lane)
    for (int32_t turn = 0; turn < 5; ++turn) {
      const int32_t first = (turn * 32 + (lane + 1) % 32) * words + 1;
      sums[static_cast<size_t>(lane)] = sums[static_cast<size_t>(lane)] * 3 + (turn < 4 ? words * first + words * (words - 1) / 2 : 0);
    }
  return sums;
}

std::string text_with_copies(const targets::Module& module) {
  const auto decoded = gpu::decode(module.bytes);
  REQUIRE(decoded.ok());
  return {reinterpret_cast<const char*>(decoded->images[0].bytes.data()), decoded->images[0].bytes.size() - 1};
}

TEST_CASE("a ring of copies is the interpreter's and the executor's, and devices before sm_80 have none") {
  for (const int64_t words : {1, 4}) {
    ir::Context ctx;
    const loop::Kernel kernel = kernel_with_copies(ctx, ring_of_copies(1, words));
    CopiedNumbers host;
    CHECK(loop::interpret(kernel, {host.buffers(), [](const ir::Sym*) { return std::nullopt; }, 0, -1, {}}).ok());
    CHECK(host.y == copied_sums(static_cast<int32_t>(words)));
    for (const targets::Target& target : targets::ptx::emitter().targets()) {
      CAPTURE(target.name);
      CAPTURE(words);
      const auto module = targets::emit_module(target, std::span(&kernel, 1));
      CHECK(module.ok() == target.copies_aside);
      CHECK(target.copies_aside == (target.name != "cuda-sm75"));
      if (!module.ok()) {
        CHECK(module.status().text().find("which this target does not have") != std::string::npos);
        continue;
      }
      CHECK(targets::audit_module(target, module->bytes).ok());
      CHECK(text_with_copies(*module).find(words == 1 ? "cp.async.ca.shared.global" : "cp.async.cg.shared.global") != std::string::npos);
      CopiedNumbers device;
      testing::lanes::Counts counts;
      const testing::ptx::LoadedModule loaded(module->bytes);
      REQUIRE(loaded.error() == "");
      CHECK(testing::ptx::run_kernel(loaded, 0, device.buffers(), {}, 1, 7, 0, &counts).error == "");
      CHECK(device.y == copied_sums(static_cast<int32_t>(words)));
      CHECK(counts.conflicts == 0);
      // What is zero is not read.
      CHECK(counts.global_loads == 4 * 32);
    }
  }
}

TEST_CASE("the executor finds a wait that leaves a group too many") {
  ir::Context ctx;
  const loop::Kernel kernel = kernel_with_copies(ctx, ring_of_copies(2));
  const targets::Target& target = *targets::find_target("cuda-sm80");
  const auto module = targets::emit_module(target, std::span(&kernel, 1));
  REQUIRE(module.ok());
  CopiedNumbers device;
  const testing::ptx::LoadedModule loaded(module->bytes);
  const std::string wrong = testing::ptx::run_kernel(loaded, 0, device.buffers(), {}, 1).error;
  CHECK((wrong.find("races with another lane") != std::string::npos || device.y != copied_sums()));
}

TEST_CASE("a lane that ends before its copies is found") {
  ir::Context ctx;
  const loop::Kernel kernel = kernel_with_copies(ctx, ring_of_copies(1));
  const auto module = targets::emit_module(*targets::find_target("cuda-sm90"), std::span(&kernel, 1));
  REQUIRE(module.ok());
  std::string text = text_with_copies(*module);
  for (size_t at; (at = text.find("cp.async.wait_group")) != std::string::npos;) text.erase(at, text.find('\n', at) + 1 - at);
  const auto image = targets::ptx::parse(text);
  REQUIRE(image.ok());
  CopiedNumbers device;
  testing::lanes::Memory memory;
  const uint64_t x = memory.add(device.buffers()[0], false), y = memory.add(device.buffers()[1], true);
  testing::ptx::Executor program(image->entries[0], {x, y, 1, 0});
  REQUIRE(program.error() == "");
  CHECK(testing::lanes::run(program, memory, {.lanes = 32, .grid = {1, 1, 1}, .shared_bytes = image->entries[0].shared_bytes}).find("ends before its copies") != std::string::npos);
}

}  // namespace
}  // namespace mlc
