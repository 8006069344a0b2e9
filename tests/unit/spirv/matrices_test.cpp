// Matrices of subgroups in SPIR-V: sums as Loop has them, in both shapes of targets; what the audit asks of their modules.
#include <doctest/doctest.h>

#include <cstring>

#include "packager/ir/context.h"
#include "packager/loop/print.h"
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
using Word = targets::spirv::Op;

constexpr uint32_t kLanes = 128, kStride = 12;

targets::spirv::Limits limits(uint32_t side) { return {.shared_bytes = 32768, .subgroups = true, .matrix_side = side, .matrix_lanes = side == 16 ? 32u : 8u}; }

// Each team brings its own rows and columns, two matrices of each, adds the products twice and stores both rows of sums.
std::string product(uint32_t side, const std::string& barrier = "      barrier\n") {
  const uint32_t lanes = limits(side).matrix_lanes, teams = kLanes / lanes, cells = 4 * side * kStride, sums = 2 * side;
  const auto n = [](uint32_t v) { return std::to_string(v); };
  const std::string pick = "(mul (floordiv %3 " + n(lanes) + ") " + n(cells) + ")", second = "(add %5 " + n(2 * side * kStride) + ")";
  const std::string add = "      matrix add f16 2 [%5 " + n(kStride) + "] [" + second + " " + n(kStride) + "]\n";
  return "kernel \"k\" tiles 2 block 128 team " + n(lanes) + " side " + n(side) + " sums 2 2 range %0 %1 {\n  param \"x\" u32 array 0\n  param \"y\" u32 out array 1\n" +
         "  shared \"s\" u32 " + n(std::max(teams * cells, teams * sums * sums)) + "\n  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 128 step 1 {\n" +
         "      let %5 = " + pick + "\n      for %4 = 0 .. " + n(teams * cells / kLanes) + " step 1 {\n" +
         "        store 2 [(add (mul %4 128) %3)] (load.u32 0 (add (mul %4 128) %3))\n      }\n" + barrier + "      matrix begin\n" + add + add + "      barrier\n" +
         "      matrix store 0 to 2 [(mul (floordiv %3 " + n(lanes) + ") " + n(sums * sums) + ") " + n(sums) + "]\n" +
         "      matrix store 1 to 2 [(add (mul (floordiv %3 " + n(lanes) + ") " + n(sums * sums) + ") " + n(side * sums) + ") " + n(sums) + "]\n      barrier\n" +
         "      for %6 = 0 .. " + n(teams * sums * sums / kLanes) + " step 1 {\n        store 1 [(add (mul %2 " + n(teams * sums * sums) + ") (add (mul %6 128) %3))] (load.u32 2 (add (mul %6 128) %3))\n      }\n" +
         "    }\n  }\n}\n";
}

loop::Kernel kernel_of(ir::Context& ctx, const std::string& text) {
  auto all = loop::parse(ctx, text);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  const Status verified = loop::verify((*all)[0]);
  REQUIRE_MESSAGE(verified.ok(), verified.text());
  return std::move((*all)[0]);
}

EmittedKernel image_of(const loop::Kernel& kernel, uint32_t side) {
  auto e = targets::spirv::emit_kernel(kernel, limits(side));
  REQUIRE_MESSAGE(e.ok(), (e.ok() ? "" : e.status().text()));
  return std::move(*e);
}

Result<targets::spirv::Findings> audited(const EmittedKernel& e, uint32_t side) {
  return targets::spirv::verify(e.words, e.entry, true, {side, side ? limits(side).matrix_lanes : 0});
}

// Small halves, whose bits are those of 0, 1, 1.5 and -2.
std::vector<uint32_t> halves(size_t cells) {
  constexpr uint32_t kHalves[] = {0x0000, 0x3c00, 0x3e00, 0xc000};
  std::vector<uint32_t> all(cells);
  for (size_t k = 0; k < cells; ++k) all[k] = kHalves[k * 7 % 11 % 4] | kHalves[k * 5 % 13 % 4] << 16;
  return all;
}
float half(uint32_t cell, size_t which) {
  const uint32_t bits = cell >> 16 * which & 0xffff;
  return bits == 0x3c00 ? 1.f : bits == 0x3e00 ? 1.5f : bits == 0xc000 ? -2.f : 0.f;
}

