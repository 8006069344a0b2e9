// The kernels of a variant on a device. An image is given to the driver when a kernel of it is first recorded: code made for this
// architecture if there is some, else the text.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "loaders/cuda/context.h"
#include "runtime/device.h"
#include "schema/gpu_module.h"

namespace mlc::cuda {

struct Kernel {
  const gpu::Entry* entry = nullptr;
  Handle function = nullptr;
};

class CudaModule final : public device::Module {
 public:
  // `context` outlives it.
  static Result<std::unique_ptr<CudaModule>> load(Context& context, gpu::Module module);
  ~CudaModule() override;

  uint32_t num_kernels() const override { return static_cast<uint32_t>(module_.entries.size()); }
  Status accepts(uint32_t kernel, const LaunchForm& form) const override;

  // Loaded if it is not yet. `number` < num_kernels().
  Result<Kernel> kernel(uint32_t number) const;

 private:
  CudaModule(Context& context, gpu::Module module) : context_(context), module_(std::move(module)) {}
  Status check_entry(const gpu::Entry& entry) const;
  Status load_image(uint32_t number, Handle& out) const;                           // under mu_
  Status find_function(const gpu::Entry& entry, Handle image, Handle& out) const;  // under mu_

  Context& context_;
  const gpu::Module module_;
  mutable std::mutex mu_;
  mutable std::vector<Handle> images_;     // guarded by mu_; null: not needed yet
  mutable std::vector<Handle> functions_;  // guarded by mu_; null: not found yet
};

}  // namespace mlc::cuda
