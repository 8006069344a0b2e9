// The devices that CUDA shows, and what each of them says it can do.
#pragma once

#include <vector>

#include "base/status.h"
#include "loaders/cuda/library.h"
#include "runtime/device.h"

namespace mlc::cuda {

struct Physical {
  DeviceNumber number = 0;
  device::Info info;
  device::Limits limits;
  uint32_t capability = 0;  // 90 for 9.0
  uint32_t lanes = 0, rows = 0;  // of a block; of a grid along y
  uint32_t shared_bytes = 0, shared_optin_bytes = 0;  // of a block: without asking, and at most
};

// Those that can run kernels of ours at all, in the driver's order.
Result<std::vector<Physical>> physical_devices(const Library& library);

}  // namespace mlc::cuda
