// What the loader asks of a driver when it compiles: a driver of functions that only note what they are given.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "loaders/vulkan/module.h"

namespace mlc::vulkan {
namespace {

struct Driver {
  Code32 cache_answer = kSuccess;
  std::vector<PipelineCache> compiled_with;  // of each pipeline
  int caches = 0, destroyed_caches = 0;
  size_t cache_bytes = 0;  // that a cache was made of
} driver;

template <class Handle>
Handle handle(uintptr_t number) { return reinterpret_cast<Handle>(number); }

constexpr uintptr_t kCache = 0x100;

void nothing() {}
void get_queue(DeviceHandle, uint32_t, uint32_t, QueueHandle* out) { *out = handle<QueueHandle>(1); }
Code32 create_cache(DeviceHandle, const PipelineCacheCreateInfo* info, const void*, PipelineCache* out) {
  ++driver.caches;
  driver.cache_bytes += info->bytes;
  if (driver.cache_answer == kSuccess) *out = handle<PipelineCache>(kCache);
  return driver.cache_answer;
}
void destroy_cache(DeviceHandle, PipelineCache, const void*) { ++driver.destroyed_caches; }
Code32 create_shader(DeviceHandle, const ShaderModuleCreateInfo*, const void*, ShaderModule* out) { return *out = handle<ShaderModule>(2), kSuccess; }
Code32 create_set_layout(DeviceHandle, const DescriptorSetLayoutCreateInfo*, const void*, DescriptorSetLayout* out) { return *out = handle<DescriptorSetLayout>(3), kSuccess; }
Code32 create_layout(DeviceHandle, const PipelineLayoutCreateInfo*, const void*, PipelineLayout* out) { return *out = handle<PipelineLayout>(4), kSuccess; }
Code32 create_pipelines(DeviceHandle, PipelineCache cache, uint32_t, const ComputePipelineCreateInfo*, const void*, Pipeline* out) {
  driver.compiled_with.push_back(cache);
  return *out = handle<Pipeline>(5), kSuccess;
}

AnyFunction function(DeviceHandle, const char* name) {
  const std::string_view n = name;
  const auto as_any = [](auto* f) { return reinterpret_cast<AnyFunction>(f); };
  if (n == "vkGetDeviceQueue") return as_any(get_queue);
  if (n == "vkCreatePipelineCache") return as_any(create_cache);
  if (n == "vkDestroyPipelineCache") return as_any(destroy_cache);
  if (n == "vkCreateShaderModule") return as_any(create_shader);
  if (n == "vkCreateDescriptorSetLayout") return as_any(create_set_layout);
  if (n == "vkCreatePipelineLayout") return as_any(create_layout);
  if (n == "vkCreateComputePipelines") return as_any(create_pipelines);
  return as_any(nothing);  // of others only ends are called, which answer nothing
}
Code32 create_device(PhysicalDevice, const DeviceCreateInfo*, const void*, DeviceHandle* out) { return *out = handle<DeviceHandle>(6), kSuccess; }

// One kernel without buffers: a header, its entry and its lanes.
gpu::Module module_of_one() {
  const std::vector<uint32_t> words = {0x07230203, 0x10300, 0, 8, 0, 5u << 16 | 15, 5, 1, 0x6e69616d, 0, 6u << 16 | 16, 1, 17, 64, 1, 1};
  gpu::Module m;
  m.format = 4;
  gpu::Entry e;
  e.name = "main";
  e.lanes = {64, 1, 1};
  m.entries.push_back(e);
  m.images.push_back({gpu::ImageKind::SpirV, 0, {}, std::vector<std::byte>(words.size() * 4)});
  std::memcpy(m.images[0].bytes.data(), words.data(), words.size() * 4);
  return m;
}

// Two modules of the same kernel, as two sessions have them.
void compile_twice() {
  Library library;
  library.call.CreateDevice = create_device;
  library.call.GetDeviceProcAddr = function;
  Physical physical;
  physical.api = version(1, 3);
  physical.storage_buffers = 16, physical.push_bytes = 4096, physical.shared_bytes = 16384, physical.invocations = 128;
  for (uint32_t& n : physical.work_group_size) n = 128;
  auto context = Context::open(library, physical);
  REQUIRE_MESSAGE(context.ok(), (context.ok() ? "" : context.status().message));
  for (int session = 0; session < 2; ++session) {
    auto loaded = VulkanModule::load(**context, module_of_one());
    REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.status().message));
    for (int launch = 0; launch < 3; ++launch) REQUIRE((*loaded)->kernel(0).ok());
  }
}

TEST_CASE("all modules of a device compile through one cache, which begins empty and ends with the device") {
  driver = {};
  compile_twice();
  CHECK(driver.compiled_with == std::vector<PipelineCache>(2, handle<PipelineCache>(kCache)));
  CHECK(driver.caches == 1);
  CHECK(driver.cache_bytes == 0);
  CHECK(driver.destroyed_caches == 1);
}

TEST_CASE("a driver that gives no cache compiles without one") {
  driver = {.cache_answer = kErrorOutOfHostMemory};
  compile_twice();
  CHECK(driver.compiled_with == std::vector<PipelineCache>(2, nullptr));
  CHECK(driver.destroyed_caches == 0);
}

}  // namespace
}  // namespace mlc::vulkan
