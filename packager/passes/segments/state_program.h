// States of a function that a program runs (passes/partition.h): segments read and write them, around a program without any.
#pragma once

#include "packager/passes/segments/partition.h"

namespace mlc::passes {

// Adds the program "F", which has F's ports, and what it calls: the segments "F/load", whose outputs are the states, and "F/save", whose
// inputs they are. `function` becomes "F/run", to which states are inputs and outputs as any other.
void add_state_program(nest::Function& function, Parts& parts);

}  // namespace mlc::passes
