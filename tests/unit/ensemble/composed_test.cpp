// Composed plans on devices that are made up: whatever the placement, the answers are those of the whole.
#include "runtime/ensemble/composed_plan.h"

#include <doctest/doctest.h>

#include "runtime/ensemble/measure/figures.h"
#include "runtime/ensemble/parts_runner.h"
#include "runtime/ensemble/placement.h"
#include "tests/unit/ensemble/fake_machine.h"

namespace mlc::ensemble {
namespace {

using exec::Executor;
using exec::InputArg;
using exec::OutputArg;
using exec::Plan;
using test::kPlan;
using test::Machine;
using test::NoConstants;
using test::plan_of;

struct Both {  // machines 0 and 1 together
  Plan front;
  std::vector<std::unique_ptr<Machine>> machines;
  NoConstants constants;
  std::vector<std::string> told;
  std::unique_ptr<Executor> executor;

  explicit Both(const std::vector<uint32_t>& parts_of_segments, const std::string& text = kPlan) {
    const Plan whole = plan_of(text);
    Staged staged{0, {}};
    for (uint32_t s = 0; s < parts_of_segments.size(); ++s) {
      if (staged.stages.empty() || staged.stages.back().part != parts_of_segments[s]) staged.stages.push_back({s, s, parts_of_segments[s]});
      staged.stages.back().end = s + 1;
    }
    std::vector<Staged> all;
    std::vector<uint32_t> place(whole.functions.size(), staged.stages[0].part);
    if (staged.stages.size() > 1) all.push_back(staged);
    auto composition = compose_plan({whole, whole}, all, place);
    REQUIRE_MESSAGE(composition.ok(), (composition.ok() ? std::string() : composition.status().message));
    front = std::move(composition->front);
    std::vector<Part> parts;
    for (size_t k = 0; k < 2; ++k) {
      machines.push_back(std::make_unique<Machine>(std::move(composition->plans[k])));
      parts.push_back(machines.back()->part("gpu" + std::to_string(k)));
    }
    std::vector<Place> places;
    for (const uint32_t part : composition->place) places.push_back({.part = part});
    auto runner = PartsRunner::create(std::make_shared<Ensemble>(std::move(parts)), std::move(places), false, [this](const std::string& line) { told.push_back(line); }).value();
    const TeamOptions team(runner->pool(), 1);
    auto made = Executor::create(front, std::move(runner), team, exec::Limits());
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? std::string() : made.status().message));
    executor = std::move(*made);
  }
  Status run(int64_t n, std::vector<float>& y) {
    std::vector<float> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
    const std::vector<int64_t> shape = {n};
    const InputArg in{DType::F32, shape, x.data(), x.size() * 4};
    OutputArg out;
    MLC_RETURN_IF_ERROR(executor->run(0, {&in, 1}, {&out, 1}));
    y.assign(static_cast<const float*>(out.data), static_cast<const float*>(out.data) + out.bytes / 4);
    return ok();
  }
  void check(int64_t n) {
    std::vector<float> y;
    const Status s = run(n, y);
    REQUIRE_MESSAGE(s.ok(), s.message);
    REQUIRE(y.size() == static_cast<size_t>(n));
    for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == 3 * (float(i) + 1) + 1);
    for (const auto& m : machines) CHECK(m->device.races.empty());
  }
};

TEST_CASE("every placement of four segments on two devices gives the same answers") {
  for (uint32_t bits = 0; bits < 16; ++bits) {
    CAPTURE(bits);
    Both both({bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1});
    both.check(5);
    both.check(100);
    both.check(5);
    CHECK((both.machines[0]->device.launches > 0) == (bits != 15));
    CHECK((both.machines[1]->device.launches > 0) == (bits != 0));
  }
}

TEST_CASE("neighbours on one device are one submission, and what passes between them stays there") {
  Both both({0, 0, 0, 1});
  both.check(8);
  CHECK(both.machines[0]->device.submissions == 1);
  CHECK(both.machines[0]->device.launches == 3);
  CHECK(both.machines[1]->device.submissions == 1);
  CHECK(both.front.functions[0].is_program());
  CHECK(both.front.functions[0].steps.size() == 2);
  const exec::Function& stage = both.front.functions.back();
  CHECK(stage.name == "main.0 to main.2");
  CHECK(stage.inputs.size() == 1);
  CHECK(stage.outputs.size() == 2);  // t and v; u stays
}

TEST_CASE("conditions on extents hold in stages") {
  Both both({0, 0, 1, 1});
  std::vector<float> y;
  const Status s = both.run(0, y);
  CHECK(s.code == Code::InputMismatch);
  CHECK(s.message.find("the batch is empty") != std::string::npos);
  both.check(3);
}

TEST_CASE("a segment gets the extents that it demands, in a stage as by itself") {
  std::string text = kPlan;  // main.1 takes four elements
  const std::string free = "input \"t\" f32 [$2]";
  text.replace(text.find(free, text.find("function \"main.1\"")), free.size(), "input \"t\" f32 [$1]");
  for (const auto& parts : {std::vector<uint32_t>{0, 0, 0, 1}, {0, 1, 1, 1}}) {
    Both both(parts, text);
    std::vector<float> y;
    CHECK(both.run(5, y).code == Code::InputMismatch);
    both.check(4);
  }
}

