// Submissions to a device, one at a time.
#pragma once

#include <memory>

#include "loaders/vulkan/context.h"
#include "runtime/device.h"

namespace mlc::vulkan {

class VulkanQueue final : public device::Queue {
 public:
  // `context` outlives it.
  static Result<std::unique_ptr<VulkanQueue>> make(Context& context);
  ~VulkanQueue() override;

  Status submit(device::Recording& recording) override;
  Result<bool> wait(uint64_t timeout_ns) override;

 private:
  explicit VulkanQueue(Context& context) : context_(context) {}

  Context& context_;
  Fence fence_ = nullptr;
  bool is_busy_ = false;
};

}  // namespace mlc::vulkan
