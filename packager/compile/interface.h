// The interface of a program, as the manifest states it, from the function that computes it.
#pragma once

#include "packager/nest/nest.h"
#include "schema/manifest.h"

namespace mlc::compile {

// Ports are the inputs and outputs that are no states; `state` lists these by their inputs. Symbols become the method's dims. An extent that follows from them is written as an expression over their names where
// the manifest's grammar can say it, else as a dim of its own ("<port>.<axis>") that only the plan knows how to compute; so is one that only the run tells.
format::Method method_of(const nest::Function& function);

// Whether the input or output of this place is a state, which is no port: `side` is &State::input or &State::output.
bool is_state(const nest::Function& function, size_t place, uint32_t nest::Function::State::*side);

}  // namespace mlc::compile
