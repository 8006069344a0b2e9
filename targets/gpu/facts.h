// What a kernel for devices does beside computing, as its module declares to the loader (schema/gpu_module.h).
#pragma once

#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::targets::gpu {

struct KernelFacts {
  bool may_fault = false;     // needs the fault buffer
  bool has_barriers = false;  // folds of lanes have some
  bool folds_lanes = false;
  bool folds_warps = false;   // more of them than a warp has
  bool has_groups = false;    // products of groups of lanes, whose factors are read by another unit than loads and stores are
  bool may_return = false;    // a Fault of code 0: all is done
};
KernelFacts facts_of(const loop::Kernel& kernel);

// The memory of a block is one array. Offsets are aligned, to 16 bytes or as groups of lanes want their factors; those of local arrays of a lane have no meaning.
struct SharedLayout {
  std::vector<uint64_t> offsets;  // of each local array
  uint64_t partials = 0;          // offset of what warps tell each other, where lanes of several are folded
  uint64_t bytes = 0;
  uint64_t alignment = 16;        // of the array and of the offsets
};
inline constexpr uint32_t kWarp = 32;                     // lanes that go together on CUDA
inline constexpr uint64_t kMostShared = 227 * 1024;       // that any device has for a block
inline constexpr uint64_t kMostStaticShared = 48 * 1024;  // that the code itself may state; what is more the launch gives
Result<SharedLayout> layout_shared(const loop::Kernel& kernel);

}  // namespace mlc::targets::gpu
