// A piece of a device's memory with the one buffer that covers it.
#pragma once

#include <memory>

#include "loaders/vulkan/context.h"
#include "runtime/device.h"

namespace mlc::vulkan {

class VulkanMemory final : public device::Memory {
 public:
  // `context` outlives it.
  static Result<std::unique_ptr<VulkanMemory>> allocate(Context& context, uint64_t bytes, device::MemoryKind kind);
  ~VulkanMemory() override;

  Buffer buffer() const { return buffer_; }
  uint64_t known_as() const { return reinterpret_cast<uintptr_t>(buffer_); }

 private:
  explicit VulkanMemory(Context& context) : context_(context) {}
  Status make(uint64_t bytes, device::MemoryKind kind);

  Context& context_;
  Buffer buffer_ = nullptr;
  DeviceMemory memory_ = nullptr;
  bool is_local_ = false;
  uint64_t reserved_ = 0;
};

}  // namespace mlc::vulkan
