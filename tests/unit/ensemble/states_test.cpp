// States of a session on several devices stay with the part that used them last, and go where they are needed.
#include <array>

#include "runtime/ensemble/parts_runner.h"
#include "tests/support/device_rig.h"

namespace mlc::ensemble {
namespace {

using namespace exec::test_rig;
using exec::Executor;

// A device, which "keep" begins on, beside the processor.
struct Composed {
  DeviceRig rig;
  std::unique_ptr<Executor> on_device, whole;
  std::shared_ptr<Ensemble> ensemble;
  std::vector<std::string> lines;

  explicit Composed(bool is_shared = false) {
    auto runner = exec::DeviceRunner::create(rig.device, std::make_unique<FakeDevice::FakeModule>(rig.device), rig.plan, rig.tensors, *rig.weights).value();
    on_device = Executor::create(rig.plan, std::move(runner), *rig.pool, exec::Limits()).value();
    std::vector<Part> parts = {{"gpu0", "fake", nullptr, &rig.plan, on_device.get(), &rig.device}, {"cpu", "host", nullptr, &rig.plan, rig.other.get(), nullptr}};
    ensemble = std::make_shared<Ensemble>(std::move(parts));
    whole = session(is_shared);
  }
  std::unique_ptr<Executor> session(bool is_shared) {
    auto both = PartsRunner::create(ensemble, std::vector<Place>(rig.plan.functions.size()), is_shared, [this](const std::string& line) { lines.push_back(line); }).value();
    return Executor::create(rig.plan, std::move(both), *rig.pool, exec::Limits()).value();
  }
  std::vector<float> keep() { return keep(*whole); }
  std::vector<float> keep(Executor& by) {
    std::vector<float> x = {0, 1, 2, 3};
    const int64_t n = 4;
    const exec::InputArg in{DType::F32, {&n, 1}, x.data(), 16};
    exec::OutputArg out;
    const Status s = by.run(*rig.plan.find("keep"), {&in, 1}, {&out, 1});
    if (!s.ok()) return {-1};
    return {static_cast<const float*>(out.data), static_cast<const float*>(out.data) + 4};
  }
  std::vector<float> state() {
    const auto bytes = whole->state(0);
    if (!bytes.ok()) return {-1};
    return {reinterpret_cast<const float*>(bytes->data()), reinterpret_cast<const float*>(bytes->data() + bytes->size())};
  }
};
std::vector<float> kept(int k) { return {0, float(k), float(2 * k), float(3 * k)}; }

TEST_CASE("sessions that share the parts have states of their own") {
  Composed c(true);
  const auto other = c.session(true);
  CHECK(c.keep() == kept(1));
  CHECK(c.keep() == kept(2));
  CHECK(c.keep(*other) == kept(1));
  CHECK(c.keep() == kept(3));
  CHECK(c.state() == kept(3));
  CHECK(other->state_bytes(0) == 16);
  c.whole->reset_states();
  CHECK(c.keep(*other) == kept(2));
  CHECK(c.keep() == kept(1));
}

TEST_CASE("a state stays with its part, and goes along when the call moves") {
  Composed c;
  CHECK(c.keep() == kept(1));
  const uint64_t up = c.rig.device.uploaded, down = c.rig.device.downloaded;
  CHECK(c.keep() == kept(2));
  CHECK(c.rig.device.uploaded - up == 16);  // the input
  CHECK(c.rig.device.downloaded - down == 16);
  CHECK(c.state() == kept(2));
  c.rig.device.limit.loop_budget = 1;  // from here on the processor does it
  CHECK(c.keep() == kept(3));
  CHECK(c.keep() == kept(4));
  CHECK(c.rig.host.launches == 2);
  CHECK(c.lines.size() == 1);
  CHECK(c.state() == kept(4));
  CHECK(c.whole->state_bytes(0) == 16);
  c.whole->reset_states();
  CHECK(c.whole->state_bytes(0) == 0);
  CHECK(c.keep() == kept(1));
}

TEST_CASE("a state that is set goes to the part that wants it, and one of a device that is lost is gone") {
  Composed c;
  const std::vector<float> from = {5, 5, 5, 5};
  const std::array<std::optional<Bytes>, 1> values = {std::as_bytes(std::span(from))};
  REQUIRE(c.whole->set_states(values).ok());
  CHECK(c.state() == from);
  CHECK(c.keep() == std::vector<float>{5, 6, 7, 8});
  c.rig.device.loses = true;
  CHECK(c.keep() == std::vector<float>{-1});
  CHECK(c.state() == std::vector<float>{-1});
  REQUIRE(c.whole->set_states(values).ok());
  CHECK(c.keep() == std::vector<float>{5, 6, 7, 8});
  CHECK(c.keep() == std::vector<float>{5, 7, 9, 11});
}

}  // namespace
}  // namespace mlc::ensemble
