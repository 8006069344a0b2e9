// The devices that Vulkan shows, and what each of them says it can do.
#pragma once

#include <vector>

#include "base/status.h"
#include "loaders/vulkan/library.h"
#include "runtime/device.h"

namespace mlc::vulkan {

struct Physical {
  PhysicalDevice handle = nullptr;
  int32_t number = 0;  // among those that the driver shows
  device::Info info;
  device::Limits limits;
  uint32_t api = 0;           // version()
  uint32_t queue_family = 0;  // one that computes
  uint32_t work_group_rows = 0;  // the most along y
  uint32_t work_group_size[3] = {}, invocations = 0;
  uint32_t subgroup = 0;      // lanes, where it can be picked and all of them are there; else 0
  uint32_t least_subgroup = 0, most_subgroup = 0, most_subgroups = 0;  // lanes that can be picked, and subgroups of a block; zero like `subgroup`
  uint32_t storage_buffers = 0, push_bytes = 0, shared_bytes = 0, allocations = 0;
  MemoryProperties memory{};
  std::vector<const char*> extensions;  // to be switched on for what is in `info.facts`

  // 0 for flags that are off and for what is not known.
  int64_t fact(Feature feature) const;
};

// Those that can run kernels of ours at all, in the driver's order.
Result<std::vector<Physical>> physical_devices(const Library& library);

// Structs that switch on what is in the facts, chained for vkCreateDevice. Does not move.
struct EnabledFeatures {
  explicit EnabledFeatures(const Physical& physical);
  EnabledFeatures(const EnabledFeatures&) = delete;

  DeviceFeatures2 all{};
  Storage16Features storage16{};
  Storage8Features storage8{};
  Float16Int8Features float16_int8{};
  SubgroupSizeFeatures subgroups{};
  IntegerDotFeatures integer_dot{};
  MemoryModelFeatures memory_model{};
  MatrixFeatures matrices{};
};

}  // namespace mlc::vulkan
