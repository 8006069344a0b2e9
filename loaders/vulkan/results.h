// What a call of Vulkan answered, as a Status.
#pragma once

#include <string_view>

#include "base/status.h"
#include "loaders/vulkan/vulkan_abi.h"

namespace mlc::vulkan {

// "VK_ERROR_DEVICE_LOST"; of a number that is not known, "unknown".
std::string_view name_of_code(Code32 code);

// OK for 0 and nothing else. Resource where memory or the device is lacking; Unsupported for all other codes: another
// variant may do.
Status status_of(Code32 code, const char* call);

}  // namespace mlc::vulkan