TEST_CASE("a team adds products of matrices, whatever a device makes of their elements") {
  for (const uint32_t side : {8u, 16u}) {
    CAPTURE(side);
    const uint32_t teams = kLanes / limits(side).matrix_lanes, cells = 4 * side * kStride, sums = 2 * side;
    ir::Context ctx, other;
    const loop::Kernel kernel = kernel_of(ctx, product(side));
    CHECK(loop::to_string(kernel_of(other, loop::to_string(kernel))) == loop::to_string(kernel));
    std::vector<uint32_t> x = halves(teams * cells), expected(2 * teams * sums * sums), y(expected.size());
    loop::Run run;
    run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(expected))};
    run.value = [](const ir::Sym*) { return std::nullopt; };
    const auto interpreted = loop::interpret(kernel, run);
    REQUIRE_MESSAGE(interpreted.ok(), (interpreted.ok() ? "" : interpreted.status().text()));
    for (uint32_t team = 0; team < teams; ++team)
      for (uint32_t r = 0; r < sums; ++r)
        for (uint32_t c = 0; c < sums; ++c) {
          float sum = 0;
          for (uint32_t k = 0; k < side; ++k)
            sum += 2 * half(x[team * cells + r * kStride + k / 2], k % 2) * half(x[team * cells + (sums + c) * kStride + k / 2], k % 2);
          CHECK(expected[(team * sums + r) * sums + c] == std::bit_cast<uint32_t>(sum));
        }
    const EmittedKernel e = image_of(kernel, side);
    CHECK(e.entry.subgroup_lanes == limits(side).matrix_lanes);
    const auto found = audited(e, side);
    REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.status().text()));
    CHECK(found->capabilities == e.capabilities);
    sp::Launch l;
    l.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
    l.tiles = 2;
    const sp::Outcome out = sp::run(e.words, e.entry, l);
    REQUIRE_MESSAGE(out.error.empty(), out.error);
    CHECK(y == expected);
  }
}

TEST_CASE("what is not in order is found: a matrix that is read before a barrier, places that differ, sums that were never zero") {
  const auto interpreted = [](const std::string& text) {
    ir::Context ctx;
    std::vector<uint32_t> x(16384), y(65536);
    loop::Run run;
    run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
    run.value = [](const ir::Sym*) { return std::nullopt; };
    const auto result = loop::interpret(kernel_of(ctx, text), run);
    return result.ok() ? std::string() : result.status().message;
  };
  CHECK(interpreted(product(16)) == "");
  CHECK(interpreted(product(16, "")).find("meets another") != std::string::npos);
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = product(16);
    REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(interpreted(changed("[%5 12]", "[(mul %3 4) 12]")).find("different places") != std::string::npos);
  CHECK(interpreted(changed("[%5 12]", "[(add %5 2) 12]")).find("no multiples of four") != std::string::npos);
  const auto refused = [](const std::string& text) {
    ir::Context ctx;
    auto all = loop::parse(ctx, text);
    REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
    return loop::verify((*all)[0]).message;
  };
  CHECK(refused(changed("      matrix begin\n", "")).find("before their sums are zero") != std::string::npos);
  CHECK(refused(changed("[%5 12]", "[%5 10]")).find("stride of matrices") != std::string::npos);
  CHECK(refused(changed("[%5 12]", "[%5 %5]")).find("stride of matrices") != std::string::npos);
  CHECK(refused(changed("add f16", "add bf16")).find("a product of matrices of bf16") != std::string::npos);
  CHECK(refused(changed("matrix store 1", "matrix store 2")).find("row 2 of 2 rows") != std::string::npos);
  CHECK(refused(changed("add f16 2", "add f16 0")).find("lanes share no cells") != std::string::npos);
  CHECK(refused(changed("team 32 side 16 sums 2 2", "")).find("which there is none of") != std::string::npos);
  CHECK(refused(changed("team 32", "team 3")).find("teams of 3 lanes") != std::string::npos);
  CHECK(refused(changed("side 16", "side 12")).find("matrices of 12 rows") != std::string::npos);
  CHECK(refused(changed("sums 2 2", "sums 5 4")).find("20 matrices of sums") != std::string::npos);
  CHECK(refused(changed("      matrix begin\n", "      matrix begin\n      if (lt.bool %3 8) {\n        matrix begin\n      }\n")).find("not all lanes") != std::string::npos);
}

// The words of an instruction, to be changed: the first one, or another.
uint32_t* nth(std::vector<uint32_t>& words, Word op, int number = 0) {
  for (size_t at = targets::spirv::kHeaderWords; at < words.size(); at += words[at] >> 16)
    if ((words[at] & 0xffff) == static_cast<uint32_t>(op) && number-- == 0) return &words[at];
  return nullptr;
}

