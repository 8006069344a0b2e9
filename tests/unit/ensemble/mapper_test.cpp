// The mapper against every placement there is, and what it says where several devices do not pay.
#include "runtime/ensemble/choose.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace mlc::ensemble {
namespace {

// Chains with values that pass over some segments, links of very different speed, and memory that is sometimes too small.
Problem random_problem(std::mt19937& random) {
  const auto pick = [&](uint64_t most) { return random() % (most + 1); };
  Problem p;
  const size_t parts = 1 + pick(2), segments = 1 + pick(9);
  for (size_t d = 0; d < parts; ++d) {
    PartCost& part = p.parts.emplace_back();
    part.is_processor = d == 0 && pick(3) > 0;
    part.start_ns = part.is_processor ? 0 : static_cast<double>(pick(20));
    part.copy_ns = static_cast<double>(pick(5));
    part.ns_per_byte = static_cast<double>(pick(10)) / 10;
    part.capacity = pick(2) == 0 ? 20 + pick(200) : UINT64_MAX;
  }
  for (size_t s = 0; s < segments; ++s) {
    SegmentCost& segment = p.segments.emplace_back();
    for (size_t d = 0; d < parts; ++d) segment.ns.push_back(pick(12) == 0 ? kImpossible : static_cast<double>(pick(60)));
    segment.weights = pick(30);
    segment.arena = pick(30);
  }
  p.values.push_back({kCaller, {0}, pick(50)});
  for (uint32_t s = 0; s < segments; ++s) {
    PassedValue& v = p.values.emplace_back();
    v.producer = s;
    v.bytes = pick(50);
    v.readers.push_back(s + 1 < segments ? s + 1 : kCaller);
    if (s + 2 < segments && pick(2) == 0) v.readers.push_back(s + 2 + static_cast<uint32_t>(pick(segments - s - 3)));
    if (pick(5) == 0) v.readers.push_back(kCaller);
  }
  return p;
}

std::optional<Assignment> by_trying_all(const Problem& p) {
  std::optional<Assignment> best;
  std::vector<uint32_t> parts(p.segments.size(), 0);
  for (;;) {
    auto found = assignment_of(p, parts);
    if (found && (!best || found->ns < best->ns)) best = std::move(found);
    size_t at = 0;
    while (at < parts.size() && ++parts[at] == p.parts.size()) parts[at++] = 0;
    if (at == parts.size()) return best;
  }
}

TEST_CASE("up to ten segments on up to three parts are mapped as well as can be") {
  std::mt19937 random(20);
  int impossible = 0, several = 0, returns = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Problem p = random_problem(random);
    const auto expected = by_trying_all(p), found = cheapest(p);
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) {
      ++impossible;
      continue;
    }
    CHECK(found->ns == doctest::Approx(expected->ns).epsilon(1e-12));
    CHECK(cheapest(p)->stages == found->stages);
    several += found->stages.size() > 1;
    for (size_t k = 2; k < found->stages.size(); ++k) returns += found->stages[k].part == found->stages[k - 2].part;
  }
  MESSAGE(impossible, " impossible, ", several, " on several parts, ", returns, " returns to a part");
  CHECK(impossible > 10);
  CHECK(several > 100);
  CHECK(returns > 20);
}

std::optional<Assignment> pipeline_by_trying_all(const Problem& p) {
  std::optional<Assignment> best;
  std::vector<uint32_t> parts(p.segments.size(), 0);
  for (;;) {
    auto found = assignment_of(p, parts);
    bool again = false;  // on a part that has a stage
    for (size_t a = 0; found && a < found->stages.size(); ++a)
      for (size_t b = 0; b < a; ++b) again |= found->stages[a].part == found->stages[b].part;
    const auto rank = [](const Assignment& x) { return std::make_tuple(x.slowest_ns(), x.stages.size(), x.ns); };
    if (found && !again && (!best || rank(*found) < rank(*best))) best = std::move(found);
    size_t at = 0;
    while (at < parts.size() && ++parts[at] == p.parts.size()) parts[at++] = 0;
    if (at == parts.size()) return best;
  }
}

TEST_CASE("pipelines of up to ten segments on up to three parts are as fast as can be") {
  std::mt19937 random(21);
  int impossible = 0, several = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Problem p = random_problem(random);
    const auto expected = pipeline_by_trying_all(p), found = best_pipeline(p);
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) {
      ++impossible;
      continue;
    }
    CHECK(found->slowest_ns() == expected->slowest_ns());
    CHECK(found->stages.size() == expected->stages.size());
    CHECK(found->ns == doctest::Approx(expected->ns).epsilon(1e-12));
    CHECK(best_pipeline(p)->stages == found->stages);
    several += found->stages.size() > 1;
  }
  CHECK(impossible > 10);
  CHECK(several > 100);
}

// Every way to divide so many units.
double rows_by_trying_all(const std::vector<RowCost>& costs, const Rows& rows, size_t part, uint64_t left, std::vector<uint64_t>& shares) {
  if (part == costs.size()) return left == 0 ? divided_ns(costs, shares) : kImpossible;
  double best = kImpossible;
  for (uint64_t share = 0; share <= left; share += rows.multiple) {
    if (share > 0 && (share < rows.least || !(costs[part].fixed_ns < kImpossible))) continue;
    shares[part] = share;
    best = std::min(best, rows_by_trying_all(costs, rows, part + 1, left - share, shares));
  }
  shares[part] = 0;
  return best;
}

