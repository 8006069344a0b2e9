// Devices by Vulkan, version 1.1 and later. libvulkan is opened when this is first asked, and drivers with it: a process that
// may not crash or hang asks another one first (runtime/probe/devices.h).
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/device.h"

namespace mlc::vulkan {

// NotFound if there is no libvulkan; Unsupported, Resource if it refuses.
Result<std::vector<device::Info>> list_devices();

// The device of that identity, opened once for the process and kept: at its end drivers have threads of their own.
Result<device::Device*> open_device(std::string_view identity);

}  // namespace mlc::vulkan
