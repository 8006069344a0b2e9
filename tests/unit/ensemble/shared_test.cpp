// Several machines that are made up, shared by sessions, in each mode; and what happens when one of them fails at any moment.
#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "runtime/ensemble/composed_plan.h"
#include "runtime/ensemble/parts_runner.h"
#include "tests/unit/ensemble/fake_machine.h"

namespace mlc::ensemble {
namespace {

using exec::Executor;
using exec::InputArg;
using exec::OutputArg;
using exec::Plan;
using test::FakeDevice;
using test::Machine;

// What sessions share.
struct Crew {
  std::vector<std::unique_ptr<Machine>> machines;
  Plan front;
  std::vector<Place> places;
  std::shared_ptr<Ensemble> ensemble;

  // A stage for each machine, if there are stages; else `whole` is the place of all of it.
  Crew(size_t count, const std::vector<Stage>& stages, const Place& whole) {
    const Plan plan = test::plan_of(test::kPlan);
    auto composition = compose_plan(std::vector<Plan>(count, plan), stages.empty() ? std::vector<Staged>() : std::vector<Staged>{{0, stages}},
                               std::vector<uint32_t>(plan.functions.size(), 0));
    REQUIRE_MESSAGE(composition.ok(), (composition.ok() ? std::string() : composition.status().message));
    front = std::move(composition->front);
    for (const uint32_t part : composition->place) places.push_back({.part = part});
    if (stages.empty()) places[0] = whole;
    std::vector<Part> parts;
    for (size_t k = 0; k < count; ++k) {
      machines.push_back(std::make_unique<Machine>(std::move(composition->plans[k])));
      parts.push_back(machines[k]->part("gpu" + std::to_string(k)));
    }
    ensemble = std::make_shared<Ensemble>(std::move(parts));
  }
};

struct Session {
  test::NoConstants constants;
  std::vector<std::string> told;
  std::unique_ptr<Executor> executor;

