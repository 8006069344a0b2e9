// Index arithmetic that fits in 32 bits is computed there, for devices of NVIDIA as well; what no interval shows a launch has to promise.
#include <doctest/doctest.h>

#include <cstring>

#include "targets/families.h"
#include "tests/support/ptx/launch.h"
#include "tests/unit/targets/index_cases.h"
#include "tests/unit/targets/loop_reference.h"

namespace mlc {
namespace {

using namespace testing;

const targets::Target& target() { return targets::ptx::emitter().targets()[1]; }

std::vector<std::byte> module_of(const loop::Kernel& kernel) {
  auto module = targets::emit_module(target(), std::span(&kernel, 1));
  if (!module.ok()) FAIL(module.status().text());
  const Status audit = targets::audit_module(target(), module->bytes);
  if (!audit.ok()) FAIL(audit.text());
  return std::move(module->bytes);
}

// Occurrences of an instruction on 64 bits.
size_t count(const std::vector<std::byte>& module, std::string_view instruction) {
  const auto decoded = gpu::decode(module);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& bytes = decoded->images[0].bytes;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t n = 0;
  for (size_t at = text.find(instruction); at != text.npos; at = text.find(instruction, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("indices near the limits of 32 bits are what they are in 64, by extents that are known and others") {
  uint64_t divided = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Pool pool;
    ir::Sym size, tiles;
    size.name = "size", size.lo = 0;
    tiles.name = "tiles", tiles.lo = 0;
    const bool known = seed % 3 == 0;
    loop::Kernel k = index_kernel(pool, seed, known ? nullptr : &size, known ? pool.integer(3) : pool.sym(&tiles));
    std::vector<int64_t> scalars;
    if (!known) {
      k.scalars.push_back(&tiles);
      scalars = {seed % 2 ? int64_t{INT32_MAX} : int64_t(seed % 7), 3};
    }
    const std::vector<std::byte> module = module_of(k);
    const ptx::LoadedModule loaded(module);
    REQUIRE(loaded.error().empty());
    CHECK(loaded.entry(0).has_few_lanes == !known);
    CHECK(loaded.entry(0).narrow <= (known ? 0u : 1u));  // of the size, where something is divided by it
    divided += loaded.entry(0).narrow;
    std::vector<int64_t> got(24), expected(24);
    Reference(k, true).run({{reinterpret_cast<std::byte*>(expected.data()), expected.size() * 8}}, scalars, 0, 3);
    const ptx::Outcome outcome = ptx::run_kernel(loaded, 0, {std::as_writable_bytes(std::span(got))}, scalars, 3);
    CHECK_MESSAGE(outcome.error.empty(), outcome.error);
    CHECK(got == expected);
  }
  CHECK(divided > 40);
}

TEST_CASE("a number of lanes is divided by extents in 32 bits, whether these are known or not") {
  for (const bool known : {true, false}) {
    Pool p;
    ir::Sym size, tiles;
    size.name = "size", size.lo = 0;
    tiles.name = "tiles", tiles.lo = 0;
    loop::Kernel k = kernel(p, "columns", {{DType::I32, true}});
    k.lanes = 32;
    k.scalars = {&size, &tiles};
    k.tiles = known ? p.integer(100) : p.sym(&tiles);
    constexpr ir::Type t{DType::I64, 1};
    const Expr *tile = p.var(), *lane = p.var(), *at = p.add(p.mul(tile, p.integer(32)), lane);
    const Expr* divisor = known ? p.integer(27) : p.make(Op::Max, t, {p.sym(&size), p.integer(1)});
    const Expr* mixed = p.add(p.make(Op::FloorDiv, t, {at, divisor}), p.make(Op::FloorMod, t, {at, divisor}));
    k.body.push_back(for_(tile, k.tile_begin, k.tile_end, 1,
                          seq(for_(lane, p.integer(0), p.integer(32), 1, seq(store_(0, at, p.make(Op::Cast, {DType::I32, 1}, {mixed}))), loop::ForKind::Lanes))));
    const std::vector<std::byte> module = module_of(k);
    for (const char* wide : {"div.s64", "div.u64", "rem.s64", "rem.u64", "mul.hi.s64", "mul.hi.u64", "mul.lo.s64"}) CHECK_MESSAGE(count(module, wide) == 0, wide);
    if (!known) CHECK(count(module, "div.") + count(module, "rem.") > 0);
  }
}

}  // namespace mlc
