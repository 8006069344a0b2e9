// What stays on a device between runs: states, and arrays of the caller. And runs that nobody waits for.
#include <array>

#include "tests/support/device_rig.h"

namespace mlc::exec {
namespace {

using namespace test_rig;
using Answer = std::vector<float>;

// The k-th answer of "keep", which sums what it is given: 0, 1, 2, 3.
Answer kept(int k) { return {0, float(k), float(2 * k), float(3 * k)}; }

Answer state_of(Executor& e) {
  const auto state = e.state(0);
  REQUIRE_MESSAGE(state.ok(), (state.ok() ? std::string() : state.status().message));
  CHECK(e.state_type(0) == DType::F32);
  const auto* values = reinterpret_cast<const float*>(state->data());
  return Answer(values, values + state->size() / 4);
}

std::optional<Bytes> bytes_of_all(const Answer& values) { return Bytes(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4); }

TEST_CASE("states stay on the device: a run carries its inputs and outputs, and no more") {
  DeviceRig rig;
  Answer y;
  for (int k = 1; k <= 5; ++k) {
    const uint64_t up = rig.device.uploaded, down = rig.device.downloaded, submissions = rig.device.submissions;
    REQUIRE(rig.run("keep", 4, y).ok());
    CHECK(y == kept(k));
    CHECK(rig.device.uploaded - up == 16);
    CHECK(rig.device.downloaded - down == 16);
    CHECK(rig.device.submissions - submissions == (k == 1 ? 2 : 1));  // at first it is made zeros
  }
  CHECK(rig.device.recordings == 2);
  CHECK(rig.executor->state_bytes(0) == 16);
  CHECK(state_of(*rig.executor) == kept(5));
  REQUIRE(rig.run("keep", 4, y).ok());
  CHECK(y == kept(6));
  rig.executor->reset_states();
  CHECK(rig.executor->state_bytes(0) == 0);
  CHECK(state_of(*rig.executor).empty());
  REQUIRE(rig.run("keep", 4, y).ok());
  CHECK(y == kept(1));
  CHECK(rig.host.launches == 0);
  CHECK(rig.device.races.empty());
}

TEST_CASE("states that are set go to the device once, with the run that wants them") {
  DeviceRig rig;
  Answer y;
  const Answer from = {10, 20, 30, 40};
  const std::array values = {bytes_of_all(from)};
  for (int round = 0; round < 2; ++round) {
    REQUIRE(rig.executor->set_states(values).ok());
    CHECK(state_of(*rig.executor) == from);
    REQUIRE(rig.run("keep", 4, y).ok());
    CHECK(y == Answer{10, 21, 32, 43});
    const uint64_t up = rig.device.uploaded;
    REQUIRE(rig.run("keep", 4, y).ok());
    CHECK(y == Answer{10, 22, 34, 46});
    CHECK(rig.device.uploaded - up == 16);
  }
  const std::array<std::optional<Bytes>, 1> as_it_is = {std::nullopt}, zeros = {Bytes()};
  REQUIRE(rig.executor->set_states(as_it_is).ok());
  CHECK(state_of(*rig.executor) == Answer{10, 22, 34, 46});
  REQUIRE(rig.executor->set_states(zeros).ok());
  REQUIRE(rig.run("keep", 4, y).ok());
  CHECK(y == kept(1));
  const Answer longer(5, 1.0f);
  const std::array wrong = {bytes_of_all(longer)};
  REQUIRE(rig.executor->set_states(wrong).ok());
  CHECK(rig.run("keep", 4, y).code == Code::InputMismatch);
}

TEST_CASE("a device that is lost takes its states along: runs that need them fail until they are set anew") {
  DeviceRig rig;
  Answer y;
  REQUIRE(rig.run("keep", 4, y).ok());
  rig.device.loses = true;
  CHECK(rig.run("keep", 4, y).code == Code::Resource);
  CHECK(rig.run("keep", 4, y).code == Code::Resource);
  CHECK(rig.executor->state(0).status().code == Code::Resource);
  CHECK(rig.host.launches == 0);
  rig.check_sum(8);  // what needs none goes on
  rig.executor->reset_states();
  for (int k = 1; k <= 2; ++k) {
    REQUIRE(rig.run("keep", 4, y).ok());
    CHECK(y == kept(k));
  }
  CHECK(state_of(*rig.executor) == kept(2));
}

TEST_CASE("each wait loses the device: a state is that of the last run that was right, or said to be gone") {
  for (uint64_t n = 1; n < 10; ++n) {
    DeviceRig rig;
    rig.device.lose_at_wait = n;
    Answer y;
    int right = 0;
    for (int k = 1; k <= 4; ++k) {
      const Status s = rig.run("keep", 4, y);
      if (s.ok()) CHECK(y == kept(++right));
      else CHECK(s.code == Code::Resource);
    }
    const bool is_lost = !rig.device.lost.empty();
    CHECK(right == (!is_lost || n <= 2 ? 4 : static_cast<int>(n) - 2));  // the first two waits have no state to lose
    if (!is_lost) return;
  }
  FAIL("there are not so many waits");
}

// Floats in memory of the device.
struct OnDevice {
  std::unique_ptr<device::Memory> memory;
  device::Range range;
  OnDevice(FakeDevice& d, const Answer& values) : memory(d.allocate(values.size() * 4, device::MemoryKind::Local).value()), range{memory.get(), 0, values.size() * 4} {
    std::memcpy(FakeDevice::bytes(range).data(), values.data(), values.size() * 4);
  }
  Answer values() const {
    Answer out(range.length / 4);
    std::memcpy(out.data(), FakeDevice::bytes(range).data(), range.length);
    return out;
  }
};

Status run_there(DeviceRig& rig, const OnDevice& from, OnDevice& to) {
  const auto n = static_cast<int64_t>(from.range.length / 4);
  InputArg in{DType::F32, {&n, 1}, nullptr, from.range.length};
  in.on_device = &from.range;
  OutputArg out{nullptr, to.range.length};
  out.on_device = &to.range;
  MLC_RETURN_IF_ERROR(rig.executor->run(*rig.plan.find("sum"), {&in, 1}, {&out, 1}));
  CHECK(out.data == nullptr);
  CHECK(out.bytes == from.range.length);
  return ok();
}

TEST_CASE("arrays of the caller on the device are used there, and a few recordings serve buffers in turns") {
  DeviceRig rig;
  OnDevice a(rig.device, {1, 2, 3}), b(rig.device, {0, 0, 0});
  Answer want = a.values();
  const auto step = [&](OnDevice& from, OnDevice& to) {
    REQUIRE(run_there(rig, from, to).ok());
    for (float& v : want) v = 2 * v + 0.5f;
    CHECK(to.values() == want);
  };
  step(a, b);
  const uint64_t up = rig.device.uploaded;
  for (int k = 0; k < 3; ++k) step(b, a), step(a, b);
  CHECK(rig.device.uploaded == up);
  CHECK(rig.device.downloaded == 0);
  const uint64_t recordings = rig.device.recordings;
  for (int k = 0; k < 3; ++k) step(b, a), step(a, b);
  CHECK(rig.device.recordings == recordings);
  // More places than are kept, on the host and back, and memory that is gone.
  for (int k = 0; k < 8; ++k) {
    OnDevice c(rig.device, {0, 0, 0});
    step(k % 2 ? a : b, c);
    step(c, k % 2 ? b : a);
    rig.check_sum(3);
  }
  CHECK(rig.device.races.empty());
  OnDevice small(rig.device, {0, 0});
  CHECK(run_there(rig, a, small).code == Code::InputMismatch);
}

TEST_CASE("what a device cannot do with arrays of its own the processor does, and they are where they should be") {
  DeviceRig rig;
  rig.device.limit.loop_budget = 2;
  OnDevice a(rig.device, {1, 2, 3}), b(rig.device, {0, 0, 0});
  REQUIRE(run_there(rig, a, b).ok());
  CHECK(b.values() == Answer{2.5f, 4.5f, 6.5f});
  CHECK(rig.host.launches == 2);
  CHECK(rig.lines.size() == 1);
  rig.device.limit.loop_budget = 0;
  DeviceRig lost;
  OnDevice c(lost.device, {1, 2, 3}), d(lost.device, {0, 0, 0});
  lost.device.loses = true;
  CHECK(run_there(lost, c, d).code == Code::Resource);
}

// A run of "keep" or "sum" that is begun.
struct Begun {
  Answer x = {0, 1, 2, 3};
  int64_t n = 4;
  InputArg in{DType::F32, {&n, 1}, x.data(), 16};
  OutputArg out;
  Result<bool> start(DeviceRig& rig, const char* name, CancelFlag* cancelled = nullptr) {
    return rig.executor->start(*rig.plan.find(name), {&in, 1}, {&out, 1}, {cancelled, std::nullopt});
  }
  Result<bool> wait(DeviceRig& rig, uint64_t ns = 0) { return rig.executor->wait(ns, {&out, 1}); }
  Answer answer() const { return Answer(static_cast<const float*>(out.data), static_cast<const float*>(out.data) + out.bytes / 4); }
};

TEST_CASE("a run that is begun is submitted, goes on until it is done, and gives what run gives") {
  DeviceRig rig;
  rig.check_sum(4);  // the derived constants are there
  rig.device.hangs = true;
  Begun sum;
  const uint64_t submissions = rig.device.submissions;
  REQUIRE(sum.start(rig, "sum").value());
  CHECK(rig.device.submissions == submissions + 1);
  for (int k = 0; k < 3; ++k) CHECK(!sum.wait(rig).value());
  rig.device.hangs = false;
  CHECK(sum.wait(rig).value());
  CHECK(sum.answer() == Answer{0.5f, 2.5f, 4.5f, 6.5f});
  for (int k = 1; k <= 3; ++k) {
    Begun keep;
    REQUIRE(keep.start(rig, "keep").value());
    CHECK(keep.wait(rig).value());
    CHECK(keep.answer() == kept(k));
  }
  CHECK(state_of(*rig.executor) == kept(3));
  CHECK(rig.host.launches == 0);
}

TEST_CASE("what cannot be begun is left to run, and a failure on the way is told or made good by the processor") {
  DeviceRig limited;
  limited.device.limit.loop_budget = 1;
  Begun sum;
  CHECK(!sum.start(limited, "sum").value());
  limited.check_sum(4);
  CHECK(limited.host.launches == 2);

  DeviceRig lost;
  lost.check_sum(4);
  Begun again;
  REQUIRE(again.start(lost, "sum").value());
  lost.device.loses = true;
  CHECK(again.wait(lost).value());
  CHECK(again.answer() == Answer{0.5f, 2.5f, 4.5f, 6.5f});
  CHECK(lost.lines.size() == 1);

  DeviceRig faulty;
  faulty.check_sum(4);
  faulty.device.kernels[0].run = [](auto, auto) { return uint32_t{MLRUN_FAULT_INDEX}; };
  Begun bad;
  REQUIRE(bad.start(faulty, "sum").value());
  CHECK(bad.wait(faulty).status().code == Code::InputMismatch);

  DeviceRig cancelled;
  CancelFlag flag;
  flag.set();
  Begun never;
  CHECK(never.start(cancelled, "sum", &flag).status().code == Code::Cancelled);
  Begun wrong;
  wrong.in.dtype = DType::I32;
  CHECK(wrong.start(cancelled, "sum").status().code == Code::InputMismatch);
}

}  // namespace
}  // namespace mlc::exec
