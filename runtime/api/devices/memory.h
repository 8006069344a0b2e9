// Memory that applications hold beside runs: of a session's device or of the processor, their own or shared by DLPack. Of libmlrt-gpu.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/api/devices/dlpack.h"
#include "runtime/api/session/handles.h"
#include "runtime/device.h"

// Its owners are the application and the arrays of DLPack that were made of it; the last one deletes it.
struct MlcMemory {
  MlcMemory();
  ~MlcMemory();
  MlcMemory(const MlcMemory&) = delete;

  // Constant once it is made.
  std::string device_name, note;                  // "gpu0", empty: the processor; why it is a copy
  mlc::device::Device* device = nullptr;          // null: the processor
  std::shared_ptr<mlc::device::Memory> memory;    // of the device
  mlc::AlignedBlock block;                        // of the processor, where it is the library's
  std::byte* data = nullptr;                      // of the processor
  uint64_t bytes = 0;
  bool is_read_only = false;
  std::vector<int64_t> shape;                     // of the array that was imported
  mlc::dlpack::Versioned* source = nullptr;       // its owner; null: the library

  void hold() { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  std::atomic<uint32_t> owners_{1};
};

namespace mlc::api {

constexpr uint64_t kLine = 64;  // bytes; kernels may reach to the end of one

// What `reserved` of a tensor names. Usage: it is no memory that there is.
Result<MlcMemory*> find_memory(const MlcTensor& tensor);
// The one that a device knows by this address or handle; null: none of the library's.
std::shared_ptr<device::Memory> find_own(const device::Device& device, uint64_t address);

// Bytes between the host and memory of a device, or within it; one at a time for each device.
Status download(MlcMemory& from, uint64_t offset, std::byte* to, uint64_t bytes);
Status upload(MlcMemory& to, uint64_t offset, const std::byte* from, uint64_t bytes);
Status copy_within(MlcMemory& to, uint64_t to_offset, MlcMemory& from, uint64_t from_offset, uint64_t bytes);  // of one device

// Memory that the session's runs use where it is.
Result<std::unique_ptr<MlcMemory>> allocate_memory(const Session& session, uint64_t bytes);

// What an array of DLPack says of itself, with every number looked at.
struct DescribedArray {
  DType dtype = DType::None;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  uint64_t address = 0;  // of the first element
};
// InputMismatch, with what is wrong.
Result<DescribedArray> describe(const dlpack::Tensor& tensor);

}  // namespace mlc::api
