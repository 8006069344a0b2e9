// Bytes between the host and a device beside its runs: constants, states, arrays of the application. They go in pieces through
// memory that both reach, which is kept. One thread at a time.
#pragma once

#include <array>
#include <memory>

#include "base/work_meter.h"
#include "runtime/device.h"

namespace mlc::exec {

class DeviceLink {
 public:
  // `device` outlives it.
  explicit DeviceLink(device::Device& device) : device_(device) {}

  // All of these wait until it is done, and give the device up if that takes too long. Cancelled by the meter, between pieces;
  // null: not at all. Of ranges of the device's own memory, which no submission is using.
  Status upload(const device::Range& to, const std::byte* from, WorkMeter* meter = nullptr);
  Status download(std::byte* to, const device::Range& from);
  Status copy(const device::Range& to, const device::Range& from);
  // To zeros. Up to three bytes behind the range become zeros as well.
  Status clear(const device::Range& range);

  device::Device& device() const { return device_; }

 private:
  Status room(std::unique_ptr<device::Memory>& memory, device::MemoryKind kind);
  // Submits what `record` records once the submission before it is done, and does not wait; settle() does.
  template <class Record>
  Status begin(const Record& record);
  Status settle();
  // Both.
  template <class Record>
  Status submit(const Record& record);
  // upload() but for the wait at its end.
  Status send(const device::Range& to, const std::byte* from, WorkMeter* meter);

  device::Device& device_;
  std::array<std::unique_ptr<device::Memory>, 2> staging_;
  std::unique_ptr<device::Memory> readback_;  // null: not needed yet, as are those above and the next
  std::unique_ptr<device::Queue> queue_;
  std::unique_ptr<device::Recording> under_way_;  // submitted and not waited for
};

// Waits for what was submitted last, and gives the device up if that takes longer than `deadline_ns`.
Status wait_for(device::Device& device, device::Queue& queue, uint64_t deadline_ns);
// The device did not answer for so long: it is given up, and this is why.
Status give_up(device::Device& device, uint64_t after_ns);

}  // namespace mlc::exec
