// A convolution with fewer multiplications (Winograd; Lavin and Gray, arXiv 1509.09308), along one axis or two.
//
// Outputs are made in tiles. With constant matrices B, G and A (forms/transforms.h), of 4, 6 or 8 points along an axis,
//   V = B' x B    the inputs under a tile, for each channel c
//   U = G w G'    the weights: constants, derived when the model is opened
//   M = sum over c of V*U,  at each place of a tile on its own: that many products of matrices, in panels
//   y = A' M A    and then what the convolution had around its sum
// A 3x3 window takes 2.25 multiplications per output and channel at 6x6 points, or 4 at 4x4, instead of 9; five taps along one axis
// take 2 at 8 points. Sums and products by small numbers are what it costs, memory for V and M, and some accuracy: the largest error grows to
// 3e-6 (4 points) or 1e-5 (6; 8, which are for one axis only) of max |y|. An input that is no number spoils the whole tile.
//
// A window that moves in strides of s is the sum of s windows that do not, each over every s-th input: more channels, fewer taps.
#pragma once

#include "base/status.h"
#include "packager/nest/nest.h"
#include "targets/machines.h"

namespace mlc::passes {

// Rewrites the convolutions of `f` that gain by it: f32, weights constant, dilation 1, one group; channels
// innermost in memory (so layouts are assigned before). Their weights U are arrays of kind Derived, of at most
// `most_derived` bytes together: those that save most time per byte come first. `device`: that gain there; null: on a processor.
Status winograd(ir::Context& ctx, nest::Function& f, uint64_t most_derived, const targets::DeviceRow* device = nullptr);

// Rewrites one statement with tiles of 4, 6 or 8 points along each axis whatever that costs; false: it is no such convolution.
bool winograd_at_points(ir::Context& ctx, nest::Function& f, size_t statement, int64_t points);

}  // namespace mlc::passes
