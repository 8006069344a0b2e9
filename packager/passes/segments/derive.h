// Derived constants leave the functions that read them. Statements that write arrays of kind Derived, out of constants or
// other derived ones, become the body of one segment that has neither inputs nor outputs; the runtime runs it once for each
// opened model. Their arrays stay, in both, with the number that plans know them by. The same constant asked for by two
// segments is derived once.
#pragma once

#include "packager/passes/segments/partition.h"

namespace mlc::passes {

// After all passes; the segments are ready to be lowered then.
void collect_derived(ir::Context& ctx, Parts& parts);

}  // namespace mlc::passes
