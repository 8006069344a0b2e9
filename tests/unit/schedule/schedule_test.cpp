// Schedules as values: their text, and what the verifier refuses.
#include <doctest/doctest.h>

#include <random>

#include "packager/schedule/schedule.h"

using namespace mlc;
using namespace mlc::schedule;

namespace {

const char* kTexts[] = {
    "map ; vectors 16",
    "group { map n:1 cut | w:8 lanes x1 narrow ; vectors 32 } { map n:1 ; vectors 32 } ; vectors 32",
    "group 48 rows { product m:7 cut | n:32 cut | n:16 lanes x2 | m:7 rows even || k:1 unroll 2 chains 8 ; blocks 5 steps 6 bytes 7 rows 8 passes ; instr fma.f32 ; vectors 64 } ; vectors 64 ; hoist none",
    "map n:1 cut | w:16 cut | n:1 | w:8 lanes x1 narrow ; vectors 32 ; hoist none",
    "map i:1 grid | j:1 grid | k:1 ; block 128 ; vectors 1",
    "proc ; block 64 ; vectors 1",
    "tile m:1 grid | n:1 grid || k:1 ; place sums ; tile 64 x 32 depth 16 copies 4 flat ; instr fma.f32 ; block 64 ; vectors 16",
    "attention q:1 grid | f:1 || k:1 ; tile 128 x 32 depth 64 copies 1 flat warp 32 ; instr mma.f16 ; block 128 ; vectors 16",
    "tile m:1 grid | n:1 grid || k:1 ; tile 128 x 256 depth 32 copies 1 stages 3 ; instr wgmma.f16 ; block 256 ; vectors 16",
    "slices m:1 grid | n:1 grid || k:1 ; tile 4 x 8 depth 16 copies 2 ; instr mul.f32 ; block 128 ; vectors 1",
    "lines n:1 grid | c:1 ; tile 4 x 32 depth 1 copies 1 ; block 128 ; vectors 1",
    "fold n:1 grid ; block 128 ; vectors 1",
    "fold n:1 grid | c:1 grid ; tile 0 x 32 depth 16 copies 4 ; block 512 ; vectors 1",
    "proc x16 ; vectors 64",
    "proc ; vectors 1 ; hoist innermost",
    "product m:7 cut | n:32 cut | n:16 lanes x2 | m:7 rows even || k:1 unroll 2 chains 8 ; blocks 5 steps 6 bytes 7 rows 8 passes shared 9 depth 10 fetch ; instr fma.f32 ; vectors 64",
    "decoded m:12 cut | n:16 cut | n:16 lanes x1 | m:12 rows one || k:1 unroll 8 chains 8 ; instr fma.f32 ; vectors 64",
    "transpose b:1 cut | r:16 cut | c:16 cut | r:16 | c:16 lanes x1 | r:1 ; place loads ; vectors 64",
    "window c:16 cut | p:1 cut | c:16 lanes x1 | p:1 | q:8 rows one || u:1 unroll peel | v:1 unroll ; vectors 64",
    "product b:1 cut | p:1 cut | m:32 cut | m:16 lanes x2 | p:1 | q:7 rows even peel || u:1 | v:1 | c:1 unroll 2 chains 8 ; place sums ; blocks 2000000 steps 393216 bytes 64 rows 8 passes ; instr fma.f32 ; vectors 64",
    "thin m:12 cut | n:3 cut | n:1 lanes x3 | m:12 rows even || k:16 lanes x2 chains 8 ; place sums x8 ; instr fma.f32 ; vectors 64",
};

// A convolution: batch, rows p, columns q, channels m; window u, v, depth c.
Space product() {
  Space s;
  s.family = Family::Product;
  s.dims = {{.name = "b", .cut = true},
            {.name = "p", .cut = true},
            {.name = "q", .extent = 28, .cut = true, .serial = false, .rows = true, .peel = true, .even_only = true},
            {.name = "m", .cut = true, .serial = false, .lanes = 16, .masked = true},
            {.name = "u", .extent = 3, .reduces = true, .unroll = true, .peel = true},
            {.name = "v", .extent = 3, .reduces = true, .unroll = true},
            {.name = "c", .extent = 24, .reduces = true, .part = true}};
  s.needs_lanes = true;
  s.panel = 16;
  s.most_vectors = 8;
  s.instructions = {"fma.f32"};
  s.places = {"sums"};
  return s;
}

std::string answer(std::string_view text, const Space& space) {
  const auto s = parse(text);
  REQUIRE_MESSAGE(s.ok(), text);
  return verify(*s, space).message;
}

}  // namespace

