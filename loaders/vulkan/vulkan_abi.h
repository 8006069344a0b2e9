// What we call of Vulkan: handles, numbers and structs as the public specification states them (Vulkan 1.3, chapters
// "Initialization" to "Dispatching Commands", and the appendix of structure types). No header of a vendor is used.
//
// Names are those of the specification without the prefix Vk. Handles are 64 bits wide on the machines we run on, whether
// they are pointers or numbers. Structs that the driver extends start with `type` and `next`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlc::vulkan {

static_assert(sizeof(void*) == 8, "handles that are numbers are declared as pointers here");

#define MLC_VULKAN_HANDLE(name) using name = struct name##Object*
MLC_VULKAN_HANDLE(Instance);
MLC_VULKAN_HANDLE(PhysicalDevice);
MLC_VULKAN_HANDLE(DeviceHandle);
MLC_VULKAN_HANDLE(QueueHandle);
MLC_VULKAN_HANDLE(CommandBuffer);
MLC_VULKAN_HANDLE(DeviceMemory);
MLC_VULKAN_HANDLE(Buffer);
MLC_VULKAN_HANDLE(Fence);
MLC_VULKAN_HANDLE(ShaderModule);
MLC_VULKAN_HANDLE(Pipeline);
MLC_VULKAN_HANDLE(PipelineLayout);
MLC_VULKAN_HANDLE(PipelineCache);
MLC_VULKAN_HANDLE(DescriptorSetLayout);
MLC_VULKAN_HANDLE(DescriptorPool);
MLC_VULKAN_HANDLE(DescriptorSet);
MLC_VULKAN_HANDLE(CommandPool);
#undef MLC_VULKAN_HANDLE

using Code32 = int32_t;  // VkResult: negative is an error
using Bool32 = uint32_t;
using Size = uint64_t;   // VkDeviceSize
using Flags = uint32_t;
using AnyFunction = void (*)();

inline constexpr Code32 kSuccess = 0, kNotReady = 1, kTimeout = 2, kIncomplete = 5;
inline constexpr Code32 kErrorOutOfHostMemory = -1, kErrorOutOfDeviceMemory = -2, kErrorDeviceLost = -4,
                        kErrorMemoryMapFailed = -5, kErrorTooManyObjects = -10, kErrorOutOfPoolMemory = -1000069000;

enum StructureType : uint32_t {
  kApplicationInfo = 0, kInstanceCreateInfo = 1, kDeviceQueueCreateInfo = 2, kDeviceCreateInfo = 3, kSubmitInfo = 4,
  kMemoryAllocateInfo = 5, kFenceCreateInfo = 8, kBufferCreateInfo = 12, kShaderModuleCreateInfo = 16, kPipelineCacheCreateInfo = 17,
  kPipelineShaderStageCreateInfo = 18, kComputePipelineCreateInfo = 29, kPipelineLayoutCreateInfo = 30,
  kDescriptorSetLayoutCreateInfo = 32, kDescriptorPoolCreateInfo = 33, kDescriptorSetAllocateInfo = 34, kWriteDescriptorSet = 35,
  kCommandPoolCreateInfo = 39, kCommandBufferAllocateInfo = 40, kCommandBufferBeginInfo = 42, kMemoryBarrier = 46,
  kPhysicalDeviceFeatures2 = 1000059000, kPhysicalDeviceProperties2 = 1000059001, kPhysicalDevice16BitStorageFeatures = 1000083000,
  kPhysicalDeviceIdProperties = 1000071004, kPhysicalDeviceMaintenance3Properties = 1000168000,
  kPhysicalDevice8BitStorageFeatures = 1000177000, kPhysicalDeviceShaderFloat16Int8Features = 1000082000,
  kPhysicalDeviceDriverProperties = 1000196000, kPhysicalDeviceFloatControlsProperties = 1000197000,
  kPhysicalDeviceSubgroupProperties = 1000094000, kPhysicalDeviceSubgroupSizeControlProperties = 1000225000,
  kPipelineShaderStageRequiredSubgroupSizeCreateInfo = 1000225001, kPhysicalDeviceSubgroupSizeControlFeatures = 1000225002,
  kPhysicalDeviceShaderIntegerDotProductFeatures = 1000280000, kPhysicalDeviceVulkanMemoryModelFeatures = 1000211000,
  kPhysicalDeviceCooperativeMatrixFeatures = 1000506000, kCooperativeMatrixProperties = 1000506001,
};

