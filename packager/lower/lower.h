// From Nest to Loop: one statement becomes one kernel, or a short sequence that shares workspaces.
//
// Addresses are resolved here: a parameter of a kernel is a flat buffer, and every load and store has a linear element
// index from the layout of its array. Free symbols become scalars of the kernel, so one kernel serves all their values,
// extents of zero included. How a statement is computed is a schedule (packager/schedule), a value; families of these are
// tried in order, the maps take all:
//   product, thin  one sum of products of two loads: register tiles, panels, epilogue on the accumulators
//   window         small constant windows with a contiguous dim (depthwise convolution, pooling)
//   transpose      maps whose write and loads are contiguous along different dims: blocks through scratch memory
//   map            maps, folds, scans and pushes, vectorised along the contiguous dim
//   proc           imperative blocks
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"
#include "packager/nest/facts/group.h"
#include "packager/nest/nest.h"
#include "packager/schedule/schedule.h"
#include "targets/target.h"

namespace mlc::lower {

// The text of a transcendental function: an expression over `arg` in basic operations (from ops/math.mlop), of the type
// of `arg`. Null if there is none for this operation and type, which makes lowering fail.
using MathExpander = std::function<const ir::Expr*(ir::Context&, ir::Op, const ir::Expr* arg)>;

// Schedules for a statement, best first, at most eight. Kernels may have stack frames of at most `targets::kMaxFrame` bytes, and
// nearly all by the first have; the caller tries the next if one does not. The last has no vectors and keeps no value.
Result<std::vector<schedule::Schedule>> candidates(ir::Context& ctx, const nest::Function& function, const nest::Statement& statement,
                                                   const targets::Target& target);

// Schedules that are good somewhere, the first one is what `lower` takes: what is worth measuring. At most sixteen, one where there
// is nothing to choose; code of any of them may still need a larger stack frame than there is.
Result<std::vector<schedule::Schedule>> alternatives(ir::Context& ctx, const nest::Function& function, const nest::Statement& statement,
                                                     const targets::Target& target);

// Kernels to be launched in order, each after the one before, by the first candidate or by the schedule given. Names are
// "<source>" with unsuitable characters replaced, then ".1", ".2" for the second and third. Deterministic. Every kernel passes
// loop::verify. Fails with Code::Unsupported where an operation has no form in Loop, with Code::Malformed where the schedule
// does not suit the statement.
Result<std::vector<loop::Kernel>> lower(ir::Context& ctx, const nest::Function& function, const nest::Statement& statement,
                                        const targets::Target& target, const MathExpander& expand, const schedule::Schedule* how = nullptr);

// For profiles: multiplications and additions of a kernel that is a product on a device, or a part of one; an extent. Null: it is none.
const ir::Expr* product_operations(ir::Context& ctx, const loop::Kernel& kernel, const targets::Target& target);

// All of a group in one kernel, behind those that prepare what it reads, by the schedule given or the first of `group_alternatives`. Nothing:
// its statements are better lowered one by one, or this target cannot have local arrays whose size the run decides; on a device, they are
// no attention. Malformed where the schedule does not suit the group.
Result<std::optional<std::vector<loop::Kernel>>> lower_group(ir::Context& ctx, const nest::Function& function, const nest::Group& group,
                                                             const std::string& source, const targets::Target& target,
                                                             const MathExpander& expand, const schedule::Schedule* how = nullptr);

// As `alternatives`: other rows of a block, and for one nest at a time another schedule; on a device, of attention. None where `lower_group`
// gives nothing.
Result<std::vector<schedule::Schedule>> group_alternatives(ir::Context& ctx, const nest::Function& function, const nest::Group& group,
                                                           const targets::Target& target);

}  // namespace mlc::lower
