#include "loaders/vulkan/queue.h"

#include "loaders/vulkan/recorder.h"

namespace mlc::vulkan {

Result<std::unique_ptr<VulkanQueue>> VulkanQueue::make(Context& context) {
  MLC_RETURN_IF_ERROR(context.alive());
  std::unique_ptr<VulkanQueue> out(new VulkanQueue(context));
  const FenceCreateInfo info;
  MLC_RETURN_IF_ERROR(context.check(context.call().CreateFence(context.handle(), &info, nullptr, &out->fence_), "vkCreateFence"));
  return out;
}

VulkanQueue::~VulkanQueue() {
  // One that the device still has to signal is left to it.
  if (fence_ && !is_busy_) context_.call().DestroyFence(context_.handle(), fence_, nullptr);
}

Status VulkanQueue::submit(device::Recording& recording) {
  if (is_busy_) return Status(Code::Internal, "two submissions at a time");
  MLC_RETURN_IF_ERROR(context_.check(context_.call().ResetFences(context_.handle(), 1, &fence_), "vkResetFences"));
  MLC_RETURN_IF_ERROR(context_.submit(static_cast<VulkanRecording&>(recording).commands(), fence_));
  is_busy_ = true;
  return ok();
}

Result<bool> VulkanQueue::wait(uint64_t timeout_ns) {
  MLC_RETURN_IF_ERROR(context_.alive());
  if (!is_busy_) return true;
  const Code32 code = context_.call().WaitForFences(context_.handle(), 1, &fence_, 1, timeout_ns);
  if (code == kTimeout) return false;
  MLC_RETURN_IF_ERROR(context_.check(code, "vkWaitForFences"));
  is_busy_ = false;
  return true;
}

}  // namespace mlc::vulkan
