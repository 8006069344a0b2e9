// Loops of procs that are written out: those over the elements of small local arrays whose places are all numbers then, so that each
// element has a register (targets/llvm/cpu_frame.cpp). Without that, what is carried from one round to the next goes through memory.
#pragma once

#include <functional>
#include <unordered_set>

#include "packager/nest/proc.h"

namespace mlc::lower {

// `in_lanes`: says of a loop if it would run in lanes. A local array all of whose loops do stays an array.
std::unordered_set<const loop::Stmt*> unrolled_loops(const nest::Proc& p, const std::function<bool(const loop::Stmt&)>& in_lanes);

}  // namespace mlc::lower
