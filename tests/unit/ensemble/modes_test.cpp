// Each way to use several machines, from measuring to a run, in virtual time.
#include <doctest/doctest.h>

#include <random>

#include "runtime/ensemble/mapper.h"
#include "tests/unit/ensemble/sim.h"

namespace mlc::ensemble {
namespace {

using test::Sim;
using test::SimMachine;

// A chain of segments that do so many operations, with a value of so many bytes behind each.
Sim chain(const std::vector<double>& operations, const std::vector<uint64_t>& passed) {
  Sim sim;
  sim.work.values.push_back({kCaller, {0}, passed[0]});
  for (uint32_t s = 0; s < operations.size(); ++s) {
    SegmentWork& w = sim.work.segments.emplace_back();
    w.operations = operations[s];
    w.bytes = operations[s] / 10;
    w.weights = 100;
    w.arena = 10;
    sim.work.values.push_back({s, {s + 1 < operations.size() ? s + 1 : kCaller}, passed[s + 1]});
  }
  return sim;
}

SimMachine processor() { return {.is_processor = true, .ns_per_operation = 1}; }
SimMachine device(double speed) { return {.ns_per_operation = 1 / speed, .start_ns = 10'000, .copy_ns = 2'000, .ns_per_copied_byte = 0.05}; }

double alone(Sim& sim, uint32_t machine) { return sim.run({{0, static_cast<uint32_t>(sim.work.segments.size()), machine}}); }

TEST_CASE("one device: the fastest has all of it, where nothing is gained by dividing") {
  Sim sim = chain({1e6, 1e6, 1e6}, {1000, 1000, 1000, 1000});
  sim.machines = {processor(), device(10), device(5)};
  const auto choice = choose(sim.measured(), Objective::Latency);
  REQUIRE(choice);
  REQUIRE(choice->assignment.stages.size() == 1);
  CHECK(choice->assignment.stages[0].part == 1);
  // Little work: the start of a device costs more than it saves.
  Sim small = chain({2e3, 2e3}, {10, 10, 10});
  small.machines = sim.machines;
  CHECK(choose(small.measured(), Objective::Latency)->assignment.stages[0].part == 0);
}

TEST_CASE("latency path: what a device cannot, or is bad at, goes elsewhere and the path comes back") {
  Sim sim = chain({5e6, 4e5, 5e6, 5e6}, {1000, 80'000, 80'000, 1000, 1000});
  sim.machines = {processor(), device(10)};
  sim.machines[1].cannot = {1};
  const auto choice = choose(sim.measured(), Objective::Latency);
  REQUIRE(choice);
  const auto& stages = choice->assignment.stages;
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].part == 1);
  CHECK(stages[1].part == 0);
  CHECK(stages[2].part == 1);
  CHECK(stages[2].end == 4);
  CHECK(choice->why == "15.40 ms alone");  // the processor
}

TEST_CASE("latency path: reckoned within 15 % of what runs take, and never 2 % slower than the best machine") {
  std::mt19937 random(7);
  int several = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<double> operations;
    std::vector<uint64_t> passed = {random() % 100'000};
    const size_t segments = 1 + random() % 12;
    for (size_t s = 0; s < segments; ++s) {
      operations.push_back(1e3 * static_cast<double>(1 + random() % 5000));
      passed.push_back(random() % 1'000'000);
    }
    Sim sim = chain(operations, passed);
    sim.machines = {processor(), device(2 + static_cast<double>(random() % 20)), device(1 + static_cast<double>(random() % 8))};
    for (uint32_t s = 0; s < segments; ++s)
      for (size_t m = 1; m < 3; ++m)
        if (random() % 4 == 0) sim.machines[m].cannot.insert(s);
    const auto choice = choose(sim.measured(), Objective::Latency);
    REQUIRE(choice);
    const double found = sim.run(choice->assignment.stages);
    CHECK(choice->assignment.ns <= 1.15 * found);
    CHECK(choice->assignment.ns >= 0.85 * found);
    for (uint32_t m = 0; m < 3; ++m)
      if (sim.machines[m].cannot.empty()) CHECK(found <= 1.02 * alone(sim, m));
    several += choice->assignment.stages.size() > 1;
  }
  CHECK(several > 50);
}

TEST_CASE("measuring takes a fifth of a second, and what it did not reach is told from what it did") {
  std::vector<double> operations;
  std::vector<uint64_t> passed(21, 1000);
  for (int s = 0; s < 20; ++s) operations.push_back(5e6 * (1 + s % 4));
  Sim sim = chain(operations, passed);
  sim.machines = {processor(), device(3)};
  const Problem p = sim.measured();
  CHECK(sim.now <= kMeasureNs);
  for (size_t s = 0; s < 20; ++s)
    for (size_t m = 0; m < 2; ++m)
      CHECK(p.segments[s].ns[m] == doctest::Approx(operations[s] * sim.machines[m].ns_per_operation).epsilon(0.05));
  // One that takes longer than all of the time is measured once and no other is.
  Sim slow = chain({1e9, 2e9}, {0, 0, 0});
  slow.machines = {processor()};
  slow.measured();
  CHECK(slow.now == doctest::Approx(2e9));
}

TEST_CASE("memory: what one device does not hold is loaded on two, and the processor is not asked") {
  Sim sim = chain({1e6, 1e6, 1e6, 1e6}, {1000, 1000, 1000, 1000, 1000});
  sim.machines = {processor(), device(10), device(5), device(2)};
  for (SimMachine& m : sim.machines) m.capacity = 250;
  const auto choice = choose(sim.measured(), Objective::Memory);
  REQUIRE(choice);
  std::vector<uint64_t> held(4, 10);
  for (const Stage& stage : choice->assignment.stages) held[stage.part] += 100 * (stage.end - stage.first);
  CHECK(held == std::vector<uint64_t>{10, 210, 210, 10});
  sim.machines[3].capacity = 410;
  const auto one = choose(sim.measured(), Objective::Memory);
  REQUIRE(one->assignment.stages.size() == 1);
  CHECK(one->assignment.stages[0].part == 3);
}

TEST_CASE("equal measurements give equal assignments, and a machine that got slower gets less") {
  Sim sim = chain({5e6, 4e6, 3e6}, {10, 10, 10, 10});
  sim.machines = {processor(), device(1.5)};
  CHECK(choose(sim.measured(), Objective::Latency)->assignment.stages == choose(sim.measured(), Objective::Latency)->assignment.stages);
  CHECK(choose(sim.measured(), Objective::Latency)->assignment.stages[0].part == 1);
  sim.machines[1].slower_from = sim.machines[1].runs;
  CHECK(choose(sim.measured(), Objective::Latency)->assignment.stages[0].part == 0);
}

}  // namespace
}  // namespace mlc::ensemble
