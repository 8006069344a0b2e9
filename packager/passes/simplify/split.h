// Divisions by extents that the run decides.
#pragma once

#include "packager/passes/util.h"

namespace mlc::passes {

// Whether an index of the statement divides by something that is no number.
bool divides_by_extents(const nest::Statement& s);

}  // namespace mlc::passes
