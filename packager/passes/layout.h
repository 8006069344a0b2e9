// Assigns a layout to every array: which axis of an activation is contiguous, and panels for the weights of
// contractions. Inputs and outputs of the function keep row-major order.
#pragma once

#include "packager/passes/passes.h"

namespace mlc::passes {

// Activations. A contraction (a sum of products of two loads) wants the reduced axis of its left operand innermost that
// no window slides over, and its column axis innermost in the result. An array gets what the contraction with the most
// work wants. Arrays that no contraction touches follow their neighbours through indices that are plain dims, so chains
// of maps, pooling and transposes stay in one order.
//
// Weights. A constant that is one operand of a contraction becomes panels of 16 columns, "[taps..][N/16][K][16]"
// (design: kernels.md section 4); one whose column axis also indexes the other operand (depthwise convolution) becomes
// "[taps..][K][N]", the case K = 1. A constant read in any other way as well keeps row-major order.
Status assign_layouts(ir::Context& ctx, nest::Function& function);

}  // namespace mlc::passes
