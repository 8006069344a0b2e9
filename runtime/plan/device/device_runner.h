// Segments on a device. A binding is recorded once, with its inputs, launches and outputs, and submitted as long as its
// memory stays where it is; a run is one submission. Arrays of the caller that lie on the device are used there: a few recordings are
// kept for a binding, one for each set of places that its calls name.
#pragma once

#include <memory>
#include <vector>

#include "runtime/plan/device/device_constants.h"
#include "runtime/plan/device/device_states.h"
#include "runtime/plan/device/substitute.h"
#include "runtime/plan/execute/segment_runner.h"
#include "schema/plan/plan.h"

namespace mlc::exec {

class DeviceRunner final : public SegmentRunner, public StartingRunner {
 public:
  // All but what it is given outlive it; several may share a module. `weights` is shared by the sessions of the container on this device. `substitute` does what
  // the device cannot: sizes and loops beyond its limits (Unsupported), what it has no memory for, and everything once it is lost
  // (Resource); null: such calls fail.
  static Result<std::unique_ptr<DeviceRunner>> create(device::Device& device, std::shared_ptr<device::Module> module, const Plan& plan,
                                                      const Constants& constants, DeviceConstants& weights,
                                                      std::unique_ptr<Substitute> substitute = nullptr);
  ~DeviceRunner() override;

  const KernelSet& kernels() const override { return *module_; }
  Status run(const SegmentCall& call) override;
  StartingRunner* starting() override { return this; }
  Result<bool> start(const SegmentCall& call) override;
  Result<bool> wait(const SegmentCall& call, uint64_t timeout_ns) override;
  uint64_t arena_bytes() const override { return arena_ ? arena_->size() : 0; }
  uint64_t state_bytes(uint32_t state) const override { return states_.bytes(state); }
  Result<Bytes> read_state(uint32_t state) override { return states_.read(state); }
  void drop_state(uint32_t state) override { states_.drop(state); }

 private:
  using Memory = std::unique_ptr<device::Memory>;
  struct Ports {  // of a function
    std::vector<Memory> inputs, outputs;
    std::vector<device::Range> constants;  // per buffer
    bool constants_ready = false;
  };
  struct Placed;
  struct Take;

  DeviceRunner(device::Device& device, std::shared_ptr<device::Module> module, const Plan& plan, const Constants& constants,
               DeviceConstants& weights, std::unique_ptr<Substitute> substitute);
  static Placed& placed_of(const SegmentCall& call);
  Status run_on_device(const SegmentCall& call, Placed& placed);
  // What the device did not do for this reason, by the substitute if there is one.
  Status run_elsewhere(const SegmentCall& call, Placed& placed, Status why);
  Status run_by_substitute(const SegmentCall& call, Placed& placed, const Status& why);
  Result<Take*> prepare(const SegmentCall& call, Placed& placed);
  Status within_budget(const SegmentCall& call) const;
  Status acquire_constants(const SegmentCall& call);
  Status make_room(const SegmentCall& call);
  Status grow(Memory& memory, uint64_t bytes, device::MemoryKind kind, std::string_view what);
  Status record(const SegmentCall& call, Take& out);
  Status record_step(const SegmentCall& call, uint32_t step, device::Recorder& recorder);
  device::Range range_of(const SegmentCall& call, uint32_t buffer) const;
  Status begin(const SegmentCall& call);              // inputs and states are where the recordings read them
  Status end(const SegmentCall& call);                // outputs are where the call wants them
  Status submit(const SegmentCall& call, device::Recording& recording);
  Status fault_of(const SegmentCall& call, const device::Recording& recording) const;
  uint64_t deadline_ns(const SegmentCall& call) const;

  device::Device& device_;
  const std::shared_ptr<device::Module> module_;
  const Plan& plan_;
  const Constants& constants_;
  DeviceConstants& weights_;
  const std::unique_ptr<Substitute> substitute_;  // null: none
  Status not_derived_;                            // why the derived constants are not on the device
  std::unique_ptr<device::Queue> queue_;
  std::vector<Ports> ports_;  // per function
  Memory arena_, staging_, readback_;
  std::vector<Memory> derived_;
  DeviceLink link_;
  DeviceStates states_;
  uint64_t generation_ = 0;  // changes whenever memory moves
  uint64_t started_ns_ = 0;  // when the call that `start` began was submitted
};

}  // namespace mlc::exec
