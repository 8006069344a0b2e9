#include "runtime/plan/cut.h"

#include <doctest/doctest.h>

#include <climits>
#include <random>

using namespace mlc::exec;

namespace {

Chunks choose_chunks(const Work& work, unsigned workers) {
  int tries = kTriesOfBinding;
  return mlc::exec::choose_chunks(work, workers, tries);
}

Work work_of(uint64_t tiles, std::initializer_list<CutAxis> axes, std::optional<double> nanoseconds = std::nullopt) {
  Work w{tiles, {}, 0, nanoseconds};
  for (const CutAxis& axis : axes) w.axes[w.num_axes++] = axis;
  return w;
}

// Quanta of the worker that has the most, tiles being dealt out in equal numbers.
uint64_t largest_share(const Work& w, const Chunks& c) {
  uint64_t points = (c.tiles + c.shares - 1) / c.shares;
  for (size_t k = 0; k < w.num_axes; ++k) points *= c.of[k];
  return points;
}

}  // namespace

TEST_CASE("chunks cover every axis once, whatever is asked") {
  std::mt19937_64 random(3);
  const uint64_t sizes[] = {0, 1, 2, 3, 7, 16, 19, 24, 97, 128, 1000, 65537, INT32_MAX, kMaxUnits};
  for (int round = 0; round < 20000; ++round) {
    Work w{sizes[random() % (std::size(sizes) - 1)], {}, random() % (kMaxCuts + 1), std::nullopt};
    for (size_t k = 0; k < w.num_axes; ++k) w.axes[k] = {sizes[random() % std::size(sizes)], static_cast<double>(random() % 1000)};
    if (random() % 2) w.nanoseconds = static_cast<double>(static_cast<int64_t>(random()));
    const auto workers = static_cast<unsigned>(random() % 17);
    const Chunks c = choose_chunks(w, workers);
    uint64_t tiles = w.tiles;
    for (size_t k = 0; k < w.num_axes; ++k) {
      REQUIRE(c.of[k] >= 1);
      REQUIRE(c.of[k] <= std::max<uint64_t>(1, w.axes[k].units));
      tiles *= (w.axes[k].units + c.of[k] - 1) / c.of[k];
    }
    REQUIRE(c.tiles == tiles);
    REQUIRE(tiles <= INT32_MAX);
    REQUIRE(c.shares >= 1);
    REQUIRE(c.shares <= std::max(1u, workers));
    REQUIRE((tiles == 0 || c.shares <= tiles));
  }
}

TEST_CASE("the largest share is the least there is") {
  // 19 row tiles and 24 groups: 9, 9 and 1 rows were 324 against 132; twelve groups each are 228.
  const Work bert = work_of(1, {{19, 100}, {24, 100}});
  CHECK(largest_share(bert, choose_chunks(bert, 2)) == 228);
  CHECK(choose_chunks(bert, 2).of[1] == 12);
  CHECK(choose_chunks(bert, 3).of[1] == 8);
  CHECK(largest_share(bert, choose_chunks(bert, 4)) == 114);
  // Along one axis shares differ by a quantum at most.
  for (uint64_t units = 1; units < 300; ++units)
    for (unsigned workers : {1u, 2u, 3u, 7u, 16u}) {
      const Work w = work_of(1, {{units, 0}});
      CHECK(largest_share(w, choose_chunks(w, workers)) == (units + workers - 1) / workers);
    }
  // What has enough tiles of its own need not be cut; what does not divide is.
  CHECK(choose_chunks(work_of(12, {{19, 1}}), 2).of[0] == 19);
  CHECK(largest_share(work_of(3, {{100, 1}}), choose_chunks(work_of(3, {{100, 1}}), 2)) == 150);
}

TEST_CASE("of equal divisions the one that reads less is taken, then the first axis is cut") {
  CHECK(choose_chunks(work_of(1, {{20, 1}, {20, 10}}), 2).of[1] == 10);
  CHECK(choose_chunks(work_of(1, {{20, 10}, {20, 1}}), 2).of[0] == 10);
  CHECK(choose_chunks(work_of(1, {{20, 0}, {20, 0}}), 2).of[0] == 10);
  // Four shares of squares read less than four stripes.
  const Chunks c = choose_chunks(work_of(1, {{64, 1}, {64, 1}}), 4);
  CHECK(c.of[0] == 32);
  CHECK(c.of[1] == 32);
}

TEST_CASE("little work is left to fewer workers") {
  CHECK(choose_chunks(work_of(1, {{1000, 0}}, 599), 8).shares == 1);
  CHECK(choose_chunks(work_of(1, {{1000, 0}}, 599), 8).of[0] == 1000);
  CHECK(choose_chunks(work_of(1, {{1000, 0}}, 600), 8).shares == 2);
  CHECK(choose_chunks(work_of(1, {{1000, 0}}, 1e6), 8).shares == 8);
  CHECK(choose_chunks(work_of(40, {}, -5.0), 8).shares == 1);
  CHECK(choose_chunks(work_of(40, {}), 8).shares == 8);
}

TEST_CASE("what is tried is bounded, however many workers there are") {
  for (const unsigned workers : {192u, 100'000u, UINT_MAX}) {
    const Work w = work_of(1, {{kMaxUnits, 3}, {kMaxUnits, 2}, {kMaxUnits, 1}});
    const Chunks c = choose_chunks(w, workers);  // without a bound: for hours
    CHECK(c.tiles <= INT32_MAX);
    CHECK(c.shares > std::min<unsigned>(workers, INT_MAX) / 2);
  }
}

TEST_CASE("what a binding may try is bounded as well; who comes later is cut along the first axis") {
  const Work w = work_of(1, {{4000, 3}, {4000, 2}, {4000, 1}});
  int tries = kTriesOfBinding, launches = 0;
  for (; tries > 0; ++launches) mlc::exec::choose_chunks(w, 64, tries);
  CHECK(launches > 100);
  CHECK(launches < 2000);
  const Chunks late = mlc::exec::choose_chunks(w, 64, tries);
  CHECK(tries == 0);
  CHECK(late.shares == 64);
  CHECK(late.of[0] == 63);
}

TEST_CASE("few workers share little work, many share much") {
  const auto shares = [](double nanoseconds, unsigned workers) { return choose_chunks(work_of(1, {{100000, 0}}, nanoseconds), workers).shares; };
  CHECK(shares(-5, 2) == 1);
  CHECK(shares(500, 2) == 1);
  CHECK(shares(600, 2) == 2);
  CHECK(shares(1300, 8) == 2);
  CHECK(shares(1400, 8) == 3);
  CHECK(shares(25000, 64) == 12);
  CHECK(shares(100000, 64) == 50);
  CHECK(shares(1e18, 64) == 64);
  for (double t = 0, before = 1; t < 300000; t += 100) {
    const double now = shares(t, 128);
    CHECK(now >= before);
    before = now;
  }
}
