// Kernels that show what a device can do at most: nothing in them but what is measured. bench_device_modules makes them, for
// bench_device, which needs no compiler.
#pragma once

#include <cstdint>

namespace mlc::bench {

inline constexpr uint32_t kLanes = 128;  // of a block; every device of Vulkan takes so many
inline constexpr int64_t kVectorsOfLane = 4, kCopied = kLanes * kVectorsOfLane * 4;  // f32 that a tile copies
inline constexpr int64_t kChains = 8, kTurns = 512;
inline constexpr int64_t kOperationsOfTile = 2 * kLanes * kChains * kTurns;          // of `fma`

// Numbers of the kernels in the module.
enum KernelNumber : uint32_t {
  kCopy,   // buffer 1 = buffer 0: kCopied elements for each tile
  kFma,    // kChains chains of kTurns fused multiplications and additions per lane, from buffer 0; their sums to buffer 1, a lane's apart
  kTouch,  // one tile of one block that writes kLanes elements of buffer 0: as little as there is
  kStray,  // writes far behind buffer 0 from tile 1 on: what ends a device of CUDA
};

}  // namespace mlc::bench