  explicit Session(const Crew& crew) {
    auto runner = PartsRunner::create(crew.ensemble, crew.places, true, [this](const std::string& line) { told.push_back(line); }).value();
    const TeamOptions team(runner->pool(), 1);
    executor = Executor::create(crew.front, std::move(runner), team, exec::Limits()).value();
  }
  // Empty: the answers are right.
  std::string run(int64_t n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i) / 3;
    const std::vector<int64_t> shape = {n};
    const InputArg in{DType::F32, shape, x.data(), x.size() * 4};
    OutputArg out;
    if (Status s = executor->run(0, {&in, 1}, {&out, 1}); !s.ok()) return s.message;
    const std::span<const float> y(static_cast<const float*>(out.data), out.bytes / 4);
    if (y.size() != x.size()) return "another length";
    for (size_t i = 0; i < x.size(); ++i) {
      const float t = x[i] + 1, v = 2 * t + 1;
      if (y[i] != t + v) return "another answer at " + std::to_string(i);  // bit for bit
    }
    return "";
  }
};

Place replicated() { return {.how = Place::How::First, .may = {1, 1, 1}}; }
Place divided() {
  return {.how = Place::How::Rows, .may = {1, 1, 1}, .costs = {{0, 1}, {0, 1}, {0, 1}}, .rules = {0, 1, 1}, .has_rows = {1}};
}

struct ModeOfTest {
  const char* name;
  std::vector<Stage> stages;
  Place whole;
};
const std::vector<ModeOfTest> kModes = {
    {"replicate", {}, replicated()}, {"pipeline", {{0, 1, 0}, {1, 3, 1}, {3, 4, 2}}, {}}, {"split batch", {}, divided()}, {"one device", {}, {.part = 1}}};

TEST_CASE("every mode gives the same answers for any number of rows") {
  for (const ModeOfTest& mode : kModes) {
    CAPTURE(mode.name);
    const Crew crew(3, mode.stages, mode.whole);
    Session session(crew);
    for (const int64_t n : {1, 2, 3, 4, 7, 100, 1000, 5}) CHECK(session.run(n) == "");
    CHECK(session.told.empty());
    for (const auto& m : crew.machines) CHECK(m->device.races.empty());
  }
}

TEST_CASE("rows go to all machines at once, and one row to one of them") {
  const Crew crew(3, {}, divided());
  Session session(crew);
  CHECK(session.run(100) == "");
  for (const auto& m : crew.machines) CHECK(m->device.submissions == 1);
  CHECK(session.run(1) == "");
  CHECK(crew.machines[0]->device.submissions == 2);
  CHECK(crew.machines[1]->device.submissions == 1);
}

TEST_CASE("many sessions share machines, each of which does one request at a time") {
  for (const ModeOfTest& mode : kModes) {
    CAPTURE(mode.name);
    const Crew crew(3, mode.stages, mode.whole);
    constexpr int kSessions = 6, kRuns = 100;
    std::vector<std::unique_ptr<Session>> sessions;
    for (int k = 0; k < kSessions; ++k) sessions.push_back(std::make_unique<Session>(crew));
    std::vector<std::string> wrong(kSessions);
    {
      std::vector<std::jthread> threads;
      for (size_t k = 0; k < kSessions; ++k)
        threads.emplace_back([&, k] {
          for (int run = 0; run < kRuns && wrong[k].empty(); ++run) wrong[k] = sessions[k]->run(1 + (run * 7 + static_cast<int>(k)) % 40);
        });
    }
    for (const std::string& text : wrong) CHECK(text == "");
    uint64_t submissions = 0;
    for (const auto& m : crew.machines) {
      CHECK(m->device.races.empty());
      submissions += m->device.submissions;
    }
    CHECK(submissions >= kSessions * kRuns);
  }
}

TEST_CASE("a machine that fails at any moment is replaced, in every mode, with right answers and one line") {
  using Failure = std::pair<const char*, uint64_t FakeDevice::*>;
  for (const ModeOfTest& mode : kModes)
    for (const auto& [what, member] : {Failure{"allocation", &FakeDevice::fail_allocation}, Failure{"recording", &FakeDevice::fail_recording},
                                       Failure{"submission", &FakeDevice::fail_submission}, Failure{"lost at wait", &FakeDevice::lose_at_wait}}) {
      uint64_t moments = 0;
      for (uint64_t n = 1;; ++n) {
        CAPTURE(mode.name);
        CAPTURE(what);
        CAPTURE(n);
        const Crew crew(3, mode.stages, mode.whole);
        Session first(crew), second(crew);
        FakeDevice& fails = crew.machines[1]->device;
        fails.*member = n;
        for (const int64_t rows : {30, 6, 50}) {
          CHECK(first.run(rows) == "");
          CHECK(second.run(rows) == "");
        }
        const size_t lines = first.told.size() + second.told.size();
        if (fails.*member != 0) {  // it did not come to that
          CHECK(lines == 0);
          break;
        }
        CHECK(lines == 1);
        ++moments;
      }
      CHECK(moments > 0);
    }
}

TEST_CASE("a machine that is lost while many sessions use it is left out, and said once") {
  for (const ModeOfTest& mode : kModes) {
    CAPTURE(mode.name);
    const Crew crew(3, mode.stages, mode.whole);
    constexpr size_t kSessions = 4;
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t k = 0; k < kSessions; ++k) sessions.push_back(std::make_unique<Session>(crew));
    crew.machines[1]->device.lose_at_wait = 5;
    std::vector<std::string> wrong(kSessions);
    {
      std::vector<std::jthread> threads;
      for (size_t k = 0; k < kSessions; ++k)
        threads.emplace_back([&, k] {
          for (int run = 0; run < 200 && wrong[k].empty(); ++run) wrong[k] = sessions[k]->run(12);
        });
    }
    size_t lines = 0;
    for (size_t k = 0; k < kSessions; ++k) {
      CHECK(wrong[k] == "");
      lines += sessions[k]->told.size();
    }
    CHECK(lines == (crew.machines[1]->device.lost.empty() ? 0u : 1u));
  }
}

TEST_CASE("a request that waits for its turn ends when it is cancelled") {
  const Crew crew(1, {}, {});
  Session session(crew);
  WorkMeter holder;
  holder.start({});
  auto turn = crew.ensemble->wait(0, {1}, holder);
  REQUIRE(turn);
  CancelFlag cancelled;
  std::jthread canceller([&] { cancelled.set(); });
  const float x = 1;
  const std::vector<int64_t> shape = {1};
  const InputArg in{DType::F32, shape, &x, 4};
  OutputArg out;
  CHECK(session.executor->run(0, {&in, 1}, {&out, 1}, {&cancelled, {}}).code == Code::Cancelled);
  turn.reset();
  CHECK(session.run(3) == "");
}

}  // namespace
}  // namespace mlc::ensemble
