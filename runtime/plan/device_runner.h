// Segments on a device. A binding is recorded once, with its inputs, launches and outputs, and submitted as long as its
// memory stays where it is; a run is one submission.
#pragma once

#include <memory>
#include <vector>

#include "runtime/plan/device_constants.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/segment_runner.h"
#include "runtime/plan/substitute.h"

namespace mlc::exec {

class DeviceRunner final : public SegmentRunner {
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
  uint64_t arena_bytes() const override { return arena_ ? arena_->size() : 0; }

 private:
  using Memory = std::unique_ptr<device::Memory>;
  struct Ports {  // of a function
    std::vector<Memory> inputs, outputs;
    std::vector<device::Range> constants;  // per buffer
    bool constants_ready = false;
  };
  struct Placed;

  DeviceRunner(device::Device& device, std::shared_ptr<device::Module> module, const Plan& plan, const Constants& constants,
               DeviceConstants& weights, std::unique_ptr<Substitute> substitute);
  Status run_on_device(const SegmentCall& call, Placed& placed);
  Status prepare(const SegmentCall& call, Placed& placed);
  Status within_budget(const SegmentCall& call) const;
  Status acquire_constants(const SegmentCall& call);
  Status make_room(const SegmentCall& call);
  Status grow(Memory& memory, uint64_t bytes, device::MemoryKind kind, std::string_view what);
  Status record(const SegmentCall& call, Placed& out);
  Status record_step(const SegmentCall& call, uint32_t step, device::Recorder& recorder);
  device::Range range_of(const SegmentCall& call, uint32_t buffer) const;
  Status submit(const SegmentCall& call, device::Recording& recording);
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
  std::vector<Memory> states_, derived_;
  uint64_t generation_ = 0;  // changes whenever memory moves
};

}  // namespace mlc::exec
