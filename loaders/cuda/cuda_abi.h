// What we call of CUDA's driver API: types and numbers, from its public documentation. No header of NVIDIA's is needed to build this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlc::cuda {

using Code32 = int32_t;  // CUresult
using DeviceNumber = int32_t;
using DevicePtr = uint64_t;
using Handle = struct Opaque*;  // a context, module, function, stream, event or graph

inline constexpr Code32 kSuccess = 0, kInvalidValue = 1, kNotFound = 500, kNotReady = 600;

struct Uuid {
  uint8_t bytes[16];
};

// CUdevice_attribute.
inline constexpr int32_t kAttributeThreadsPerBlock = 1, kAttributeGridDimX = 5, kAttributeGridDimY = 6, kAttributeSharedPerBlock = 8,
                         kAttributeCapabilityMajor = 75, kAttributeCapabilityMinor = 76, kAttributeSharedPerBlockOptin = 97;
// CUfunction_attribute.
inline constexpr int32_t kFunctionMaxDynamicShared = 8;
// CUjit_option: where the assembler of the driver says what it did not like.
inline constexpr int32_t kJitErrorLogBuffer = 5, kJitErrorLogBufferBytes = 6;

inline constexpr uint32_t kHostAllocPortable = 1, kStreamNonBlocking = 1, kEventDisableTiming = 2;
// CUstreamCaptureMode: what other threads call meanwhile does not matter.
inline constexpr int32_t kCaptureThreadLocal = 1;

}  // namespace mlc::cuda