// VkPhysicalDeviceType, the one that is asked for; VkDriverId of lavapipe.
inline constexpr uint32_t kTypeCpu = 4, kDriverLlvmpipe = 13;
// VkQueueFlagBits, VkMemoryPropertyFlagBits, VkBufferUsageFlagBits, VkShaderStageFlagBits.
inline constexpr Flags kQueueCompute = 2;
inline constexpr Flags kMemoryDeviceLocal = 1, kMemoryHostVisible = 2, kMemoryHostCoherent = 4, kMemoryHostCached = 8;
inline constexpr Flags kMemoryProtected = 32;
inline constexpr Flags kUsageTransferSource = 1, kUsageTransferTarget = 2, kUsageStorage = 32;
inline constexpr Flags kStageShaderCompute = 32;
// VkSubgroupFeatureFlagBits, VkPipelineShaderStageCreateFlagBits.
inline constexpr Flags kSubgroupBasic = 1, kSubgroupArithmetic = 4, kSubgroupShuffle = 16;
inline constexpr Flags kRequireFullSubgroups = 2;
// VkComponentTypeKHR, VkScopeKHR.
inline constexpr uint32_t kComponentF16 = 0, kComponentF32 = 1, kScopeSubgroup = 3;
// VkPipelineStageFlagBits, VkAccessFlagBits.
inline constexpr Flags kStageCompute = 0x800, kStageTransfer = 0x1000, kStageHost = 0x4000;
inline constexpr Flags kAccessShaderRead = 0x20, kAccessShaderWrite = 0x40, kAccessTransferRead = 0x800, kAccessTransferWrite = 0x1000,
                       kAccessHostRead = 0x2000, kAccessHostWrite = 0x4000;
inline constexpr uint32_t kDescriptorStorageBuffer = 7, kBindPointCompute = 1, kLevelPrimary = 0;

constexpr uint32_t version(uint32_t major, uint32_t minor) { return major << 22 | minor << 12; }
constexpr uint32_t major_of(uint32_t v) { return v >> 22 & 0x7f; }
constexpr uint32_t minor_of(uint32_t v) { return v >> 12 & 0x3ff; }

// The beginning of every struct that extends another.
struct Chained {
  StructureType type;
  void* next = nullptr;
};

struct ApplicationInfo {
  StructureType type = kApplicationInfo;
  const void* next = nullptr;
  const char* application = nullptr;
  uint32_t application_version = 0;
  const char* engine = nullptr;
  uint32_t engine_version = 0;
  uint32_t api_version = 0;
};
struct InstanceCreateInfo {
  StructureType type = kInstanceCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  const ApplicationInfo* application = nullptr;
  uint32_t num_layers = 0;
  const char* const* layers = nullptr;
  uint32_t num_extensions = 0;
  const char* const* extensions = nullptr;
};
struct ExtensionProperties {
  char name[256];
  uint32_t spec_version;
};

// VkPhysicalDeviceLimits. Unused fields have no names.
struct DeviceLimits {
  uint32_t images[5];
  uint32_t texel_buffer_elements;
  uint32_t uniform_buffer_range;
  uint32_t storage_buffer_range;
  uint32_t push_constants_bytes;
  uint32_t memory_allocations;
  uint32_t sampler_allocations;
  Size buffer_image_granularity;
  Size sparse_address_space;
  uint32_t bound_sets;
  uint32_t stage_samplers;
  uint32_t stage_uniform_buffers;
  uint32_t stage_storage_buffers;
  uint32_t stage_images[3];
  uint32_t stage_resources;
  uint32_t set_samplers;
  uint32_t set_uniform_buffers[2];
  uint32_t set_storage_buffers;
  uint32_t set_others[4];
  uint32_t graphics[22];
  uint32_t shared_memory_bytes;
  uint32_t work_group_count[3];
  uint32_t work_group_invocations;
  uint32_t work_group_size[3];
  uint32_t draw[10];
  float viewport[2];
  uint32_t viewport_bits;
  size_t map_alignment;
  Size texel_buffer_alignment;
  Size uniform_buffer_alignment;
  Size storage_buffer_alignment;
  int32_t offsets[4];
  float interpolation[2];
  uint32_t rest[29];
  Size copy_alignment[2];
  Size atom_bytes;  // nonCoherentAtomSize
};
struct SparseProperties {
  Bool32 bits[5];
};
struct DeviceProperties {
  uint32_t api_version;
  uint32_t driver_version;
  uint32_t vendor;
  uint32_t device;
  uint32_t kind;
  char name[256];
  uint8_t cache_uuid[16];
  DeviceLimits limits;
  SparseProperties sparse;
};
struct DeviceProperties2 : Chained {
  DeviceProperties of{};
};
struct IdProperties : Chained {
  uint8_t device_uuid[16];
  uint8_t driver_uuid[16];
  uint8_t luid[8];
  uint32_t node_mask;
  Bool32 luid_valid;
};
struct Maintenance3Properties : Chained {
  uint32_t set_descriptors;
  Size allocation_bytes;
};
struct DriverProperties : Chained {
  uint32_t driver;
  char name[256];
  char info[256];
  uint8_t conformance[4];
};
struct FloatControlsProperties : Chained {
  uint32_t denorm_independence;
  uint32_t rounding_independence;
  Bool32 inf_nan_keep[3];  // of 16, 32 and 64 bits
  Bool32 denorm_keep[3];
  Bool32 denorm_flush[3];
  Bool32 round_even[3];
  Bool32 round_zero[3];
};

