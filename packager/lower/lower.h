// From Nest to Loop: one statement becomes one kernel, or a short sequence that shares workspaces.
//
// Addresses are resolved here: a parameter of a kernel is a flat buffer, and every load and store has a linear element
// index from the layout of its array. Free symbols become scalars of the kernel, so one kernel serves all their values,
// extents of zero included. Templates (design: kernels.md section 5) are tried in order; the generic one takes all:
//   contraction  one sum of products of two loads: register tiles, panels, epilogue on the accumulators
//   stencil      small constant windows with a contiguous dim (depthwise convolution, pooling)
//   transpose    maps whose write and loads are contiguous along different dims: blocks through scratch memory
//   generic      maps, folds, scans and pushes, vectorised along the contiguous dim
//   proc         imperative blocks
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"
#include "packager/nest/group.h"
#include "packager/nest/nest.h"
#include "targets/target.h"

namespace mlc::lower {

// The text of a transcendental function: an expression over `arg` in basic operations (from ops/math.mlop), of the type
// of `arg`. Null if there is none for this operation and type, which makes lowering fail.
using MathExpander = std::function<const ir::Expr*(ir::Context&, ir::Op, const ir::Expr* arg)>;

// Of one statement there are several lowerings, each meant to need a smaller stack frame than the one before: the first
// is what the templates choose; then values are kept in registers in innermost loops only, with vectors of half the
// width, and of half of that; then without vectors and tiles; then without keeping any value. Kernels may have frames of
// at most `targets::kMaxFrame` bytes; nearly all have with the first.
inline constexpr unsigned kRungs = 6;

// Kernels to be launched in order, each after the one before. Names are "<source>" with unsuitable characters
// replaced, then ".1", ".2" for the second and third. Deterministic. Every kernel passes loop::verify.
// Fails with Code::Unsupported where an operation has no form in Loop.
Result<std::vector<loop::Kernel>> lower(ir::Context& ctx, const nest::Function& function,
                                        const nest::Statement& statement, const targets::Target& target,
                                        const MathExpander& expand, unsigned rung = 0);

// All of a group in one kernel, behind those that prepare what it reads. Nothing: its statements are better lowered one by one, or
// this target cannot have local arrays whose size the run decides.
Result<std::optional<std::vector<loop::Kernel>>> lower_group(ir::Context& ctx, const nest::Function& function, const nest::Group& group,
                                                             const std::string& source, const targets::Target& target,
                                                             const MathExpander& expand);

}  // namespace mlc::lower
