// How many turns the loops of a device kernel make: for devices that end loops after a number of turns, without an error.
#pragma once

#include <cstdint>

#include "packager/ir/context.h"
#include "packager/loop/loop.h"

namespace mlc::loop {

inline constexpr int64_t kManyTurns = INT32_MAX;

// As many as the loops of one lane make at most, all loops together, as devices count them that run lanes in groups: the end of a loop
// is one more turn, both sides of an If are walked, and the loops that emitters make of an operation (remainders of floats, powers
// of integers) count as well. An extent over the kernel's scalars, with a value whatever they are; kManyTurns stands for as many
// and all above. Null: no bound can be told, since what was loaded or computed decides.
const ir::Expr* back_edges(ir::Context& ctx, const Kernel& kernel);

}  // namespace mlc::loop
