// Offsets in the arena for buffers with lifetimes.
#pragma once

#include <cstdint>
#include <vector>

#include "packager/ir/context.h"

namespace mlc::plan {

struct Interim {
  const ir::Expr* bytes = nullptr;  // constant or symbolic
  uint32_t first = 0, last = 0;     // launches between which it lives, inclusive
  const ir::Expr* offset = nullptr; // result
};

constexpr int64_t kArenaAlignment = 64;  // of processors; a device may want more (targets::Target::buffer_alignment)

// Sets every offset, a multiple of `alignment`, so that buffers that live at the same time do not overlap, and returns the size
// of the arena. Symbolic buffers are ordered by their size at `typical` values of the symbols.
const ir::Expr* place_in_arena(ir::Context& ctx, std::vector<Interim>& buffers, int64_t alignment = kArenaAlignment);

}  // namespace mlc::plan
