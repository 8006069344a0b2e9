// The tensors of a container in the memory of a device: uploaded once, at first use, for all sessions and variants
// of the container on that device. They are the stored bytes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/plan/device/device_link.h"
#include "runtime/plan/execute/executor.h"

namespace mlc::exec {

class DeviceConstants {
 public:
  // `device` outlives it.
  explicit DeviceConstants(device::Device& device) : link_(device) {}

  struct Wanted {
    uint32_t tensor = 0, copy = 0;
    uint64_t bytes = 0;
    device::Range at;  // filled: as long as this object
  };
  // Resource if they do not fit; what came before is there then. Cancelled by the meter, between pieces. Thread-safe.
  Status acquire(std::span<Wanted> wanted, const Constants& constants, WorkMeter& meter);

 private:
  std::mutex mu_;
  DeviceLink link_;                                               // guarded by mu_, as are all that follow
  std::map<std::pair<uint32_t, uint32_t>, device::Range> found_;
  std::vector<std::unique_ptr<device::Memory>> blocks_;
};

}  // namespace mlc::exec
