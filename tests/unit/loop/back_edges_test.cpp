// How many turns the loops of a device kernel make: bounds in numbers, over scalars, and where there is none.
#include "packager/loop/back_edges.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/text/loop_text.h"

using namespace mlc;

namespace {

// What a lane %3 of block %2 does; scalars "n" and "m".
std::string kernel(const std::string& body) {
  return "kernel \"k\" tiles 2 block 4 range %0 %1 {\n  param \"x\" i64 array 0\n  param \"y\" f32 out array 1\n  scalar \"n\"\n  scalar \"m\"\n"
         "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 4 step 1 {\n" + body + "    }\n  }\n}\n";
}

constexpr int64_t kNotKnown = -1;

int64_t turns(const std::string& body, std::map<std::string, int64_t> values = {}) {
  ir::Context ctx;
  auto all = loop::parse(ctx, kernel(body));
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  const ir::Expr* bound = loop::back_edges(ctx, (*all)[0]);
  if (!bound) return kNotKnown;
  const auto value = ir::evaluate_extent(bound, [&](const ir::Sym* s) -> std::optional<int64_t> { return values.at(s->name); });
  REQUIRE(value);
  return *value;
}

const std::string kStore = "store 1 [%3] f32:0x0p+0\n";

}  // namespace

TEST_CASE("a kernel without loops has no turns, and one more turn than a loop has is counted") {
  CHECK(turns(kStore) == 0);
  CHECK(turns("for %4 = 0 .. 10 step 1 {\n" + kStore + "}\n") == 11);
  CHECK(turns("for %4 = 3 .. 10 step 4 {\n" + kStore + "}\n") == 3);
  CHECK(turns("for %4 = 7 .. 7 step 1 {\n" + kStore + "}\n") == 1);
}

TEST_CASE("loops one after the other add up, loops in each other multiply") {
  const std::string ten = "for %4 = 0 .. 10 step 1 {\n" + kStore + "}\n";
  CHECK(turns(ten + "for %5 = 0 .. 20 step 1 {\n" + kStore + "}\n") == 32);
  CHECK(turns("for %5 = 0 .. 100 step 1 {\nfor %4 = 0 .. 1000 step 1 {\n" + kStore + "}\n}\n") == 100 * 1001 + 101);
  CHECK(turns("if (lt.bool %3 2) {\n" + ten + "} else {\nfor %5 = 0 .. 20 step 1 {\n" + kStore + "}\n}\n") == 32);
}

TEST_CASE("an unrolled loop has no turns, what is in it counts for each copy") {
  CHECK(turns("unroll %4 = 0 .. 8 step 1 {\n" + kStore + "}\n") == 0);
  CHECK(turns("unroll %4 = 0 .. 8 step 2 {\nfor %5 = 0 .. 3 step 1 {\n" + kStore + "}\n}\n") == 4 * 4);
}

TEST_CASE("lengths that scalars say are over these") {
  const std::string loop = "for %4 = 0 .. $\"n\" step 1 {\nfor %5 = $\"m\" .. (mul $\"n\" 2) step 3 {\n" + kStore + "}\n}\n";
  CHECK(turns(loop, {{"n", 10}, {"m", 2}}) == 10 * (6 + 1) + 11);
  CHECK(turns(loop, {{"n", 0}, {"m", 2}}) == 1);
  CHECK(turns(loop, {{"n", 10}, {"m", 500}}) == 10 + 11);  // no turns, and the end of each
}

TEST_CASE("what a block, a lane or another loop decides has its largest value") {
  CHECK(turns("for %4 = 0 .. %3 step 1 {\n" + kStore + "}\n") == 3 + 1);
  CHECK(turns("for %4 = %2 .. 9 step 1 {\n" + kStore + "}\n") == 9 + 1);
  CHECK(turns("for %4 = 0 .. $\"n\" step 1 {\nfor %5 = 0 .. (add %4 1) step 1 {\n" + kStore + "}\n}\n", {{"n", 6}, {"m", 0}}) == 6 * 7 + 7);
}

TEST_CASE("the ends of chunks cancel against their beginnings") {
  const std::string loop = "let %4 = (mul (add (mul %2 4) %3) 64)\n"
                           "for %5 = %4 .. (min (add %4 64) $\"n\") step 1 {\n" + kStore + "}\n";
  CHECK(turns(loop, {{"n", 1'000'000}, {"m", 0}}) == 65);
  CHECK(turns(loop, {{"n", 10}, {"m", 0}}) == 11);
}

TEST_CASE("a while has its bound, and the turn in which it faults") {
  CHECK(turns("local %4 = 0\nwhile (lt.bool %4 3) within 5 {\n%4 = (add %4 1)\n}\n") >= 7);
  CHECK(turns("local %4 = 0\nwhile (lt.bool %4 3) within 5 {\n%4 = (add %4 1)\n}\n") <= 8);
}

TEST_CASE("counters are bounded by how often they count") {
  const std::string counted = "local %4 = 0\nfor %5 = 0 .. $\"n\" step 1 {\nif (lt.bool (load.i64 0 %5) 3) {\n%4 = (add %4 1)\n}\n}\n"
                              "for %6 = 0 .. %4 step 1 {\n" + kStore + "}\n";
  CHECK(turns(counted, {{"n", 8}, {"m", 0}}) == 9 + 9);
  const std::string set = "local %4 = 2\nfor %5 = 0 .. 4 step 1 {\n%4 = (min (load.i64 0 %5) $\"m\")\n}\nfor %6 = 0 .. %4 step 1 {\n" + kStore + "}\n";
  CHECK(turns(set, {{"n", 8}, {"m", 30}}) == 5 + 31);
}

TEST_CASE("names of what changes do not cancel") {
  // The let is made before the local falls: the loop is longer than their difference as it stands.
  const std::string loop = "local %4 = 100\nlet %5 = (add %4 4)\n%4 = 0\nfor %6 = %4 .. %5 step 1 {\n" + kStore + "}\n";
  const int64_t found = turns(loop, {{"n", 0}, {"m", 0}});
  CHECK((found == kNotKnown || found >= 105));
}

TEST_CASE("what was loaded, and what grows without a bound, is not known") {
  CHECK(turns("for %4 = 0 .. (load.i64 0 %3) step 1 {\n" + kStore + "}\n") == kNotKnown);
  CHECK(turns("local %4 = 1\nfor %5 = 0 .. 9 step 1 {\n%4 = (mul %4 2)\n}\nfor %6 = 0 .. %4 step 1 {\n" + kStore + "}\n") == kNotKnown);
  CHECK(turns("for %4 = 0 .. (min (load.i64 0 %3) 12) step 1 {\n" + kStore + "}\n") == 13);
}

TEST_CASE("operations that emitters make a loop of count where they are done") {
  CHECK(turns("store 1 [%3] (truncmod.f32 f32:0x1p+3 f32:0x1p+1)\n") >= 278);
  CHECK(turns("for %4 = 0 .. 10 step 1 {\nlet %5.f32 = (truncmod.f32 f32:0x1p+3 f32:0x1p+1)\nstore 1 [%4] %5.f32\n}\n") >= 2780);
}

TEST_CASE("more turns than there can be told are as many as can") {
  const std::string loop = "for %4 = 0 .. $\"n\" step 1 {\nfor %5 = 0 .. $\"n\" step 1 {\nfor %6 = 0 .. $\"n\" step 1 {\n" + kStore + "}\n}\n}\n";
  CHECK(turns(loop, {{"n", int64_t{1} << 40}, {"m", 0}}) == loop::kManyTurns);
}
