// Products of codes of 8 bits on tensor cores, or four by four in a lane: what their factors are to the instruction, and how many lie side by side along the depth.
#pragma once

#include "packager/lower/device/product/product.h"

namespace mlc::lower {

// A factor of codes of 8 bits (product/codes.h). `type` is what an instruction takes them for; where `flipped`, those in memory have the first bit otherwise.
struct CodeSide {
  DType type = DType::None;
  bool flipped = false;
};

// Whether both factors are codes, as they are, less 128, or with a code where nothing is read, and their sum is i32.
bool is_product_of_codes(const DeviceProduct& p);

// The instruction of a tile whose lanes multiply four codes by four at once (ir::Op::Dot); empty: there is none for this product.
std::string dot_instruction(const Job& job, const DeviceProduct& p);
// Turns the factor into its load: conditions become terms of the side, and what is read instead becomes its `outside`.
CodeSide take_codes(ir::Context& ctx, DeviceProduct::Side& side);

// Of `most` elements, or else of `least`, which is a cell.
DepthRuns depth_runs(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t most, int64_t least);

}  // namespace mlc::lower
