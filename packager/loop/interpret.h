// The meaning of Loop, executed slowly on host buffers: the oracle for emitters and the first check of lowering. Every
// access is checked against its buffer, every operand for its type; NaN and wrap-around behave as expr.h says.
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
};

// The fault code of the kernel (0: none), or a Status for a broken rule: an access out of range, a division by zero.
Result<int32_t> interpret(const Kernel& kernel, const Run& run);

}  // namespace mlc::loop
