// Whether the rows of a batch are computed each by itself: then a run may divide them among devices (spec/container.md, Method).
#pragma once

#include "packager/ir/context.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// The symbol whose rows are: it is the extent of the first axis of every output, and of every input that knows of it; row r of the
// outputs follows from row r of these inputs and from what the other inputs hold, by the same expressions whatever r and the
// number of rows are. Null: there is none, or it cannot be proved.
const ir::Sym* independent_rows(ir::Context& ctx, const Function& f);

}  // namespace mlc::nest
