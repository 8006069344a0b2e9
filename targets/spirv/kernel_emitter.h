// One Loop kernel of a device as one SPIR-V module with one entry point, "main". How it takes its arguments: schema/gpu_module.h.
#pragma once

#include "base/status.h"
#include "packager/loop/loop.h"
#include "schema/gpu_module.h"

namespace mlc::targets::spirv {

// What a device of the target is sure to have.
struct Limits {
  uint32_t lanes = 128;           // of a block
  uint32_t shared_bytes = 16384;  // of a block
  uint32_t bindings = 16;         // of a launch: its buffers, and those for scalars and faults
  bool subgroups = false;         // SPIR-V 1.6 with operations of subgroups; else 1.3
  uint32_t matrix_side = 0;       // of matrices of subgroups, which are of f16 and have sums of f32; 0: there are none
  uint32_t matrix_lanes = 0;      // of subgroups that have them
};

struct EmittedKernel {
  std::vector<uint32_t> words;
  std::vector<uint32_t> capabilities;  // sorted
  mlc::gpu::Entry entry;  // image 0
};

// The kernel has passed loop::verify. Unsupported, with its name, if it asks for more than the limits allow. Equal kernels give equal
// words.
Result<EmittedKernel> emit_kernel(const loop::Kernel& kernel, const Limits& limits);

}  // namespace mlc::targets::spirv