struct SubgroupProperties : Chained {
  uint32_t size;
  Flags stages;
  Flags operations;
  Bool32 quads;
};
struct SubgroupSizeProperties : Chained {
  uint32_t least, most;
  uint32_t most_of_group;  // subgroups
  Flags pick_stages;
};

// VkPhysicalDeviceFeatures.
struct DeviceFeatures {
  Bool32 before[39];
  Bool32 float64;
  Bool32 int64;
  Bool32 int16;
  Bool32 behind[13];
};
struct DeviceFeatures2 : Chained {
  DeviceFeatures of{};
};
struct Storage16Features : Chained {
  Bool32 storage;  // storageBuffer16BitAccess
  Bool32 uniform;
  Bool32 push;
  Bool32 input_output;
};
struct Storage8Features : Chained {
  Bool32 storage;  // storageBuffer8BitAccess
  Bool32 uniform;
  Bool32 push;
};
struct Float16Int8Features : Chained {
  Bool32 float16;
  Bool32 int8;
};

struct SubgroupSizeFeatures : Chained {
  Bool32 pick;  // subgroupSizeControl
  Bool32 full;  // computeFullSubgroups
};
struct IntegerDotFeatures : Chained {
  Bool32 dot;
};

struct MemoryModelFeatures : Chained {
  Bool32 model;  // vulkanMemoryModel
  Bool32 device_scope;
  Bool32 chains;
};
struct MatrixFeatures : Chained {
  Bool32 matrix;  // cooperativeMatrix
  Bool32 robust;
};
struct MatrixProperties : Chained {
  uint32_t rows, columns, depth;
  uint32_t a, b, c, result;  // components
  Bool32 saturates;
  uint32_t scope;
};

struct QueueFamilyProperties {
  Flags flags;
  uint32_t count;
  uint32_t timestamp_bits;
  uint32_t granularity[3];
};
struct MemoryType {
  Flags flags;
  uint32_t heap;
};
struct MemoryHeap {
  Size bytes;
  Flags flags;
};
struct MemoryProperties {
  uint32_t num_types;
  MemoryType types[32];
  uint32_t num_heaps;
  MemoryHeap heaps[16];
};

struct DeviceQueueCreateInfo {
  StructureType type = kDeviceQueueCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t family = 0;
  uint32_t count = 1;
  const float* priorities = nullptr;
};
struct DeviceCreateInfo {
  StructureType type = kDeviceCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t num_queues = 0;
  const DeviceQueueCreateInfo* queues = nullptr;
  uint32_t num_layers = 0;
  const char* const* layers = nullptr;
  uint32_t num_extensions = 0;
  const char* const* extensions = nullptr;
  const DeviceFeatures* features = nullptr;
};

struct BufferCreateInfo {
  StructureType type = kBufferCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  Size bytes = 0;
  Flags usage = 0;
  uint32_t sharing = 0;  // exclusive
  uint32_t num_families = 0;
  const uint32_t* families = nullptr;
};
struct MemoryRequirements {
  Size bytes;
  Size alignment;
  uint32_t types;
};
struct MemoryAllocateInfo {
  StructureType type = kMemoryAllocateInfo;
  const void* next = nullptr;
  Size bytes = 0;
  uint32_t memory_type = 0;
};

