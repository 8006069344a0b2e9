// The statements that compute a convolution in tiles (forms/winograd.h).
#pragma once

#include "packager/passes/forms/convolution.h"

namespace mlc::passes {

// A window of stride s is the sum of s windows of stride 1, each over one of s places in turn ("phases"); those that lack a tap have a zero.
int64_t taps_of_phase(const Convolution::Axis& axis);
// Whether it is known how many points are left behind whole tiles.
bool knows_rest(ir::Context& ctx, const ir::Dim* d, int64_t tile);
// The statements that replace the convolution's, at `points` along each axis; `points` > taps of a phase.
std::vector<nest::Statement> in_tiles(ir::Context& ctx, nest::Function& f, const Convolution& conv, int64_t points);

}  // namespace mlc::passes
