#include "loaders/cuda/memory.h"

#include <algorithm>

#include "base/checked.h"
#include "loaders/cuda/results.h"

namespace mlc::cuda {

Result<std::unique_ptr<CudaMemory>> CudaMemory::allocate(Context& context, uint64_t bytes, device::MemoryKind kind) {
  std::unique_ptr<CudaMemory> out(new CudaMemory(context));
  MLC_RETURN_IF_ERROR(out->make(bytes, kind));
  return out;
}

Result<std::unique_ptr<CudaMemory>> CudaMemory::adopt(Context& context, DevicePtr address, uint64_t bytes) {
  const Current current(context);
  MLC_RETURN_IF_ERROR(current.status());
  DevicePtr base = 0;
  size_t length = 0;
  const Code32 code = context.call().MemGetAddressRange(&base, &length, address);
  if (code == kNotFound || code == kInvalidValue) return Status(Code::InputMismatch, "address {} is no memory of {}", address, context.physical().info.title);
  MLC_RETURN_IF_ERROR(context.check(code, "cuMemGetAddressRange"));
  if (address < base || !range_within(address - base, bytes, length))
    return Status(Code::InputMismatch, "{} bytes at {}, of which {} are allocated", bytes, address, address < base ? 0 : length - std::min<uint64_t>(length, address - base));
  std::unique_ptr<CudaMemory> out(new CudaMemory(context));
  out->address_ = address;
  out->size_ = length - (address - base);
  out->is_adopted_ = true;
  return out;
}

Status CudaMemory::make(uint64_t bytes, device::MemoryKind kind) {
  const auto padded = checked_align(std::max<uint64_t>(bytes, 1), 256);
  if (!padded) return Status(Code::Resource, "{} bytes on a device", bytes);
  const Current current(context_);
  MLC_RETURN_IF_ERROR(current.status());
  if (kind == device::MemoryKind::Local) {
    MLC_RETURN_IF_ERROR(context_.reserve(*padded));
    reserved_ = *padded;
    MLC_RETURN_IF_ERROR(context_.check(context_.call().MemAlloc(&address_, *padded), "cuMemAlloc"));
    if (address_ == 0 || address_ % 256 != 0) return Status(Code::Unsupported, "cuMemAlloc gave address {}", address_);
  } else {
    void* data = nullptr;
    MLC_RETURN_IF_ERROR(context_.check(context_.call().MemHostAlloc(&data, *padded, kHostAllocPortable), "cuMemHostAlloc"));
    if (!data) return Status(Code::Unsupported, "cuMemHostAlloc gave no address");
    data_ = static_cast<std::byte*>(data);
    address_ = reinterpret_cast<uintptr_t>(data);  // one address for both: all systems of 64 bits have that
  }
  size_ = *padded;
  return ok();
}

CudaMemory::~CudaMemory() {
  if (is_adopted_) return;
  const Current current(context_);
  if (current.status().ok() && data_) (void)context_.check(context_.call().MemFreeHost(data_), "cuMemFreeHost");
  else if (current.status().ok() && address_) (void)context_.check(context_.call().MemFree(address_), "cuMemFree");
  if (reserved_) context_.release(reserved_);
}

}  // namespace mlc::cuda
