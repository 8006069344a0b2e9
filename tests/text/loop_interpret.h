// The meaning of Loop, executed slowly on host buffers: the oracle for emitters and the first check of lowering. Every
// access is checked against its buffer, every operand for its type; NaN and wrap-around behave as expr.h says.
//
// Of a device kernel every lane of a block runs up to the next Barrier, then all go on; memory of a block is poisoned when it
// begins. An error: two lanes at one element, one of them writing, with no barrier between, wherever it lies and whichever
// blocks they are of; a barrier that not all lanes of the block reach. A copy comes to lie where it goes at the wait for its group, and no earlier: until
// then that place is poisoned, so that a missing wait is a wrong result. A block that ends before its copies is an error, too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::loop {

struct Run {
  std::vector<std::span<std::byte>> buffers;                    // per parameter
  std::function<std::optional<int64_t>(const ir::Sym*)> value;  // of the kernel's scalars
  int64_t tile_begin = 0, tile_end = -1;                        // -1: all tiles
  std::vector<int64_t> chunks;                                  // per cut; those that are missing: all of the axis
};

// The chunk of each cut, and how many tiles that makes. Internal if an extent has no value, or a chunk none from 1 to units.
struct Division {
  std::vector<int64_t> chunks;
  int64_t tiles = 0;
};
Result<Division> divide(const Kernel& kernel, const Run& run);

// The fault code of the kernel (0: none), or a Status for a broken rule: an access out of range, a division by zero.
Result<int32_t> interpret(const Kernel& kernel, const Run& run);

}  // namespace mlc::loop
