// What procs want of the layout of their weights.
#pragma once

#include <vector>

#include "packager/nest/nest.h"

namespace mlc::passes {

struct WeightLayout {
  uint32_t array = 0;
  nest::Layout layout;
};

// Constants that a loop with independent iterations (nest/facts/independent.h) reads along one axis N, and a loop inside of it along
// another, K: [N/16][K][16] where the loop begins at a panel, else [K][N]; other axes stay outermost. One entry per array.
std::vector<WeightLayout> weights_of(ir::Context& ctx, const nest::Function& f, const nest::Proc& proc);

}  // namespace mlc::passes
