#include "loaders/cuda/cuda_devices.h"

#include "loaders/cuda/memory.h"
#include "loaders/cuda/module.h"
#include "loaders/cuda/queue.h"
#include "loaders/cuda/recorder.h"
#include "runtime/device_api.h"

namespace mlc::cuda {
namespace {

struct Api {
  using Context = cuda::Context;
  using Library = cuda::Library;
  using Memory = CudaMemory;
  using Module = CudaModule;
  using Queue = CudaQueue;
  using Recorder = CudaRecorder;
  static constexpr const char* kName = "CUDA";
  static Result<std::vector<Physical>> physical_devices(const cuda::Library& library) { return cuda::physical_devices(library); }
};

}  // namespace

Result<std::vector<device::Info>> list_devices() { return device::list_devices_by<Api>(); }

Result<device::Device*> open_device(std::string_view identity) { return device::open_device_by<Api>(identity); }

}  // namespace mlc::cuda