TEST_CASE("a lost device is left out, and the others go on with the run and with those that follow") {
  Both both({0, 1, 0, 1});
  both.check(3);
  CHECK(both.told.empty());
  both.machines[1]->device.loses = true;
  both.check(3);
  REQUIRE(both.told.size() == 1);
  CHECK(both.told[0].find("gpu0 goes on in place of gpu1") != std::string::npos);
  CHECK(both.told[0].find("VK_ERROR_DEVICE_LOST") != std::string::npos);
  const uint64_t submissions = both.machines[1]->device.submissions;
  both.check(7);
  CHECK(both.told.size() == 1);
  CHECK(both.machines[1]->device.submissions == submissions);
  both.machines[0]->device.loses = true;
  std::vector<float> y;
  const Status s = both.run(3, y);
  CHECK(s.code == Code::Resource);
  CHECK(s.message.find("on gpu0") != std::string::npos);
}

TEST_CASE("what one device cannot do another one does") {
  Both both({0, 0, 1, 1});
  both.machines[1]->device.limit.range_bytes = 100;
  both.check(10);
  CHECK(both.told.empty());
  both.check(50);
  REQUIRE(both.told.size() == 1);
  CHECK(both.told[0].find("'main.2 to main.3' runs on gpu0") != std::string::npos);
  both.check(50);
  CHECK(both.told.size() == 1);
  both.machines[0]->device.limit.range_bytes = 100;
  std::vector<float> y;
  CHECK(both.run(60, y).code == Code::Unsupported);
}

TEST_CASE("each allocation fails once, and somebody else has the memory") {
  for (uint64_t n = 1; n < 8; ++n) {
    Both both({0, 1, 1, 0});
    both.machines[1]->device.fail_allocation = n;
    both.check(20);
    both.check(5);
  }
}

TEST_CASE("a cut that is not what it should be is none") {
  Plan plan = plan_of(kPlan);
  CHECK(cut_of(plan, 0) == 1u);
  CHECK(!cut_of(plan, 1));
  CHECK(!cut_of(plan, 2));
  Plan other = plan;
  other.functions[1].outputs[0].name = "z";
  CHECK(!cut_of(other, 0));
  other = plan;
  other.functions[1].steps[2].functions[0] = 3;  // a segment twice
  CHECK(!cut_of(other, 0));
  for (const size_t segment : {3u, 5u}) {  // takes more axes than there are
    other = plan;
    other.functions[segment].inputs[0].shape.push_back(other.functions[segment].inputs[0].shape[0]);
    CHECK(!cut_of(other, 0));
  }
  other = plan;  // makes more
  other.functions[5].outputs[0].shape.push_back(other.functions[5].outputs[0].shape[0]);
  CHECK(!cut_of(other, 0));
  other = plan;
  other.functions[1].steps[2].functions[0] = 3;
  CHECK(have_same_functions(plan, plan).ok());
  CHECK(!have_same_functions(plan, other).ok());
}

TEST_CASE("placements are read, and what is wrong with them is said") {
  Machine one(plan_of(kPlan)), two(plan_of(kPlan));
  const std::vector<Part> parts = {one.part("cpu"), two.part("gpu0")};
  const auto read = read_placement("main.3=gpu0,main.0=cpu", one.plan, parts);
  REQUIRE(read.ok());
  CHECK(*read == std::vector<uint32_t>{kAnyPart, kAnyPart, 0, kAnyPart, kAnyPart, 1});
  for (const char* bad : {"main.3", "main.9=gpu0", "main.3=gpu7", "main.*=gpu0", "=gpu0", "main.3="}) {
    CAPTURE(bad);
    CHECK(read_placement(bad, one.plan, parts).status().code == Code::Usage);
  }
}

TEST_CASE("what segments do follows from the shapes of the inputs") {
  const Plan plan = plan_of(kPlan);
  const std::vector<std::vector<int64_t>> shapes = {{10}};
  const auto work = work_of(plan, plan.functions[1], shapes);
  REQUIRE(work.ok());
  REQUIRE(work->segments.size() == 4);
  CHECK(work->segments[0].operations == 10);
  CHECK(work->segments[0].bytes == 80);
  CHECK(work->segments[1].arena == 40);
  CHECK(work->segments[3].input_shapes == std::vector<std::vector<int64_t>>{{10}, {10}});
  REQUIRE(work->values.size() == 5);
  CHECK(work->values[1].producer == 0);
  CHECK(work->values[1].readers == std::vector<uint32_t>{1, 3});
  CHECK(work->values[1].bytes == 40);
  CHECK(work->values[4].readers == std::vector<uint32_t>{kCaller});
  CHECK(!work_of(plan, plan.functions[1], {}).ok());
}

}  // namespace
}  // namespace mlc::ensemble
