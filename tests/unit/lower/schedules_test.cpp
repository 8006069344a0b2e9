// Any schedule that the verifier accepts computes what the statement says; others are refused with a message.
#include "tests/support/nests/any_schedule.h"

using namespace mlc;
using test::NestMaker;

namespace {

void check_processor(uint32_t seed, bool exact, const std::function<void(NestMaker&, std::mt19937&, const test::Extents&)>& make) {
  const test::ScheduleCounts counts = test::check_many(seed, exact, {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"}, make);
  CHECK(counts.altered > 12);
  CHECK(counts.refused > 24);
}

}  // namespace

TEST_CASE("legal schedules of products") {
  check_processor(11, false, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    m.matmul(extent(test::one_of<int64_t>(rng, {0, 1, 5, 13, 29})), extent(test::one_of<int64_t>(rng, {1, 8, 24, 31})), extent(test::one_of<int64_t>(rng, {1, 3, 16, 31, 53})), rng() % 2);
  });
}

TEST_CASE("legal schedules of few columns, whose lanes are along the fold") {
  check_processor(16, false, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    const ir::Expr *rows = extent(test::one_of<int64_t>(rng, {0, 2, 19, 40})), *columns = m.n(test::one_of<int64_t>(rng, {2, 3}));
    m.matmul(rows, extent(test::one_of<int64_t>(rng, {4, 16, 37})), columns, /*panels=*/false);
  });
}

TEST_CASE("legal schedules of convolutions") {
  check_processor(12, false, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    NestMaker::Conv c{.h = 5 + int64_t(rng() % 5), .w = 5 + int64_t(rng() % 9), .c = 1 + int64_t(rng() % 6), .m = test::one_of<int64_t>(rng, {3, 16, 20})};
    c.stride = 1 + int64_t(rng() % 2);
    const bool free = rng() % 3 == 0;
    m.conv(c, free ? extent(c.h) : nullptr, free ? extent(c.w) : nullptr);
  });
}

TEST_CASE("legal schedules of windows") {
  check_processor(13, false, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    const int64_t channels = test::one_of<int64_t>(rng, {4, 16, 21, 37});
    NestMaker::Conv c{.h = 3 + int64_t(rng() % 5), .w = 3 + int64_t(rng() % 17), .c = channels, .m = channels};
    c.group = channels;
    const bool free = rng() % 2;
    m.conv(c, free ? extent(c.h) : nullptr, free ? extent(c.w) : nullptr);
  });
}

TEST_CASE("legal schedules of maps and transposes are right to the last bit") {
  check_processor(14, true, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    const ir::Expr *r = extent(test::one_of<int64_t>(rng, {0, 1, 17, 35})), *c = extent(test::one_of<int64_t>(rng, {1, 19, 40}));
    const bool across = rng() % 2;
    const uint32_t x = m.array("x", DType::F32, across ? std::vector{c, r} : std::vector{r, c}), y = m.output("y", DType::F32, {r, c});
    const ir::Dim *i = m.dim("i", r), *j = m.dim("j", c);
    const ir::Expr* v = m.load(x, across ? std::vector{m.at(j), m.at(i)} : std::vector{m.at(i), m.at(j)});
    m.map({i, j}, y, {m.at(i), m.at(j)}, m.ctx.binary(ir::Op::Max, v, m.ctx.number(0.25, DType::F32)));
  });
}

TEST_CASE("legal schedules of channels that are put side by side are right to the last bit") {
  check_processor(15, true, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    const ir::Expr *points = extent(test::one_of<int64_t>(rng, {33, 64, 77})), *rows = m.n(1 + int64_t(rng() % 2)), *c = m.n(test::one_of<int64_t>(rng, {2, 3, 4}));
    const uint32_t x = m.array("x", DType::F32, {rows, c, points}), y = m.output("y", DType::F32, {rows, points, c});
    const ir::Dim *r = m.dim("r", rows), *p = m.dim("p", points), *k = m.dim("k", c);
    m.map({r, k, p}, y, {m.at(r), m.at(p), m.at(k)}, m.ctx.binary(ir::Op::Max, m.load(x, {m.at(r), m.at(k), m.at(p)}), m.ctx.number(0.25, DType::F32)));
  });
}

TEST_CASE("legal schedules of groups: rows of a block, and those of its nests") {
  check_processor(18, false, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    const int64_t heads = test::one_of<int64_t>(rng, {2, 4});
    m.attention(heads, heads / 2, extent(test::one_of<int64_t>(rng, {0, 1, 13, 50})), m.n(test::one_of<int64_t>(rng, {1, 17, 33})), test::one_of<int64_t>(rng, {8, 24}));
  });
}

TEST_CASE("a group by a schedule of another one, or of more rows than any block has, is refused before anything is sized by it") {
  ir::Context ctx;
  NestMaker m(ctx);
  m.attention(2, 1, m.n(50), m.n(33), 8);
  const auto group = nest::group_of(m.f, nest::Lifetimes(m.f), 0, m.f.body.size());
  REQUIRE(group);
  const targets::Target& target = *targets::find_target("x86-64-v3");
  const auto all = lower::group_alternatives(ctx, m.f, *group, target);
  REQUIRE((all.ok() && all->size() > 2));
  schedule::Schedule how = all->front();
  for (const int64_t rows : {int64_t{1025}, int64_t{1} << 40}) {
    how.blocks.rows = rows;
    const auto kernels = lower::lower_group(ctx, m.f, *group, "g", target, test::vanishing_exp, &how);
    REQUIRE(!kernels.ok());
    CHECK(kernels.status().message == "schedule refused: a block has 1 to 1024 rows");
  }
  const schedule::Schedule other{.family = schedule::Family::Map, .vector_bytes = 32};
  const auto kernels = lower::lower_group(ctx, m.f, *group, "g", target, test::vanishing_exp, &other);
  REQUIRE(!kernels.ok());
  CHECK(kernels.status().message.find("another family") != std::string::npos);
}

TEST_CASE("legal schedules of groups whose rows keep what only the run knows") {
  const auto counts = test::check_many(19, false, {"x86-64-v2", "x86-64-v4", "armv8-a"}, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    m.attention(2, 1, extent(test::one_of<int64_t>(rng, {1, 13, 50})), extent(test::one_of<int64_t>(rng, {1, 17, 33})), test::one_of<int64_t>(rng, {8, 24}));
  });
  CHECK(counts.altered > 12);
}
