#include "loaders/vulkan/vulkan_devices.h"

#include "loaders/vulkan/memory.h"
#include "loaders/vulkan/module.h"
#include "loaders/vulkan/queue.h"
#include "loaders/vulkan/recorder.h"
#include "runtime/device_api.h"

namespace mlc::vulkan {
namespace {

struct Api {
  using Context = vulkan::Context;
  using Library = vulkan::Library;
  using Memory = VulkanMemory;
  using Module = VulkanModule;
  using Queue = VulkanQueue;
  using Recorder = VulkanRecorder;
  static constexpr const char* kName = "Vulkan";
  static Result<std::vector<Physical>> physical_devices(const vulkan::Library& library) { return vulkan::physical_devices(library); }
};

}  // namespace

Result<std::vector<device::Info>> list_devices() { return device::list_devices_by<Api>(); }

Result<device::Device*> open_device(std::string_view identity) { return device::open_device_by<Api>(identity); }

}  // namespace mlc::vulkan