struct ShaderModuleCreateInfo {
  StructureType type = kShaderModuleCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  size_t bytes = 0;
  const uint32_t* words = nullptr;
};
struct DescriptorSetLayoutBinding {
  uint32_t binding = 0;
  uint32_t kind = kDescriptorStorageBuffer;
  uint32_t count = 1;
  Flags stages = kStageShaderCompute;
  const void* samplers = nullptr;
};
struct DescriptorSetLayoutCreateInfo {
  StructureType type = kDescriptorSetLayoutCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t num_bindings = 0;
  const DescriptorSetLayoutBinding* bindings = nullptr;
};
struct PushConstantRange {
  Flags stages = kStageShaderCompute;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};
struct PipelineCacheCreateInfo {
  StructureType type = kPipelineCacheCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  size_t bytes = 0;
  const void* data = nullptr;
};
struct PipelineLayoutCreateInfo {
  StructureType type = kPipelineLayoutCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t num_sets = 0;
  const DescriptorSetLayout* sets = nullptr;
  uint32_t num_ranges = 0;
  const PushConstantRange* ranges = nullptr;
};
struct PipelineShaderStageCreateInfo {
  StructureType type = kPipelineShaderStageCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t stage = kStageShaderCompute;
  ShaderModule module = nullptr;
  const char* name = nullptr;
  const void* constants = nullptr;
};
struct RequiredSubgroupSize {
  StructureType type = kPipelineShaderStageRequiredSubgroupSizeCreateInfo;
  const void* next = nullptr;
  uint32_t size = 0;
};
struct ComputePipelineCreateInfo {
  StructureType type = kComputePipelineCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  PipelineShaderStageCreateInfo stage;
  PipelineLayout layout = nullptr;
  Pipeline base = nullptr;
  int32_t base_index = -1;
};

struct DescriptorPoolSize {
  uint32_t kind = kDescriptorStorageBuffer;
  uint32_t count = 0;
};
struct DescriptorPoolCreateInfo {
  StructureType type = kDescriptorPoolCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t num_sets = 0;
  uint32_t num_sizes = 0;
  const DescriptorPoolSize* sizes = nullptr;
};
struct DescriptorSetAllocateInfo {
  StructureType type = kDescriptorSetAllocateInfo;
  const void* next = nullptr;
  DescriptorPool pool = nullptr;
  uint32_t count = 0;
  const DescriptorSetLayout* layouts = nullptr;
};
struct DescriptorBufferInfo {
  Buffer buffer = nullptr;
  Size offset = 0;
  Size bytes = 0;
};
struct WriteDescriptorSet {
  StructureType type = kWriteDescriptorSet;
  const void* next = nullptr;
  DescriptorSet set = nullptr;
  uint32_t binding = 0;
  uint32_t element = 0;
  uint32_t count = 0;
  uint32_t kind = kDescriptorStorageBuffer;
  const void* images = nullptr;
  const DescriptorBufferInfo* buffers = nullptr;
  const void* texels = nullptr;
};

struct CommandPoolCreateInfo {
  StructureType type = kCommandPoolCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t family = 0;
};
struct CommandBufferAllocateInfo {
  StructureType type = kCommandBufferAllocateInfo;
  const void* next = nullptr;
  CommandPool pool = nullptr;
  uint32_t level = kLevelPrimary;
  uint32_t count = 1;
};
struct CommandBufferBeginInfo {
  StructureType type = kCommandBufferBeginInfo;
  const void* next = nullptr;
  Flags flags = 0;
  const void* inheritance = nullptr;
};
struct MemoryBarrier {
  StructureType type = kMemoryBarrier;
  const void* next = nullptr;
  Flags before = 0;
  Flags behind = 0;
};
struct BufferCopy {
  Size from = 0;
  Size to = 0;
  Size bytes = 0;
};
struct FenceCreateInfo {
  StructureType type = kFenceCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
};
struct SubmitInfo {
  StructureType type = kSubmitInfo;
  const void* next = nullptr;
  uint32_t num_waits = 0;
  const void* waits = nullptr;
  const Flags* wait_stages = nullptr;
  uint32_t num_buffers = 0;
  const CommandBuffer* buffers = nullptr;
  uint32_t num_signals = 0;
  const void* signals = nullptr;
};

}  // namespace mlc::vulkan