TEST_CASE("rows are divided as well as can be") {
  std::mt19937 random(22);
  int several = 0, none = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    std::vector<RowCost> costs(1 + random() % 3);
    for (RowCost& c : costs)
      if (random() % 8 != 0) c = {static_cast<double>(random() % 50), static_cast<double>(1 + random() % 20)};
    Rows rows{random() % 40, 1 + random() % 3, random() % 6};
    const std::vector<uint64_t> shares = divide_rows(costs, rows);
    std::vector<uint64_t> tried(costs.size(), 0);
    const double expected = rows.count > 0 ? rows_by_trying_all(costs, rows, 0, rows.count, tried) : kImpossible;
    uint64_t sum = 0;
    for (const uint64_t share : shares) {
      CHECK((share == 0 || (share >= rows.least && share % rows.multiple == 0)));
      sum += share;
    }
    if (!(expected < kImpossible)) {
      CHECK(sum == 0);
      ++none;
      continue;
    }
    REQUIRE(sum == rows.count);
    CHECK(divided_ns(costs, shares) == doctest::Approx(expected).epsilon(1e-12));
    several += std::count(shares.begin(), shares.end(), uint64_t{0}) + 1 < static_cast<std::ptrdiff_t>(shares.size());
  }
  CHECK(several > 100);
  CHECK(none > 50);
  // A number that nobody could count to.
  const std::vector<uint64_t> many = divide_rows({{0, 1}, {5, 1e-9}, {7, 3}}, {uint64_t{1} << 52, 1, 1});
  CHECK(many[0] + many[1] + many[2] == uint64_t{1} << 52);
}

// A processor and a device: the device is ten times as fast, but for segment 2, which it does at a hundredth of the speed.
Problem detector(double last_ns) {
  Problem p;
  p.parts = {{true, 0, 0, 0, UINT64_MAX}, {false, 10'000, 2'000, 0.1, UINT64_MAX}};
  p.segments = {{{10e6, 1e6}, 100, 10}, {{10e6, 1e6}, 100, 10}, {{last_ns, 100 * last_ns}, 100, 10}};
  p.values = {{kCaller, {0}, 1000}, {0, {1}, 1000}, {1, {2}, 80'000}, {2, {kCaller}, 100}};
  return p;
}

TEST_CASE("a segment that a device is bad at goes to the processor") {
  const auto choice = choose(detector(0.4e6), Objective::Latency);
  REQUIRE(choice);
  const auto& stages = choice->assignment.stages;
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].part == 1);
  CHECK(stages[0].end == 2);
  CHECK(stages[1].part == 0);
  CHECK(stages[0].copies_ns == 2 * 2'000 + 0.1 * (1000 + 80'000));
  CHECK(stages[1].copies_ns == 0);
  CHECK(choice->assignment.ns == doctest::Approx(2e6 + 10'000 + 4'000 + 8'100 + 0.4e6));
}

TEST_CASE("several devices that gain less than a tenth are not used") {
  // Together 2.4 ms with the copies; alone 2 ms and what the last segment takes there.
  Problem p = detector(0.4e6);
  const double together = choose(p, Objective::Latency)->assignment.ns;
  p.segments[2].ns[1] = together * 1.09 - 2e6;
  auto choice = choose(p, Objective::Latency);
  REQUIRE(choice->assignment.stages.size() == 1);
  CHECK(choice->assignment.stages[0].part == 1);
  CHECK(choice->why.find("less than a tenth") != std::string::npos);
  p.segments[2].ns[1] = together * 1.13 - 2e6;
  CHECK(choose(p, Objective::Latency)->assignment.stages.size() == 2);
}

TEST_CASE("what no device holds is divided, and what nothing holds is said") {
  Problem p = detector(0.4e6);
  p.segments[2].ns[1] = 1e6;
  p.parts[0].capacity = 250;
  p.parts[1].capacity = 250;
  const auto choice = choose(p, Objective::Latency);
  REQUIRE(choice);
  CHECK(choice->assignment.stages.size() == 2);
  CHECK(choice->why == "no device holds all of it");
  p.parts[0].capacity = 150;
  p.parts[1].capacity = 150;
  CHECK(!choose(p, Objective::Latency));
}

TEST_CASE("memory: as few devices as hold it, and the processor last") {
  Problem p;
  p.parts = {{true, 0, 0, 0, UINT64_MAX}, {false, 0, 0, 0, 100}, {false, 0, 0, 0, 100}, {false, 0, 0, 0, 100}};
  for (int s = 0; s < 4; ++s) p.segments.push_back({{1, 50, 40, 50}, 45, 5});
  for (uint32_t s = 0; s < 4; ++s) p.values.push_back({s, {s + 1 < 4 ? s + 1 : kCaller}, 10});
  const auto used = [&] {
    std::vector<uint32_t> parts;
    const auto choice = choose(p, Objective::Memory);
    REQUIRE(choice);
    for (const Stage& s : choice->assignment.stages) parts.push_back(s.part);
    std::sort(parts.begin(), parts.end());
    return parts;
  };
  CHECK(used() == std::vector<uint32_t>{1, 2});  // of two, the fastest that hold it
  p.parts[3].capacity = 300;
  CHECK(used() == std::vector<uint32_t>{3});     // one is fewer
  p.parts[1].capacity = p.parts[2].capacity = 60;
  p.parts[3].capacity = 60;
  CHECK(used() == std::vector<uint32_t>{0});     // three devices hold three segments, the processor all
  p.parts[0].capacity = 100;
  CHECK(used().size() == 3);
  CHECK(used().front() == 0);
}

}  // namespace
}  // namespace mlc::ensemble
