// What a device cannot do is done by another executor, with the right answers and a line, or fails where that is forbidden.
#include "runtime/plan/device/substitute.h"

#include "tests/support/device_rig.h"

namespace mlc::exec {
namespace {

using namespace test_rig;
using Rig = DeviceRig;

TEST_CASE("a device that can do everything is used, and nothing is told") {
  Rig rig;
  rig.check_sum(8);
  rig.check_sum(300);
  CHECK(rig.host.launches == 0);
  CHECK(rig.lines.empty());
}

TEST_CASE("each allocation, recording and submission fails once, each wait loses the device: the answers are right, and it is told") {
  for (uint64_t FakeDevice::* what : {&FakeDevice::fail_allocation, &FakeDevice::fail_recording, &FakeDevice::fail_submission, &FakeDevice::lose_at_wait}) {
    uint64_t failed = 0;
    for (uint64_t n = 1; n < 30; ++n) {
      Rig rig;
      rig.device.*what = n;
      for (const int64_t size : {8, 300, 8}) rig.check_sum(size);
      const bool is_due = rig.device.*what == 0;
      CHECK(rig.lines.size() == (is_due ? 1 : 0));
      CHECK((rig.host.launches > 0) == is_due);
      if (!is_due) break;
      ++failed;
    }
    CHECK(failed >= 4);
    CHECK(failed < 29);
  }
}

TEST_CASE("sizes beyond the limits of a device go to the processor, others stay") {
  Rig rig;
  rig.device.limit.range_bytes = 1000;
  rig.check_sum(8);
  const uint64_t submissions = rig.device.submissions;
  for (int k = 0; k < 3; ++k) rig.check_sum(300);
  CHECK(rig.host.launches == 6);
  CHECK(rig.device.submissions == submissions);
  REQUIRE(rig.lines.size() == 1);
  CHECK(rig.lines[0] == "'sum' runs on the processor (host): first: a buffer of 1200 bytes");
  rig.check_sum(8);
  CHECK(rig.device.submissions == submissions + 1);
  rig.check_sum(400);
  CHECK(rig.lines.size() == 1);
}

TEST_CASE("loops that a device would end are not begun there") {
  Rig rig;
  rig.device.limit.loop_budget = 100;
  rig.check_sum(100);
  CHECK(rig.host.launches == 0);
  rig.check_sum(101);
  CHECK(rig.host.launches == 2);
  REQUIRE(rig.lines.size() == 1);
  CHECK(rig.lines[0].find("loops of first may make 101 turns, fake ends them after 100") != std::string::npos);

  Rig unknown(plan_text(""));
  unknown.check_sum(4);
  CHECK(unknown.host.launches == 0);  // a device without such a budget does them all
  unknown.device.limit.loop_budget = 100;
  unknown.check_sum(4);
  CHECK(unknown.host.launches == 2);
  CHECK(unknown.lines[0].find("may make any number of turns") != std::string::npos);
}

TEST_CASE("a launch of no tiles may have loops of any length") {
  std::string text = plan_text("");
  for (size_t at = 0; (at = text.find("tiles $4", at)) != text.npos;) text.replace(at, 8, "tiles $5");
  Rig rig(text);
  rig.device.limit.loop_budget = 1;
  std::vector<float> y;
  REQUIRE(rig.run("sum", 4, y).ok());
  CHECK(rig.lines.empty());
}

TEST_CASE("where the processor is forbidden the run fails, with both reasons, and the device goes on") {
  Rig rig;
  rig.forbidden = true;
  rig.device.limit.range_bytes = 1000;
  std::vector<float> y;
  for (int k = 0; k < 2; ++k) {
    const Status s = rig.run("sum", 300, y);
    CHECK(s.code == Code::NoVariant);
    CHECK(s.message == "'sum': first: a buffer of 1200 bytes; 'fake' is required");
  }
  CHECK(rig.host.launches == 0);
  CHECK(rig.lines.empty());
  rig.check_sum(8);
}

TEST_CASE("a device that hangs is given up, and the processor does this run and all that follow") {
  Rig rig;
  rig.check_sum(8);
  rig.device.hangs = true;
  rig.check_sum(8);
  CHECK(!rig.device.lost.empty());
  rig.check_sum(300);
  REQUIRE(rig.lines.size() == 1);
  CHECK(rig.lines[0].find("the processor (host) goes on in place of the device") != std::string::npos);
}

TEST_CASE("states go along, from the device to the processor and back") {
  std::vector<float> y;
  Rig limited;
  limited.device.limit.loop_budget = 3;
  for (int k = 1; k <= 3; ++k) {
    REQUIRE(limited.run("keep", 4, y).ok());
    CHECK(y == std::vector<float>{0, float(k), float(2 * k), float(3 * k)});
  }
  CHECK(limited.host.launches == 3);

  Rig failing;
  for (int k = 1; k <= 6; ++k) {
    if (k % 2 == 0) failing.device.fail_submission = 1;
    REQUIRE(failing.run("keep", 4, y).ok());
    CHECK(y == std::vector<float>{0, float(k), float(2 * k), float(3 * k)});
  }
  CHECK(failing.host.launches == 3);
  failing.executor->reset_states();
  failing.device.loses = true;
  REQUIRE(failing.run("keep", 4, y).ok());
  CHECK(y == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("a run that was cancelled is cancelled, whoever does it") {
  Rig rig;
  rig.device.limit.range_bytes = 1000;
  CancelFlag cancelled;
  cancelled.set();
  std::vector<float> y;
  CHECK(rig.run("sum", 300, y, &cancelled).code == Code::Cancelled);
  rig.check_sum(300);
}

TEST_CASE("a fault of a kernel is no reason to go elsewhere") {
  Rig rig;
  rig.device.kernels[0].run = [](auto, auto) { return uint32_t{MLRUN_FAULT_INDEX}; };
  std::vector<float> y;
  CHECK(rig.run("sum", 8, y).code == Code::InputMismatch);
  CHECK(rig.host.launches == 0);
}

}  // namespace
}  // namespace mlc::exec
