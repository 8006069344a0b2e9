// A convolution with fewer multiplications (Winograd; Lavin and Gray, arXiv 1509.09308).
//
// Outputs are made in tiles of 4x4 or 2x2. With constant matrices B, G and A per tile size,
//   V = B' x B    the inputs under a tile, 6x6 or 4x4 of them, for each channel c
//   U = G w G'    the weights: constants, derived when the model is opened
//   M = sum over c of V*U,  at each of the 36 or 16 places on its own: that many products of matrices, in panels
//   y = A' M A    and then what the convolution had around its sum
// which takes 2.25 multiplications per output and channel, or 4, instead of 9. Sums and products by small numbers are what
// it costs, memory for V and M, and some accuracy: the largest error grows to 3e-6 (2x2) or 1e-5 (4x4) of max |y|. An
// input that is no number spoils the whole tile.
#pragma once

#include "base/status.h"
#include "packager/nest/nest.h"

namespace mlc::passes {

// Rewrites the convolutions of `f` that gain by it: f32, weights constant, 3x3, stride 1, dilation 1, one group; channels
// innermost in memory (so layouts are assigned before). Their weights U are arrays of kind Derived, of at most
// `most_derived` bytes together: those that save most time per byte come first.
Status winograd(ir::Context& ctx, nest::Function& f, uint64_t most_derived);

// Rewrites one statement with tiles of 2x2 or 4x4 whatever that costs; false: it is no such convolution.
bool winograd_in_tiles(ir::Context& ctx, nest::Function& f, size_t statement, int64_t tile);

}  // namespace mlc::passes
