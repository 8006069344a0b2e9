#include "loaders/vulkan/context.h"

#include <utility>
#include <vector>

#include "loaders/vulkan/results.h"
#include "schema/gpu_module.h"

namespace mlc::vulkan {

Result<std::unique_ptr<Context>> Context::open(const Library& library, Physical physical) {
  std::unique_ptr<Context> out(new Context(std::move(physical)));
  const Physical& p = out->physical_;
  const float priority = 1;
  DeviceQueueCreateInfo queue;
  queue.family = p.queue_family;
  queue.priorities = &priority;
  const EnabledFeatures features(p);
  DeviceCreateInfo info;
  info.next = &features.all;
  info.num_queues = 1;
  info.queues = &queue;
  info.num_extensions = static_cast<uint32_t>(p.extensions.size());
  info.extensions = p.extensions.data();
  MLC_RETURN_IF_ERROR(status_of(library.call.CreateDevice(p.handle, &info, nullptr, &out->handle_), "vkCreateDevice"));
  if (!out->handle_) return Status(Code::Unsupported, "vkCreateDevice gave no device");
  if (Status s = find_device_functions(library, out->handle_, out->call_); !s.ok()) {
    out->handle_ = nullptr;  // not even the function that would destroy it is sure to be there
    return s;
  }
  out->call_.GetDeviceQueue(out->handle_, p.queue_family, 0, &out->queue_);
  if (!out->queue_) return Status(Code::Unsupported, "vkGetDeviceQueue gave no queue");
  // Empty at first, and never written to a file: spec/decisions/devices.md.
  const PipelineCacheCreateInfo cache;
  if (out->call_.CreatePipelineCache(out->handle_, &cache, nullptr, &out->pipelines_) != kSuccess) out->pipelines_ = nullptr;  // pipelines are compiled each time
  return out;
}

Context::~Context() {
  if (!handle_) return;
  for (const auto& [bindings, layout] : layouts_) {
    call_.DestroyPipelineLayout(handle_, layout.pipeline, nullptr);
    call_.DestroyDescriptorSetLayout(handle_, layout.set, nullptr);
  }
  if (pipelines_) call_.DestroyPipelineCache(handle_, pipelines_, nullptr);
  call_.DestroyDevice(handle_, nullptr);
}

Status Context::check(Code32 code, const char* call) {
  if (code == kSuccess) return ok();
  Status s = status_of(code, call);
  if (code == kErrorDeviceLost) give_up(s.message);
  return s;
}

Result<Layout> Context::layout(uint32_t num_bindings) {
  const std::lock_guard lock(mu_);
  if (const auto found = layouts_.find(num_bindings); found != layouts_.end()) return found->second;
  Layout out;
  std::vector<DescriptorSetLayoutBinding> bindings(num_bindings);
  for (uint32_t i = 0; i < num_bindings; ++i) bindings[i].binding = i;
  DescriptorSetLayoutCreateInfo set;
  set.num_bindings = num_bindings;
  set.bindings = bindings.data();
  MLC_RETURN_IF_ERROR(status_of(call_.CreateDescriptorSetLayout(handle_, &set, nullptr, &out.set), "vkCreateDescriptorSetLayout"));
  PushConstantRange push;
  push.bytes = 16 + 8 * gpu::kMaxPushScalars;
  PipelineLayoutCreateInfo info;
  info.num_sets = 1;
  info.sets = &out.set;
  info.num_ranges = 1;
  info.ranges = &push;
  if (Status s = status_of(call_.CreatePipelineLayout(handle_, &info, nullptr, &out.pipeline), "vkCreatePipelineLayout"); !s.ok()) {
    call_.DestroyDescriptorSetLayout(handle_, out.set, nullptr);
    return s;
  }
  layouts_.emplace(num_bindings, out);
  return out;
}

Status Context::submit(CommandBuffer commands, Fence fence) {
  MLC_RETURN_IF_ERROR(alive());
  SubmitInfo info;
  info.num_buffers = 1;
  info.buffers = &commands;
  const std::lock_guard lock(queue_mu_);
  return check(call_.QueueSubmit(queue_, 1, &info, fence), "vkQueueSubmit");
}

Status Context::reserve(uint64_t bytes, bool local) {
  MLC_RETURN_IF_ERROR(alive());
  if (bytes > physical_.limits.allocation_bytes)
    return Status(Code::Resource, "{} bytes at once on {}, which gives at most {}", bytes, physical_.info.title, physical_.limits.allocation_bytes);
  const std::lock_guard lock(mu_);
  if (allocations_ >= physical_.allocations) return Status(Code::Resource, "more than {} allocations on {}", physical_.allocations, physical_.info.title);
  if (local) MLC_RETURN_IF_ERROR(life_.reserve(bytes));
  ++allocations_;
  return ok();
}

void Context::release(uint64_t bytes, bool local) {
  const std::lock_guard lock(mu_);
  --allocations_;
  if (local) life_.release(bytes);
}

}  // namespace mlc::vulkan
