#include "loaders/vulkan/library.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/system/shared_library.h"
#include "loaders/vulkan/results.h"

namespace mlc::vulkan {
namespace {

const char* const kFile = library_name("libvulkan.so.1", "vulkan-1.dll");

using GetInstanceProcAddr = AnyFunction (*)(Instance, const char*);

Status missing(const char* name) { return Status(Code::Unsupported, "{} has no vk{}: too old", kFile, name); }

Result<Library> make() {
  std::string why;
  void* const file = open_shared_library(kFile, &why);
  if (!file) return Status(Code::NotFound, "{}", why);
  const auto find = reinterpret_cast<GetInstanceProcAddr>(find_symbol(file, "vkGetInstanceProcAddr"));
  if (!find) return missing("GetInstanceProcAddr");
  const auto create = reinterpret_cast<Code32 (*)(const InstanceCreateInfo*, const void*, Instance*)>(find(nullptr, "vkCreateInstance"));
  const auto get_version = reinterpret_cast<Code32 (*)(uint32_t*)>(find(nullptr, "vkEnumerateInstanceVersion"));
  if (!create) return missing("CreateInstance");
  uint32_t found = version(1, 0);
  if (!get_version) return missing("EnumerateInstanceVersion");
  MLC_RETURN_IF_ERROR(status_of(get_version(&found), "vkEnumerateInstanceVersion"));
  if (found < version(1, 1)) return Status(Code::Unsupported, "{} is of version {}.{}, 1.1 expected", kFile, major_of(found), minor_of(found));
  ApplicationInfo application;
  application.api_version = std::min(found, version(1, 3));
  InstanceCreateInfo info;
  info.application = &application;
  Library out;
  MLC_RETURN_IF_ERROR(status_of(create(&info, nullptr, &out.instance), "vkCreateInstance"));
  if (!out.instance) return Status(Code::Unsupported, "vkCreateInstance gave no instance");
#define MLC_VULKAN_FIND(result, name, parameters)                                              \
  out.call.name = reinterpret_cast<result(*) parameters>(find(out.instance, "vk" #name)); \
  if (!out.call.name) return missing(#name);
  MLC_VULKAN_INSTANCE_FUNCTIONS(MLC_VULKAN_FIND)
#undef MLC_VULKAN_FIND
#define MLC_VULKAN_FIND(result, name, parameters) out.call.name = reinterpret_cast<result(*) parameters>(find(out.instance, "vk" #name));
  MLC_VULKAN_OPTIONAL_FUNCTIONS(MLC_VULKAN_FIND)
#undef MLC_VULKAN_FIND
  return out;
}

}  // namespace

Result<const Library*> Library::open() {
  static std::mutex mu;
  static std::optional<Result<Library>>& made = *new std::optional<Result<Library>>();  // used by threads that end after statics do
  const std::lock_guard lock(mu);
  if (!made) made.emplace(make());
  if (!made->ok()) return made->status();
  return &**made;
}

Status find_device_functions(const Library& library, DeviceHandle device, DeviceFunctions& out) {
#define MLC_VULKAN_FIND(result, name, parameters)                                                        \
  out.name = reinterpret_cast<result(*) parameters>(library.call.GetDeviceProcAddr(device, "vk" #name)); \
  if (!out.name) return missing(#name);
  MLC_VULKAN_DEVICE_FUNCTIONS(MLC_VULKAN_FIND)
#undef MLC_VULKAN_FIND
  return ok();
}

}  // namespace mlc::vulkan
