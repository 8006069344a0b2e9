#include "loaders/vulkan/memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"

namespace mlc::vulkan {
namespace {

// The first type of memory that has all of `must`, better one that has `nice` as well. All devices have one that the host
// sees without flushing.
std::optional<uint32_t> find_type(const MemoryProperties& m, uint32_t allowed, Flags must, Flags nice) {
  for (const Flags wanted : {must | nice, must})
    for (uint32_t i = 0; i < m.num_types; ++i)
      if ((allowed >> i & 1) && (m.types[i].flags & wanted) == wanted && !(m.types[i].flags & kMemoryProtected)) return i;
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<VulkanMemory>> VulkanMemory::allocate(Context& context, uint64_t bytes, device::MemoryKind kind) {
  std::unique_ptr<VulkanMemory> out(new VulkanMemory(context));
  MLC_RETURN_IF_ERROR(out->make(bytes, kind));
  return out;
}

Status VulkanMemory::make(uint64_t bytes, device::MemoryKind kind) {
  const auto padded = checked_align(std::max<uint64_t>(bytes, 1), 256);
  if (!padded) return Status(Code::Resource, "{} bytes on a device", bytes);
  MLC_RETURN_IF_ERROR(context_.reserve(*padded, kind == device::MemoryKind::Local));
  reserved_ = *padded;
  is_local_ = kind == device::MemoryKind::Local;
  const DeviceFunctions& call = context_.call();
  BufferCreateInfo info;
  info.bytes = *padded;
  info.usage = kUsageStorage | kUsageTransferSource | kUsageTransferTarget;
  MLC_RETURN_IF_ERROR(context_.check(call.CreateBuffer(context_.handle(), &info, nullptr, &buffer_), "vkCreateBuffer"));
  MemoryRequirements wants{};
  call.GetBufferMemoryRequirements(context_.handle(), buffer_, &wants);
  if (wants.bytes < *padded) return Status(Code::Unsupported, "vkGetBufferMemoryRequirements: {} bytes for a buffer of {}", wants.bytes, *padded);
  const bool to_host = kind == device::MemoryKind::Readback;
  const auto type = is_local_ ? find_type(context_.physical().memory, wants.types, kMemoryDeviceLocal, 0)
                              : find_type(context_.physical().memory, wants.types, kMemoryHostVisible | kMemoryHostCoherent, to_host ? kMemoryHostCached : 0);
  if (!type) return Status(Code::Unsupported, "no memory for this use on {}", context_.physical().info.title);
  MemoryAllocateInfo allocate;
  allocate.bytes = wants.bytes;
  allocate.memory_type = *type;
  MLC_RETURN_IF_ERROR(context_.check(call.AllocateMemory(context_.handle(), &allocate, nullptr, &memory_), "vkAllocateMemory"));
  MLC_RETURN_IF_ERROR(context_.check(call.BindBufferMemory(context_.handle(), buffer_, memory_, 0), "vkBindBufferMemory"));
  if (!is_local_) {
    void* mapped = nullptr;
    MLC_RETURN_IF_ERROR(context_.check(call.MapMemory(context_.handle(), memory_, 0, wants.bytes, 0, &mapped), "vkMapMemory"));
    if (!mapped) return Status(Code::Unsupported, "vkMapMemory gave no address");
    data_ = static_cast<std::byte*>(mapped);
  }
  size_ = *padded;
  return ok();
}

VulkanMemory::~VulkanMemory() {
  if (context_.is_lost()) return;
  const DeviceFunctions& call = context_.call();
  if (buffer_) call.DestroyBuffer(context_.handle(), buffer_, nullptr);
  if (memory_) call.FreeMemory(context_.handle(), memory_, nullptr);
  if (reserved_) context_.release(reserved_, is_local_);
}

}  // namespace mlc::vulkan
