// The states of a session on a device: in its memory from the first call that uses them on, so that runs carry them over no link.
// A call that a substitute does takes those that it uses along; they come back when the device wants them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/device/device_link.h"
#include "runtime/plan/execute/segment_runner.h"

namespace mlc::exec {

class DeviceStates {
 public:
  // `link` outlives it.
  DeviceStates(DeviceLink& link, uint32_t count) : link_(link), states_(count) {}

  using Uses = std::span<const Executor::Binding::StateUse>;
  // Memory of the device for states of these lengths. `moved`: for one of them it is another than before.
  Status make_room(Uses uses, bool& moved);
  // What the call is to read is in that memory. What of it is newer elsewhere stays there as well, until `keep`.
  Status bring(const SegmentCall& call);
  // The device has written what the call writes; or it has begun to, and how far it came is unknown.
  void keep(Uses uses);
  void spoil(Uses uses);

  // The same for a call that `other` does.
  Status bring_to(Executor& other, const SegmentCall& call);
  void keep_at(Executor& other, Uses uses);

  device::Range range(uint32_t state, uint64_t bytes) const { return {states_[state].memory.get(), 0, bytes}; }
  uint64_t bytes(uint32_t state) const { return states_[state].bytes; }  // 0: no call has used it
  Result<Bytes> read(uint32_t state);  // valid until it is read again, kept or dropped
  void drop(uint32_t state);

 private:
  struct State {
    std::unique_ptr<device::Memory> memory;
    uint64_t bytes = 0;         // 0: zeros, of whatever length the next call wants
    Executor* other = nullptr;  // that has it instead of the device
    bool is_spoilt = false;
    AlignedBlock on_host;  // what was read; counts for nothing
  };

  DeviceLink& link_;
  std::vector<State> states_;
};

}  // namespace mlc::exec