TEST_CASE("a schedule is its text") {
  for (const char* text : kTexts) {
    const auto s = parse(text);
    REQUIRE_MESSAGE(s.ok(), text, ": ", s.ok() ? "" : s.status().text());
    CHECK(print(*s) == text);
    CHECK(*parse(print(*s)) == *s);
  }
  CHECK(is_scalar(*parse("map n:1 ; vectors 64")));
  CHECK_FALSE(is_scalar(*parse("map n:8 lanes x1 ; vectors 64")));
  CHECK_FALSE(is_scalar(*parse("proc x4 ; vectors 64")));
}

TEST_CASE("what is no schedule is refused with a message") {
  for (const char* text : {"", "map n", "map :1", "map n:", "map n:1x", "map n:1 lane x2", "map n:1 lanes", "map n:1 lanes 2", "map n:1 | ", "map n:1 n:1",
                           "map n:1 || k:1 || l:1", "map n:99999999999999999999", "map ; vectors", "map ; vectors 16 16", "map ; hoist far", "map ; what 1",
                           "map ; blocks 1 steps 2 bytes", "map ; place", "map ; instr", "proc y2", "proc x", "map n:1 unroll 0", "folk n:1", "map n:1 grid 2", "map ; block", "map ; block 99999999", "map n:1 chains 70000", "tile n:1 ; tile 4", "attention n:1 ; tile 4 x 4 depth 1 copies 1 warp", "attention n:1 ; tile 4 x 4 depth 1 copies 1 warp 0", "tile n:1 ; tile 4 x", "tile n:1 ; tile 4 x 4 depth 1 copies 99999999", "group 4 { map n:1 ; vectors 16 }", "group 0 rows { map n:1 ; vectors 16 }",
                           "group { map n:1 ; vectors 16", "group { group { map n:1 ; vectors 16 } }", "group map n:1", "group { }", "group { map n:1 ; vectors 16 } } ; vectors 16", "map n:1 } ; vectors 16", "group ; blocks 1 steps 2 bytes 3 rows 4 passes", "tile n:1 ; tile 4 x 9999999999999 depth 1 copies 1"}) {
    const auto s = parse(text);
    CHECK_MESSAGE(!s.ok(), text);
    if (!s.ok()) CHECK(s.status().message.starts_with("schedule: "));
  }
}

TEST_CASE("any bytes are a schedule or an error, and what is one prints as itself") {
  std::mt19937 rng(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = kTexts[rng() % std::size(kTexts)];
    for (unsigned k = rng() % 4; k-- > 0 && !text.empty();) {
      const size_t at = rng() % text.size();
      switch (rng() % 3) {
        case 0: text.erase(at, 1 + rng() % 5); break;
        case 1: text[at] = static_cast<char>(rng() % 256); break;
        case 2: text.insert(at, text.substr(rng() % text.size(), 1 + rng() % 8)); break;
      }
    }
    const auto s = parse(text);
    if (!s.ok()) continue;
    const auto again = parse(print(*s));
    REQUIRE_MESSAGE(again.ok(), text);
    CHECK_MESSAGE(*again == *s, text, " / ", print(*s));
    (void)verify(*s, product());
  }
}

