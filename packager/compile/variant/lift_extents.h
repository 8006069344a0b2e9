// What a kernel computes of symbols alone is the same in all of its calls: the plan computes it, and the kernel gets it as
// a scalar. Kernels that differ only in such numbers, as those of the pieces of a Concat, are then one.
#pragma once

#include <span>
#include <vector>

#include "packager/loop/loop.h"

namespace mlc::compile {

// Puts a symbol for every such number in the kernel. The value of each scalar of the kernel, over the symbols from before. Kernels
// come to no quotient by zero, so that of what may be zero the plan takes one instead. What may have no value else (a real number) stays in
// the kernel, unless it is part of what the plan computes in any case: of `computed`, the sizes of the kernel's arrays.
std::vector<const ir::Expr*> lift_extents(ir::Context& ctx, loop::Kernel& kernel, std::span<const ir::Expr* const> computed = {});

}  // namespace mlc::compile
