#include "loaders/vulkan/physical.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "loaders/vulkan/results.h"
#include "runtime/device_api.h"

namespace mlc::vulkan {
namespace {

// Counts from drivers are believed up to here.
constexpr uint32_t kMostDevices = 64, kMostFamilies = 64, kMostExtensions = 4096, kMostShapes = 4096;
constexpr char kMatrixExtension[] = "VK_KHR_cooperative_matrix";
constexpr int64_t kLlvmpipeLoopBudget = 65'535;
// Kernels have blocks of 128 lanes, and pair them from the smallest subgroups on.
constexpr uint32_t kLeastSubgroup = 4, kMostSubgroup = 64, kBlockLanes = 128;

template <size_t N>
std::string text_of(const char (&text)[N]) {
  return std::string(text, ::strnlen(text, N));
}

// Puts a struct in front of a chain.
void chain(Chained& head, Chained& link, StructureType type) {
  link.type = type;
  link.next = head.next;
  head.next = &link;
}

class Asker {
 public:
  Asker(const Library& library, PhysicalDevice handle) : call_(library.call) { out_.handle = handle; }

  // Unsupported with the reason if it cannot run kernels of ours at all.
  Result<Physical> ask() {
    DeviceProperties2 brief{{kPhysicalDeviceProperties2}};
    call_.GetPhysicalDeviceProperties2(out_.handle, &brief);
    out_.api = brief.of.api_version;
    if (out_.api < version(1, 1)) return Status(Code::Unsupported, "of version {}.{}, 1.1 expected", major_of(out_.api), minor_of(out_.api));
    MLC_RETURN_IF_ERROR(extensions());
    MLC_RETURN_IF_ERROR(memory());
    MLC_RETURN_IF_ERROR(properties());
    MLC_RETURN_IF_ERROR(queue());
    features();
    if (is_core(3)) {
      subgroups();
      matrices();
    }
    return std::move(out_);
  }

 private:
  void tell(Feature feature, int64_t number) { out_.info.facts.push_back({feature, number}); }
  bool is_core(uint32_t minor) const { return out_.api >= version(1, minor); }
  bool has(std::string_view extension) const { return std::find(names_.begin(), names_.end(), extension) != names_.end(); }
  // Part of the core from that version on, an extension before.
  bool offers(uint32_t minor, const char* extension) const { return is_core(minor) || has(extension); }
  void enable(uint32_t minor, const char* extension) {
    if (!is_core(minor)) out_.extensions.push_back(extension);
  }

  Status extensions() {
    uint32_t count = 0;
    MLC_RETURN_IF_ERROR(status_of(call_.EnumerateDeviceExtensionProperties(out_.handle, nullptr, &count, nullptr), "vkEnumerateDeviceExtensionProperties"));
    if (count > kMostExtensions) return Status(Code::Unsupported, "vkEnumerateDeviceExtensionProperties: {} extensions", count);
    std::vector<ExtensionProperties> found(count);
    const uint32_t room = count;
    const Code32 code = call_.EnumerateDeviceExtensionProperties(out_.handle, nullptr, &count, found.data());
    if (code != kIncomplete) MLC_RETURN_IF_ERROR(status_of(code, "vkEnumerateDeviceExtensionProperties"));
    found.resize(std::min(count, room));
    for (const ExtensionProperties& e : found) names_.push_back(text_of(e.name));
    return ok();
  }

  Status memory() {
    call_.GetPhysicalDeviceMemoryProperties(out_.handle, &out_.memory);
    const MemoryProperties& m = out_.memory;
    if (m.num_types > 32 || m.num_heaps > 16) return Status(Code::Unsupported, "{} types of memory, {} heaps", m.num_types, m.num_heaps);
    for (uint32_t i = 0; i < m.num_types; ++i) {
      if (m.types[i].heap >= m.num_heaps) return Status(Code::Unsupported, "memory of heap {} of {}", m.types[i].heap, m.num_heaps);
      if (m.types[i].flags & kMemoryDeviceLocal) out_.info.memory_bytes = std::max(out_.info.memory_bytes, m.heaps[m.types[i].heap].bytes);
    }
    return ok();
  }

