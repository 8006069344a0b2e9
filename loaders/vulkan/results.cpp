#include "loaders/vulkan/results.h"

namespace mlc::vulkan {

std::string_view name_of_code(Code32 code) {
  struct Row {
    Code32 code;
    std::string_view name;
  };
  static constexpr Row kRows[] = {
      {1, "VK_NOT_READY"}, {2, "VK_TIMEOUT"}, {3, "VK_EVENT_SET"}, {4, "VK_EVENT_RESET"}, {5, "VK_INCOMPLETE"},
      {-1, "VK_ERROR_OUT_OF_HOST_MEMORY"}, {-2, "VK_ERROR_OUT_OF_DEVICE_MEMORY"}, {-3, "VK_ERROR_INITIALIZATION_FAILED"},
      {-4, "VK_ERROR_DEVICE_LOST"}, {-5, "VK_ERROR_MEMORY_MAP_FAILED"}, {-6, "VK_ERROR_LAYER_NOT_PRESENT"},
      {-7, "VK_ERROR_EXTENSION_NOT_PRESENT"}, {-8, "VK_ERROR_FEATURE_NOT_PRESENT"}, {-9, "VK_ERROR_INCOMPATIBLE_DRIVER"},
      {-10, "VK_ERROR_TOO_MANY_OBJECTS"}, {-11, "VK_ERROR_FORMAT_NOT_SUPPORTED"}, {-12, "VK_ERROR_FRAGMENTED_POOL"},
      {-13, "VK_ERROR_UNKNOWN"}, {-1000012000, "VK_ERROR_INVALID_SHADER_NV"}, {-1000069000, "VK_ERROR_OUT_OF_POOL_MEMORY"},
      {-1000161000, "VK_ERROR_FRAGMENTATION"}, {1000297000, "VK_PIPELINE_COMPILE_REQUIRED"},
  };
  for (const Row& r : kRows)
    if (r.code == code) return r.name;
  return "unknown";
}

Status status_of(Code32 code, const char* call) {
  if (code == kSuccess) return ok();
  const bool lacking = code == kErrorOutOfHostMemory || code == kErrorOutOfDeviceMemory || code == kErrorDeviceLost ||
                       code == kErrorTooManyObjects || code == kErrorMemoryMapFailed || code == kErrorOutOfPoolMemory;
  return Status(lacking ? Code::Resource : Code::Unsupported, "{}: {} ({})", call, name_of_code(code), code);
}

}  // namespace mlc::vulkan
