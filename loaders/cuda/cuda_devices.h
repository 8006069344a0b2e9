// Devices of NVIDIA by CUDA's driver API. libcuda is opened when this is first asked, which may take a second and much memory, and
// may crash: a process that may not asks another one first (runtime/probe/devices.h).
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/device.h"

namespace mlc::cuda {

// NotFound if there is no libcuda; Unsupported, Resource if it refuses.
Result<std::vector<device::Info>> list_devices();

// The device of that identity, opened once for the process and kept: at its end drivers have threads of their own.
Result<device::Device*> open_device(std::string_view identity);

}  // namespace mlc::cuda
