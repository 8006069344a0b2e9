// Whether the rows of a batch are computed each by itself: then a run may divide them among devices (spec/container.md, Method).
#pragma once

#include "packager/ir/context.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// The batch symbol: the extent of axis 0 of every output, and of every input that has the symbol in its shape; row r of the
// outputs depends on row r of these inputs and on the other inputs, by the same expressions whatever r and the
// number of rows are. Null: there is none, or it cannot be proved.
const ir::Sym* independent_rows(ir::Context& ctx, const Function& f);

}  // namespace mlc::nest
