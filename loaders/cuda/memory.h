// A piece of a device's memory, or of the host's that the device reaches.
#pragma once

#include <memory>

#include "loaders/cuda/context.h"
#include "runtime/device.h"

namespace mlc::cuda {

class CudaMemory final : public device::Memory {
 public:
  // `context` outlives it.
  static Result<std::unique_ptr<CudaMemory>> allocate(Context& context, uint64_t bytes, device::MemoryKind kind);
  // Wraps memory that the caller owns: see device::Device::adopt.
  static Result<std::unique_ptr<CudaMemory>> adopt(Context& context, DevicePtr address, uint64_t bytes);
  ~CudaMemory() override;

  // Of a byte of it, for the device.
  DevicePtr address(uint64_t offset) const { return address_ + offset; }
  uint64_t known_as() const { return address_; }

 private:
  explicit CudaMemory(Context& context) : context_(context) {}
  Status make(uint64_t bytes, device::MemoryKind kind);

  Context& context_;
  DevicePtr address_ = 0;
  uint64_t reserved_ = 0;  // of the device's own
  bool is_adopted_ = false;
};

}  // namespace mlc::cuda
