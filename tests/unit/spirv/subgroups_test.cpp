// Folds over the lanes of a block on vulkan-subgroup: the bits that Loop promises, whatever the size of a subgroup; what the audit asks
// of operations between lanes.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "packager/ir/context.h"
#include "packager/ir/numeric.h"
#include "packager/loop/verify.h"
#include "targets/spirv/kernel_emitter.h"
#include "targets/spirv/verify.h"
#include "tests/support/spirv/launch.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

namespace mlc {
namespace {

namespace sp = testing::spirv;
using targets::spirv::EmittedKernel;

constexpr uint32_t kLanes = 128, kTiles = 3;
constexpr targets::spirv::Limits kLimits{.shared_bytes = 32768, .subgroups = true};

// Two folds after each other, so that the second one finds the memory of the first.
std::string folding(DType t, const std::string& op, uint32_t width = kLanes) {
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

EmittedKernel emitted(const loop::Kernel& kernel) {
  auto e = targets::spirv::emit_kernel(kernel, kLimits);
  REQUIRE_MESSAGE(e.ok(), (e.ok() ? "" : e.status().text()));
  return std::move(*e);
}

std::vector<std::byte> numbers(DType t, std::mt19937_64& random) {
  std::vector<std::byte> bytes(kTiles * kLanes * bytes_of(t));
  for (uint32_t k = 0; k < kTiles * kLanes; ++k) {
    const double real = std::ldexp(double(int64_t(random()) >> 11), -52);
    ir::store_element(t, bytes.data(), k, {t == DType::Bool ? int64_t(random() % 8 != 0) : int64_t(random()), real});
  }
  return bytes;
}

TEST_CASE("a fold has the same bits in subgroups of any size") {
  std::mt19937_64 random(11);
  uint32_t widths = 0;
  const std::vector<std::string> kNumbers = {"add", "mul", "min", "max"}, kTruths = {"and", "or"};
  for (const DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::U64, DType::I32, DType::U32, DType::I8, DType::U8, DType::I16, DType::Bool})
    for (const std::string& op : t == DType::Bool ? kTruths : kNumbers) {
      const uint32_t width = 2u << widths++ % 7;  // 2 to 128
      CAPTURE(name_of(t));
      CAPTURE(op);
      CAPTURE(width);
      ir::Context ctx;
      const loop::Kernel kernel = parsed(ctx, folding(t, op, width));
      std::vector<std::byte> x = numbers(t, random), expected(x.size());
      loop::Run run;
      run.buffers = {x, expected};
      run.value = [](const ir::Sym*) { return std::nullopt; };
      const auto interpreted = loop::interpret(kernel, run);
      REQUIRE_MESSAGE(interpreted.ok(), (interpreted.ok() ? "" : interpreted.status().text()));
      const EmittedKernel e = emitted(kernel);
      CHECK(e.entry.wants_full_subgroups);
      CHECK(e.entry.has_barriers);
      const auto audited = targets::spirv::verify(e.words, e.entry, true);
      REQUIRE_MESSAGE(audited.ok(), (audited.ok() ? "" : audited.status().text()));
      CHECK(audited->capabilities == e.capabilities);
      for (const uint32_t size : {4u, 8u, 16u, 32u, 64u}) {
        CAPTURE(size);
        std::vector<std::byte> y(x.size(), std::byte{0x5a});
        sp::Launch l;
        l.buffers = {x, y};
        l.tiles = kTiles, l.manners.subgroup = size;
        const sp::Outcome out = sp::run(e.words, e.entry, l);
        REQUIRE_MESSAGE(out.error.empty(), out.error);
        CHECK(y == expected);
      }
    }
}

TEST_CASE("a target without subgroups refuses folds over lanes, and one of 1.6 names all its variables") {
  ir::Context ctx;
  const loop::Kernel kernel = parsed(ctx, folding(DType::F32, "add"));
  const auto base = targets::spirv::emit_kernel(kernel, {});
  REQUIRE(!base.ok());
  CHECK(base.status().message.find("folds over 128 lanes") != std::string::npos);
  const EmittedKernel e = emitted(kernel);
  CHECK(!targets::spirv::verify(e.words, e.entry).ok());  // as SPIR-V 1.3
  CHECK(e.words[1] == targets::spirv::kVersion16);
}

// The words of the instruction that comes first, to be changed.
uint32_t* find(std::vector<uint32_t>& words, targets::spirv::Op op) {
  for (size_t at = targets::spirv::kHeaderWords; at < words.size(); at += words[at] >> 16)
    if ((words[at] & 0xffff) == static_cast<uint32_t>(op)) return &words[at];
  return nullptr;
}

TEST_CASE("the audit wants operations between lanes of the forms that are written, and an entry that states them") {
  using Word = targets::spirv::Op;
  ir::Context ctx;
  const EmittedKernel sums = emitted(parsed(ctx, folding(DType::F32, "add"))), integers = emitted(parsed(ctx, folding(DType::I32, "add")));
  const auto refused = [](const EmittedKernel& e, auto change, std::string_view why) {
    EmittedKernel other = e;
    change(other);
    const auto found = targets::spirv::verify(other.words, other.entry, true);
    const std::string got = found.ok() ? "" : found.status().message;
    CHECK_MESSAGE(got.find(why) != std::string::npos, got);
  };
  refused(sums, [](EmittedKernel& e) { e.entry.wants_full_subgroups = false; }, "subgroups that the entry does not state");
  refused(sums, [](EmittedKernel& e) { e.entry.has_barriers = false; }, "barrier");
  refused(sums, [](EmittedKernel& e) { e.words[1] = targets::spirv::kVersion13; }, "no module of SPIR-V 1.6");
  refused(sums, [](EmittedKernel& e) { find(e.words, Word::GroupNonUniformShuffleXor)[3] = find(e.words, Word::GroupNonUniformShuffleXor)[5]; }, "instruction 346");
  refused(sums, [](EmittedKernel& e) { find(e.words, Word::GroupNonUniformShuffleXor)[5] = find(e.words, Word::GroupNonUniformShuffleXor)[4]; }, "instruction 346");
  refused(integers, [](EmittedKernel& e) { find(e.words, Word::GroupNonUniformIAdd)[4] = 1; }, "instruction 349");
  refused(integers, [](EmittedKernel& e) {
    uint32_t* add = find(e.words, Word::GroupNonUniformIAdd);
    *add = (*add & 0xffff0000) | static_cast<uint32_t>(Word::GroupNonUniformLogicalAnd);
  }, "instruction 362");
}

TEST_CASE("the executor wants full subgroups") {
  ir::Context ctx;
  EmittedKernel e = emitted(parsed(ctx, folding(DType::F32, "add")));
  std::vector<std::byte> x(kTiles * kLanes * 4), y(x.size());
  sp::Launch l;
  l.buffers = {x, y};
  l.tiles = kTiles, l.manners.subgroup = 3;
  CHECK(sp::run(e.words, e.entry, l).error.find("not full") != std::string::npos);
}

}  // namespace
}  // namespace mlc