TEST_CASE("the verifier refuses what would compute something else") {
  const Space space = product();
  const std::string tail = " ; instr fma.f32 ; vectors 64";
  const std::string cuts = "product b:1 cut | p:1 cut | m:32 cut | ", fold = " || u:1 | v:1 | c:1 unroll 2 chains 8" + tail;
  const std::string good = cuts + "m:16 lanes x2 | p:1 | q:7 rows even peel" + fold;
  CHECK(answer(good, space).empty());
  CHECK(answer(cuts + "q:7 rows even | p:1 | m:8 lanes x4" + fold, space).empty());
  const auto refused = [&](const std::string& text, const char* why) {
    CHECK_MESSAGE(answer(text, space).find(why) != std::string::npos, text, ": ", answer(text, space));
  };
  refused("map b:1 ; vectors 16", "another family");
  refused("product b:1 cut | m:32 cut | m:16 lanes x2 | q:7 rows even" + fold, "no loop walks p");
  refused("product b:2 cut | p:1 cut | m:16 lanes x2 | q:7 rows even" + fold, "some points are not walked");
  refused(cuts + "m:16 lanes x2 | p:1 | z:1 | q:7 rows even" + fold, "no such dim");
  refused(cuts + "m:32 lanes x1 | p:1 | q:7 rows even" + fold, "no such lanes");
  refused("product b:1 cut | p:1 | m:12 lanes x2 | q:7 rows even" + fold, "no such lanes");
  refused(cuts + "m:8 lanes x3 | p:1 | q:7 rows even" + fold, "cut between groups");
  refused("product b:1 cut | p:1 | m:8 lanes x3 | q:7 rows even" + fold, "panels or parts of one");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows one" + fold, "its rows are even");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even even one" + fold, "no such tail");
  refused(cuts + "m:16 lanes x2 | p:1 | q:60 rows even" + fold, "too many accumulators");
  refused("product b:1 cut | q:6 cut | p:1 | m:16 lanes x2 | q:7 rows even" + fold, "an inner loop takes shorter steps");
  refused("product b:1 cut | q:14 cut | p:1 | m:16 lanes x2 | q:7 rows even" + fold, "cut between tiles");
  refused("product b:1 cut | p:1 | p:1 cut | m:16 lanes x2 | q:7 rows even" + fold, "cuts stand outside");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 | v:1 | c:3" + tail, "some points are not walked");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 chains 2 | v:1 | c:1" + tail, "no chains");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 | v:1 unroll peel | c:1" + tail, "cannot be peeled");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even | u:1 || v:1 | c:1" + tail, "behind ||");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 | v:1 | c:1 ; instr dot.u8 ; vectors 64", "no instruction");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 | v:1 | c:1 ; instr fma.f32 ; vectors 48", "a power of two");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 | v:1 | c:1 ; place maxima ; instr fma.f32 ; vectors 64", "no place for maxima");
  refused(cuts + "m:16 lanes x2 | p:1 | q:7 rows even || u:1 | v:1 | c:1 ; blocks 0 steps 1 bytes 1 rows 1 passes ; instr fma.f32 ; vectors 64", "a block has");
}

TEST_CASE("a group is as legal as its stages, in blocks of so many rows") {
  Space space;
  space.family = Family::Group;
  space.most_rows = 48;
  Space map;
  map.dims = {{.name = "n", .cut = true}};
  space.stages = {map, map};
  const std::string stage = "{ map n:1 ; vectors 16 } ";
  CHECK(answer("group " + stage + stage + "; vectors 16", space).empty());
  CHECK(answer("group 48 rows " + stage + stage + "; vectors 16", space).empty());
  const auto refused = [&](const std::string& text, const char* why) { CHECK_MESSAGE(answer(text, space).find(why) != std::string::npos, text, ": ", answer(text, space)); };
  refused("group 49 rows " + stage + stage + "; vectors 16", "1 to 48 rows");
  refused("group " + stage + "; vectors 16", "2 stages");
  refused("group " + stage + stage + "; vectors 32", "share the width");
  refused("group " + stage + "{ map n:1 ; vectors 16 ; hoist none } ; vectors 16", "share the width");
  refused("group " + stage + "{ map n:2 ; vectors 16 } ; vectors 16", "some points are not walked");
  refused("group " + stage + stage + "; place sums ; vectors 16", "those of its stages");
  Schedule plain = *parse("map n:1 ; vectors 16");
  plain.stages.push_back(plain);
  CHECK(verify(plain, map).message.find("only a group") != std::string::npos);
}

TEST_CASE("dims whose order has a meaning keep it") {
  Space s;
  s.dims = {{.name = "a", .cut = true, .block = true}, {.name = "i"}, {.name = "j"}};
  s.ordered = 2;
  CHECK(answer("map a:1 cut | i:1 | j:1 ; vectors 16", s).empty());
  CHECK(answer("map i:1 | a:4 | j:1 | a:1 ; vectors 16", s).empty());
  CHECK(answer("map a:1 | j:1 | i:1 ; vectors 16", s).find("order") != std::string::npos);
  CHECK(answer("map a:1 | i:2 | i:1 | j:1 ; vectors 16", s) != "");
  CHECK(answer("map i:1 cut | a:1 | j:1 ; vectors 16", s) != "");
}
