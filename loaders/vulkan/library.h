// libvulkan, opened when it is first needed: the functions that we call, each looked up by name.
#pragma once

#include "base/status.h"
#include "loaders/vulkan/vulkan_abi.h"

namespace mlc::vulkan {

// clang-format off
#define MLC_VULKAN_INSTANCE_FUNCTIONS(X) \
  X(Code32, EnumeratePhysicalDevices, (Instance, uint32_t*, PhysicalDevice*)) \
  X(void, GetPhysicalDeviceProperties2, (PhysicalDevice, DeviceProperties2*)) \
  X(void, GetPhysicalDeviceFeatures2, (PhysicalDevice, DeviceFeatures2*)) \
  X(void, GetPhysicalDeviceMemoryProperties, (PhysicalDevice, MemoryProperties*)) \
  X(void, GetPhysicalDeviceQueueFamilyProperties, (PhysicalDevice, uint32_t*, QueueFamilyProperties*)) \
  X(Code32, EnumerateDeviceExtensionProperties, (PhysicalDevice, const char*, uint32_t*, ExtensionProperties*)) \
  X(Code32, CreateDevice, (PhysicalDevice, const DeviceCreateInfo*, const void*, DeviceHandle*)) \
  X(AnyFunction, GetDeviceProcAddr, (DeviceHandle, const char*))

#define MLC_VULKAN_DEVICE_FUNCTIONS(X) \
  X(void, DestroyDevice, (DeviceHandle, const void*)) \
  X(void, GetDeviceQueue, (DeviceHandle, uint32_t, uint32_t, QueueHandle*)) \
  X(Code32, CreateBuffer, (DeviceHandle, const BufferCreateInfo*, const void*, Buffer*)) \
  X(void, DestroyBuffer, (DeviceHandle, Buffer, const void*)) \
  X(void, GetBufferMemoryRequirements, (DeviceHandle, Buffer, MemoryRequirements*)) \
  X(Code32, AllocateMemory, (DeviceHandle, const MemoryAllocateInfo*, const void*, DeviceMemory*)) \
  X(void, FreeMemory, (DeviceHandle, DeviceMemory, const void*)) \
  X(Code32, BindBufferMemory, (DeviceHandle, Buffer, DeviceMemory, Size)) \
  X(Code32, MapMemory, (DeviceHandle, DeviceMemory, Size, Size, Flags, void**)) \
  X(Code32, CreateShaderModule, (DeviceHandle, const ShaderModuleCreateInfo*, const void*, ShaderModule*)) \
  X(void, DestroyShaderModule, (DeviceHandle, ShaderModule, const void*)) \
  X(Code32, CreateDescriptorSetLayout, (DeviceHandle, const DescriptorSetLayoutCreateInfo*, const void*, DescriptorSetLayout*)) \
  X(void, DestroyDescriptorSetLayout, (DeviceHandle, DescriptorSetLayout, const void*)) \
  X(Code32, CreatePipelineLayout, (DeviceHandle, const PipelineLayoutCreateInfo*, const void*, PipelineLayout*)) \
  X(void, DestroyPipelineLayout, (DeviceHandle, PipelineLayout, const void*)) \
  X(Code32, CreatePipelineCache, (DeviceHandle, const PipelineCacheCreateInfo*, const void*, PipelineCache*)) \
  X(void, DestroyPipelineCache, (DeviceHandle, PipelineCache, const void*)) \
  X(Code32, CreateComputePipelines, (DeviceHandle, PipelineCache, uint32_t, const ComputePipelineCreateInfo*, const void*, Pipeline*)) \
  X(void, DestroyPipeline, (DeviceHandle, Pipeline, const void*)) \
  X(Code32, CreateDescriptorPool, (DeviceHandle, const DescriptorPoolCreateInfo*, const void*, DescriptorPool*)) \
  X(void, DestroyDescriptorPool, (DeviceHandle, DescriptorPool, const void*)) \
  X(Code32, AllocateDescriptorSets, (DeviceHandle, const DescriptorSetAllocateInfo*, DescriptorSet*)) \
  X(void, UpdateDescriptorSets, (DeviceHandle, uint32_t, const WriteDescriptorSet*, uint32_t, const void*)) \
  X(Code32, CreateCommandPool, (DeviceHandle, const CommandPoolCreateInfo*, const void*, CommandPool*)) \
  X(void, DestroyCommandPool, (DeviceHandle, CommandPool, const void*)) \
  X(Code32, AllocateCommandBuffers, (DeviceHandle, const CommandBufferAllocateInfo*, CommandBuffer*)) \
  X(Code32, BeginCommandBuffer, (CommandBuffer, const CommandBufferBeginInfo*)) \
  X(Code32, EndCommandBuffer, (CommandBuffer)) \
  X(void, CmdBindPipeline, (CommandBuffer, uint32_t, Pipeline)) \
  X(void, CmdBindDescriptorSets, (CommandBuffer, uint32_t, PipelineLayout, uint32_t, uint32_t, const DescriptorSet*, uint32_t, const uint32_t*)) \
  X(void, CmdPushConstants, (CommandBuffer, PipelineLayout, Flags, uint32_t, uint32_t, const void*)) \
  X(void, CmdDispatch, (CommandBuffer, uint32_t, uint32_t, uint32_t)) \
  X(void, CmdCopyBuffer, (CommandBuffer, Buffer, Buffer, uint32_t, const BufferCopy*)) \
  X(void, CmdFillBuffer, (CommandBuffer, Buffer, Size, Size, uint32_t)) \
  X(void, CmdPipelineBarrier, (CommandBuffer, Flags, Flags, Flags, uint32_t, const MemoryBarrier*, uint32_t, const void*, uint32_t, const void*)) \
  X(Code32, CreateFence, (DeviceHandle, const FenceCreateInfo*, const void*, Fence*)) \
  X(void, DestroyFence, (DeviceHandle, Fence, const void*)) \
  X(Code32, ResetFences, (DeviceHandle, uint32_t, const Fence*)) \
  X(Code32, WaitForFences, (DeviceHandle, uint32_t, const Fence*, Bool32, uint64_t)) \
  X(Code32, QueueSubmit, (QueueHandle, uint32_t, const SubmitInfo*, Fence))
// clang-format on

// Of extensions: null where no driver has them.
#define MLC_VULKAN_OPTIONAL_FUNCTIONS(X) \
  X(Code32, GetPhysicalDeviceCooperativeMatrixPropertiesKHR, (PhysicalDevice, uint32_t*, MatrixProperties*))

#define MLC_VULKAN_FIELD(result, name, parameters) result(*name) parameters = nullptr;
struct InstanceFunctions {
  MLC_VULKAN_INSTANCE_FUNCTIONS(MLC_VULKAN_FIELD)
  MLC_VULKAN_OPTIONAL_FUNCTIONS(MLC_VULKAN_FIELD)
};
struct DeviceFunctions {
  MLC_VULKAN_DEVICE_FUNCTIONS(MLC_VULKAN_FIELD)
};
#undef MLC_VULKAN_FIELD

// The instance of this process: made once, with no layers but those that the environment asks for, never destroyed.
struct Library {
  Instance instance = nullptr;
  InstanceFunctions call;

  // NotFound if there is no library, Unsupported if it is too old or refuses.
  static Result<const Library*> open();
};

// Unsupported with the first name that is missing.
Status find_device_functions(const Library& library, DeviceHandle device, DeviceFunctions& out);

}  // namespace mlc::vulkan
