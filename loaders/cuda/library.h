// libcuda, opened when it is first needed: the functions that we call, each looked up by name.
#pragma once

#include "base/status.h"
#include "loaders/cuda/cuda_abi.h"

namespace mlc::cuda {

// clang-format off
#define MLC_CUDA_FUNCTIONS(X) \
  X(Init, cuInit, (uint32_t)) \
  X(DriverGetVersion, cuDriverGetVersion, (int32_t*)) \
  X(DeviceGetCount, cuDeviceGetCount, (int32_t*)) \
  X(DeviceGet, cuDeviceGet, (DeviceNumber*, int32_t)) \
  X(DeviceGetName, cuDeviceGetName, (char*, int32_t, DeviceNumber)) \
  X(DeviceGetUuid, cuDeviceGetUuid, (Uuid*, DeviceNumber)) \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int32_t*, int32_t, DeviceNumber)) \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t*, DeviceNumber)) \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (Handle*, DeviceNumber)) \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (DeviceNumber)) \
  X(CtxPushCurrent, cuCtxPushCurrent_v2, (Handle)) \
  X(CtxPopCurrent, cuCtxPopCurrent_v2, (Handle*)) \
  X(MemAlloc, cuMemAlloc_v2, (DevicePtr*, size_t)) \
  X(MemFree, cuMemFree_v2, (DevicePtr)) \
  X(MemGetAddressRange, cuMemGetAddressRange_v2, (DevicePtr*, size_t*, DevicePtr)) \
  X(MemHostAlloc, cuMemHostAlloc, (void**, size_t, uint32_t)) \
  X(MemFreeHost, cuMemFreeHost, (void*)) \
  X(MemcpyAsync, cuMemcpyAsync, (DevicePtr, DevicePtr, size_t, Handle)) \
  X(MemsetD8Async, cuMemsetD8Async, (DevicePtr, uint8_t, size_t, Handle)) \
  X(ModuleLoadDataEx, cuModuleLoadDataEx, (Handle*, const void*, uint32_t, int32_t*, void**)) \
  X(ModuleUnload, cuModuleUnload, (Handle)) \
  X(ModuleGetFunction, cuModuleGetFunction, (Handle*, Handle, const char*)) \
  X(FuncSetAttribute, cuFuncSetAttribute, (Handle, int32_t, int32_t)) \
  X(LaunchKernel, cuLaunchKernel, (Handle, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, Handle, void**, void**)) \
  X(StreamCreate, cuStreamCreate, (Handle*, uint32_t)) \
  X(StreamDestroy, cuStreamDestroy_v2, (Handle)) \
  X(StreamSynchronize, cuStreamSynchronize, (Handle)) \
  X(EventCreate, cuEventCreate, (Handle*, uint32_t)) \
  X(EventDestroy, cuEventDestroy_v2, (Handle)) \
  X(EventRecord, cuEventRecord, (Handle, Handle)) \
  X(EventQuery, cuEventQuery, (Handle))
// Those of graphs, which a driver may lack. cuGraphInstantiateWithFlags came with 11.4; before it there is the other.
#define MLC_CUDA_OPTIONAL_FUNCTIONS(X) \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, (Handle, int32_t)) \
  X(StreamEndCapture, cuStreamEndCapture, (Handle, Handle*)) \
  X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (Handle*, Handle, uint64_t)) \
  X(GraphInstantiate, cuGraphInstantiate_v2, (Handle*, Handle, Handle*, char*, size_t)) \
  X(GraphLaunch, cuGraphLaunch, (Handle, Handle)) \
  X(GraphExecDestroy, cuGraphExecDestroy, (Handle)) \
  X(GraphDestroy, cuGraphDestroy, (Handle))
// clang-format on

struct Library {
#define MLC_CUDA_FIELD(name, symbol, parameters) Code32(*name) parameters = nullptr;
  MLC_CUDA_FUNCTIONS(MLC_CUDA_FIELD)
  MLC_CUDA_OPTIONAL_FUNCTIONS(MLC_CUDA_FIELD)
#undef MLC_CUDA_FIELD
  int32_t version = 0;  // cuDriverGetVersion: 13000 for 13.0

  // Whether all is there that graphs need (graph.h).
  bool has_graphs() const {
    return StreamBeginCapture && StreamEndCapture && (GraphInstantiateWithFlags || GraphInstantiate) && GraphLaunch && GraphExecDestroy && GraphDestroy;
  }

  // The one of this process, initialised once; never closed. NotFound if there is none, Unsupported if it is too old or refuses.
  static Result<const Library*> open();
  // Another file of that name; for tests.
  static Result<Library> load(const char* file);
};

}  // namespace mlc::cuda