TEST_CASE("the audit wants matrices of the target's shape, marked memory, and an entry that states subgroups of their size") {
  ir::Context ctx;
  const EmittedKernel right = image_of(kernel_of(ctx, product(16)), 16);
  REQUIRE(audited(right, 16).ok());
  const auto refused = [&](auto change, std::string_view why, uint32_t side = 16) {
    EmittedKernel other = right;
    change(other);
    const auto found = audited(other, side);
    const std::string got = found.ok() ? "" : found.status().message;
    CHECK_MESSAGE(got.find(why) != std::string::npos, got);
  };
  const auto as_it_is = [](EmittedKernel&) {};
  refused(as_it_is, "is not allowed", 0);
  refused(as_it_is, "another size than the entry", 8);
  refused([](EmittedKernel& e) { e.entry.subgroup_lanes = 64; }, "another size than the entry");
  refused([](EmittedKernel& e) { e.entry.wants_full_subgroups = false; }, "subgroups that the entry does not state");
  refused([](EmittedKernel& e) { e.entry.may_fault = true; }, "lanes may fault");
  refused([](EmittedKernel& e) { nth(e.words, Word::MemoryModel)[2] = 1; }, "another memory model");
  const auto drop = [](EmittedKernel& e, uint32_t number) {  // a capability, for another that comes behind it in the order
    for (int k = 0; uint32_t* c = nth(e.words, Word::Capability, k); ++k)
      if (c[1] == number) e.words.erase(e.words.begin() + (c - e.words.data()), e.words.begin() + (c - e.words.data()) + 2);
  };
  for (const uint32_t number : {9u, 5345u, 6022u}) refused([&](EmittedKernel& e) { drop(e, number); }, "a part of what matrices need");
  refused([](EmittedKernel& e) { nth(e.words, Word::TypeCooperativeMatrix)[4] = nth(e.words, Word::TypeCooperativeMatrix)[3]; }, "another shape or scope");
  refused([](EmittedKernel& e) { nth(e.words, Word::TypeCooperativeMatrix)[6] = nth(e.words, Word::TypeCooperativeMatrix)[4]; }, "another use");
  refused([](EmittedKernel& e) { nth(e.words, Word::TypeCooperativeMatrix)[2] = nth(e.words, Word::TypeCooperativeMatrix, 2)[2]; }, "other numbers than f16");
  refused([](EmittedKernel& e) { nth(e.words, Word::CooperativeMatrixLoad)[6] = 0; }, "instruction 4457");
  refused([](EmittedKernel& e) { nth(e.words, Word::CooperativeMatrixLoad)[4] = nth(e.words, Word::CooperativeMatrixLoad)[5]; }, "instruction 4457");
  refused([](EmittedKernel& e) { std::swap(nth(e.words, Word::CooperativeMatrixMulAdd)[3], nth(e.words, Word::CooperativeMatrixMulAdd)[4]); }, "instruction 4459");
  refused([](EmittedKernel& e) { nth(e.words, Word::CooperativeMatrixStore)[5] = 0; }, "a store of a matrix of another form");
  refused([](EmittedKernel& e) { nth(e.words, Word::CooperativeMatrixStore)[2] = nth(e.words, Word::CooperativeMatrixStore)[4]; }, "a store of a matrix of another form");
  refused([](EmittedKernel& e) {  // the constant of sums, of another type
    nth(e.words, Word::ConstantComposite)[1] = nth(e.words, Word::TypeCooperativeMatrix)[1];
  }, "no matrix of one number");
  refused([](EmittedKernel& e) {  // a load of what the block shares that other lanes are not told of
    for (int k = 0; uint32_t* load = nth(e.words, Word::Load, k); ++k)
      if (load[0] >> 16 == 5) {
        load[4] = 0;
        return;
      }
  }, "instruction 61");
}

TEST_CASE("the emitter wants the target's shape") {
  ir::Context ctx;
  const loop::Kernel kernel = kernel_of(ctx, product(16));
  for (const uint32_t side : {0u, 8u}) {
    const auto e = targets::spirv::emit_kernel(kernel, side ? limits(side) : targets::spirv::Limits{.shared_bytes = 32768, .subgroups = true});
    REQUIRE(!e.ok());
    CHECK(e.status().message.find("matrices of side 16 by 32 lanes") != std::string::npos);
  }
}

}  // namespace
}  // namespace mlc
