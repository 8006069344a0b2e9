// The kernels of a variant on a device. A driver compiles each when it is first recorded.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "loaders/vulkan/context.h"
#include "runtime/device.h"
#include "schema/gpu_module.h"

namespace mlc::vulkan {

struct Kernel {
  const gpu::Entry* entry = nullptr;
  Pipeline pipeline = nullptr;
  Layout layout;
};

class VulkanModule final : public device::Module {
 public:
  // `context` outlives it.
  static Result<std::unique_ptr<VulkanModule>> load(Context& context, gpu::Module module);
  ~VulkanModule() override;

  uint32_t num_kernels() const override { return static_cast<uint32_t>(module_.entries.size()); }
  Status accepts(uint32_t kernel, const LaunchForm& form) const override;

  // Compiled if it is not yet. `number` < num_kernels().
  Result<Kernel> kernel(uint32_t number) const;

 private:
  VulkanModule(Context& context, gpu::Module module) : context_(context), module_(std::move(module)) {}
  Status check_entry(const gpu::Entry& entry) const;
  Status compile(const gpu::Entry& entry, const Layout& layout, Pipeline& out) const;  // under mu_

  Context& context_;
  const gpu::Module module_;
  mutable std::mutex mu_;
  mutable std::vector<ShaderModule> images_;  // guarded by mu_; null: not needed yet
  mutable std::vector<Pipeline> pipelines_;   // guarded by mu_; null: not compiled yet
};

}  // namespace mlc::vulkan
