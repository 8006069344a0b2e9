// Removes what no output needs.
#pragma once

#include "packager/passes/passes.h"

namespace mlc::passes {

// Statements none of whose results reach an output are dropped, then arrays that nothing mentions; numbers of the
// remaining arrays change.
Status dead_code(ir::Context& ctx, nest::Function& function);

}  // namespace mlc::passes