  Status properties() {
    DeviceProperties2 all{{kPhysicalDeviceProperties2}};
    IdProperties id{};
    Maintenance3Properties maintenance{};
    DriverProperties driver{};
    FloatControlsProperties floats{};
    chain(all, id, kPhysicalDeviceIdProperties);
    chain(all, maintenance, kPhysicalDeviceMaintenance3Properties);
    if (offers(2, "VK_KHR_driver_properties")) chain(all, driver, kPhysicalDeviceDriverProperties);
    const bool float_controls = offers(2, "VK_KHR_shader_float_controls");
    if (float_controls) chain(all, floats, kPhysicalDeviceFloatControlsProperties);
    call_.GetPhysicalDeviceProperties2(out_.handle, &all);
    const DeviceLimits& l = all.of.limits;

    out_.info.api = "vulkan";
    out_.info.identity = device::identity_of(id.device_uuid);
    out_.info.title = text_of(all.of.name);
    out_.info.driver = text_of(driver.name) + (driver.info[0] ? ", " : "") + text_of(driver.info);
    out_.info.is_software = all.of.kind == kTypeCpu;
    if (l.storage_buffer_alignment == 0 || 256 % l.storage_buffer_alignment != 0)
      return Status(Code::Unsupported, "minStorageBufferOffsetAlignment is {}", l.storage_buffer_alignment);
    if (l.work_group_count[0] < 65'535) return Status(Code::Unsupported, "maxComputeWorkGroupCount is {}", l.work_group_count[0]);
    out_.limits.buffer_alignment = l.storage_buffer_alignment;
    out_.limits.range_bytes = l.storage_buffer_range;
    out_.limits.allocation_bytes = maintenance.allocation_bytes;
    out_.limits.loop_budget = driver.driver == kDriverLlvmpipe ? kLlvmpipeLoopBudget : 0;
    out_.work_group_rows = l.work_group_count[1];
    std::copy(l.work_group_size, l.work_group_size + 3, out_.work_group_size);
    out_.invocations = l.work_group_invocations;
    out_.storage_buffers = std::min({l.stage_storage_buffers, l.set_storage_buffers, l.stage_resources});
    out_.push_bytes = l.push_constants_bytes;
    out_.shared_bytes = l.shared_memory_bytes;
    out_.allocations = l.memory_allocations;

    tell(Feature::VkApi, int64_t{1000} * major_of(out_.api) + int64_t{10} * minor_of(out_.api));
    tell(Feature::VkMaxInvocations, std::min(l.work_group_invocations, l.work_group_size[0]));
    tell(Feature::VkMaxShared, l.shared_memory_bytes);
    tell(Feature::VkMaxPush, l.push_constants_bytes);
    tell(Feature::VkMaxStorageBuffers, out_.storage_buffers);
    tell(Feature::VkMaxSsbo, l.storage_buffer_range);
    tell(Feature::VkLoopBudget, static_cast<int64_t>(out_.limits.loop_budget));
    tell(Feature::VkF32InfNanKeep, floats.inf_nan_keep[1] != 0);
    tell(Feature::VkF64InfNanKeep, floats.inf_nan_keep[2] != 0);
    if (float_controls) enable(2, "VK_KHR_shader_float_controls");
    return ok();
  }

  Status queue() {
    uint32_t count = 0;
    call_.GetPhysicalDeviceQueueFamilyProperties(out_.handle, &count, nullptr);
    if (count > kMostFamilies) return Status(Code::Unsupported, "{} families of queues", count);
    std::vector<QueueFamilyProperties> families(count);
    const uint32_t room = count;
    call_.GetPhysicalDeviceQueueFamilyProperties(out_.handle, &count, families.data());
    families.resize(std::min(count, room));
    const auto computes = std::find_if(families.begin(), families.end(), [](const auto& f) { return (f.flags & kQueueCompute) && f.count > 0; });
    if (computes == families.end()) return Status(Code::Unsupported, "no queue that computes");
    out_.queue_family = static_cast<uint32_t>(computes - families.begin());
    return ok();
  }

  void features() {
    DeviceFeatures2 all{{kPhysicalDeviceFeatures2}};
    Storage16Features storage16{};
    Storage8Features storage8{};
    Float16Int8Features float16_int8{};
    chain(all, storage16, kPhysicalDevice16BitStorageFeatures);
    if (offers(2, "VK_KHR_8bit_storage")) chain(all, storage8, kPhysicalDevice8BitStorageFeatures);
    if (offers(2, "VK_KHR_shader_float16_int8")) chain(all, float16_int8, kPhysicalDeviceShaderFloat16Int8Features);
    call_.GetPhysicalDeviceFeatures2(out_.handle, &all);
    tell(Feature::VkShaderInt64, all.of.int64 != 0);
    tell(Feature::VkShaderFloat64, all.of.float64 != 0);
    tell(Feature::VkShaderInt16, all.of.int16 != 0);
    tell(Feature::VkStorage16, storage16.storage != 0);
    tell(Feature::VkStorage8, storage8.storage != 0);
    tell(Feature::VkShaderFloat16, float16_int8.float16 != 0);
    tell(Feature::VkShaderInt8, float16_int8.int8 != 0);
    if (storage8.storage) enable(2, "VK_KHR_8bit_storage");
    if (float16_int8.float16 || float16_int8.int8) enable(2, "VK_KHR_shader_float16_int8");
  }

  // Of the core since 1.3; before, targets that want them do not fit.
  void subgroups() {
    DeviceProperties2 all{{kPhysicalDeviceProperties2}};
    SubgroupProperties groups{};
    SubgroupSizeProperties sizes{};
    chain(all, groups, kPhysicalDeviceSubgroupProperties);
    chain(all, sizes, kPhysicalDeviceSubgroupSizeControlProperties);
    call_.GetPhysicalDeviceProperties2(out_.handle, &all);
    DeviceFeatures2 wanted{{kPhysicalDeviceFeatures2}};
    SubgroupSizeFeatures control{};
    IntegerDotFeatures dot{};
    chain(wanted, control, kPhysicalDeviceSubgroupSizeControlFeatures);
    chain(wanted, dot, kPhysicalDeviceShaderIntegerDotProductFeatures);
    call_.GetPhysicalDeviceFeatures2(out_.handle, &wanted);
    const uint32_t size = groups.size;
    const bool fits = std::has_single_bit(size) && size >= kLeastSubgroup && size <= kMostSubgroup && size >= sizes.least && size <= sizes.most &&
                      kBlockLanes / size <= sizes.most_of_group;
    const bool picked = fits && control.pick && control.full && (sizes.pick_stages & kStageShaderCompute);
    const Flags operations = groups.stages & kStageShaderCompute ? groups.operations : 0;
    const auto can = [&](Flags which) { return (operations & which) == which; };
    out_.subgroup = picked ? size : 0;
    out_.least_subgroup = picked ? sizes.least : 0, out_.most_subgroup = picked ? sizes.most : 0, out_.most_subgroups = picked ? sizes.most_of_group : 0;
    tell(Feature::VkSubgroupLeast, sizes.least);
    tell(Feature::VkSubgroupMost, sizes.most);
    tell(Feature::VkSubgroupSize, size);
    tell(Feature::VkSubgroupPick, picked);
    tell(Feature::VkSubgroupShuffle, can(kSubgroupBasic | kSubgroupShuffle));
    tell(Feature::VkSubgroupSum, can(kSubgroupBasic | kSubgroupArithmetic));
    tell(Feature::VkIntDot, dot.dot != 0);
  }

  // Which products matrices of a subgroup do, of those that targets want.
  void matrices() {
    MatrixFeatures matrix{};
    MemoryModelFeatures memory{};
    std::vector<MatrixProperties> shapes;
    if (has(kMatrixExtension) && call_.GetPhysicalDeviceCooperativeMatrixPropertiesKHR) {
      DeviceFeatures2 wanted{{kPhysicalDeviceFeatures2}};
      chain(wanted, matrix, kPhysicalDeviceCooperativeMatrixFeatures);
      chain(wanted, memory, kPhysicalDeviceVulkanMemoryModelFeatures);
      call_.GetPhysicalDeviceFeatures2(out_.handle, &wanted);
      if (matrix.matrix && memory.model) shapes = matrix_shapes();
    }
    const auto multiplies = [&](uint32_t side) {
      return std::any_of(shapes.begin(), shapes.end(), [&](const MatrixProperties& p) {
        return p.rows == side && p.columns == side && p.depth == side && p.a == kComponentF16 && p.b == kComponentF16 && p.c == kComponentF32 && p.result == kComponentF32 && !p.saturates && p.scope == kScopeSubgroup;
      });
    };
    tell(Feature::VkMatrix16, multiplies(16));
    tell(Feature::VkMatrix8, multiplies(8));
    if (multiplies(16) || multiplies(8)) out_.extensions.push_back(kMatrixExtension);
  }

  // Empty where the driver does not say.
  std::vector<MatrixProperties> matrix_shapes() {
    const auto ask = call_.GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
    uint32_t count = 0;
    if (ask(out_.handle, &count, nullptr) != kSuccess || count > kMostShapes) return {};
    std::vector<MatrixProperties> shapes(count);
    for (MatrixProperties& p : shapes) p.type = kCooperativeMatrixProperties;
    const uint32_t room = count;
    const Code32 code = ask(out_.handle, &count, shapes.data());
    shapes.resize(code == kSuccess || code == kIncomplete ? std::min(count, room) : 0);
    return shapes;
  }

  const InstanceFunctions& call_;
  Physical out_;
  std::vector<std::string> names_;  // of its extensions
};

}  // namespace

int64_t Physical::fact(Feature feature) const {
  const auto found = std::find_if(info.facts.begin(), info.facts.end(), [&](const device::Fact& f) { return f.feature == feature; });
  return found == info.facts.end() ? 0 : found->number;
}

Result<std::vector<Physical>> physical_devices(const Library& library) {
  uint32_t count = 0;
  const char* const call = "vkEnumeratePhysicalDevices";
  MLC_RETURN_IF_ERROR(status_of(library.call.EnumeratePhysicalDevices(library.instance, &count, nullptr), call));
  if (count > kMostDevices) return Status(Code::Unsupported, "{}: {} devices", call, count);
  std::vector<PhysicalDevice> handles(count);
  const uint32_t room = count;
  const Code32 code = library.call.EnumeratePhysicalDevices(library.instance, &count, handles.data());
  if (code != kIncomplete) MLC_RETURN_IF_ERROR(status_of(code, call));
  handles.resize(std::min(count, room));
  std::vector<Physical> out;
  for (size_t k = 0; k < handles.size(); ++k) {
    auto asked = Asker(library, handles[k]).ask();
    if (!asked.ok()) continue;
    asked->number = static_cast<int32_t>(k);
    out.push_back(std::move(*asked));
  }
  return out;
}

EnabledFeatures::EnabledFeatures(const Physical& p) {
  const auto on = [&](Feature f) { return static_cast<Bool32>(p.fact(f) != 0); };
  all.type = kPhysicalDeviceFeatures2;
  all.of.int64 = on(Feature::VkShaderInt64);
  all.of.float64 = on(Feature::VkShaderFloat64);
  all.of.int16 = on(Feature::VkShaderInt16);
  storage16.storage = on(Feature::VkStorage16);
  storage8.storage = on(Feature::VkStorage8);
  float16_int8.float16 = on(Feature::VkShaderFloat16);
  float16_int8.int8 = on(Feature::VkShaderInt8);
  chain(all, storage16, kPhysicalDevice16BitStorageFeatures);
  if (storage8.storage) chain(all, storage8, kPhysicalDevice8BitStorageFeatures);
  if (float16_int8.float16 || float16_int8.int8) chain(all, float16_int8, kPhysicalDeviceShaderFloat16Int8Features);
  subgroups.pick = subgroups.full = on(Feature::VkSubgroupPick);
  integer_dot.dot = on(Feature::VkIntDot);
  if (subgroups.pick) chain(all, subgroups, kPhysicalDeviceSubgroupSizeControlFeatures);
  memory_model.model = matrices.matrix = static_cast<Bool32>(p.fact(Feature::VkMatrix16) != 0 || p.fact(Feature::VkMatrix8) != 0);
  if (matrices.matrix) chain(all, memory_model, kPhysicalDeviceVulkanMemoryModelFeatures), chain(all, matrices, kPhysicalDeviceCooperativeMatrixFeatures);
  if (integer_dot.dot) chain(all, integer_dot, kPhysicalDeviceShaderIntegerDotProductFeatures);
}

}  // namespace mlc::vulkan
