// Kernels that are equal up to a few integers become one kernel, which is told them as scalars: the pieces of a concatenation,
// the steps of an unrolled recurrence. Code is compiled once for all of them.
//
// Open to that are integers that addresses add, and, where a kernel accumulates nothing (it copies or maps), those that
// addresses multiply, bounds of loops and of masks. A divisor stays what it is: the machine divides by a constant without
// dividing. Few kernels keep their integers too, and so do those that would be told many.
#pragma once

#include <vector>

#include "packager/ir/context.h"
#include "packager/loop/loop.h"

namespace mlc::compile {

// What a kernel became.
struct SharedKernel {
  uint32_t number = 0;                  // of the kernel that does its work
  std::vector<const ir::Expr*> scalars; // constants, to be passed after its own scalars
};

// `kernels` keeps one of each, in order. What is told of one stands at its number in the list before.
std::vector<SharedKernel> share_kernels(ir::Context& ctx, std::vector<loop::Kernel>& kernels);

}  // namespace mlc::compile
