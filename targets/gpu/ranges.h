// Which values index arithmetic takes: what fits in 32 bits is computed there, since devices emulate 64. Of what no interval shows, some
// is demanded of a launch (schema/gpu_module.h: narrow, has_few_lanes) and asked when shapes are bound.
#pragma once

#include "packager/ir/interval.h"
#include "packager/loop/loop.h"

namespace mlc::targets::gpu {

class Ranges : public ir::KernelIntervals {
 public:
  // What a loop or a let makes of its variable; before anything that it occurs in is asked for.
  void define(const loop::Stmt& s);
  // An i64 that is equal to its low half, sign-extended.
  bool fits(const ir::Expr* e);
};

// What is demanded of launches of a kernel: of symbols by which indices are divided or at which loops end, and of the number of lanes.
struct Demands {
  uint64_t narrow = 0;        // bit k: scalar k fits in 32 bits
  bool has_few_lanes = false; // there are 2^31 of all blocks together, at most
};
Demands demands_of(const loop::Kernel& kernel);
// What follows from them, and from the kernel's own bounds, of symbols and the number of a tile.
Ranges ranges_under(const loop::Kernel& kernel, const Demands& demands);

}  // namespace mlc::targets::gpu
