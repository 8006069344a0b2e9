// Products of codes of 8 bits on tensor cores: what their factors are to the instruction, and how many lie side by side along the depth.
#pragma once

#include "packager/lower/device/device_product.h"

namespace mlc::lower {

// Whether both factors are codes, as they are, less 128, or with a code where nothing is read, and their sum is i32.
bool is_product_of_codes(const DeviceProduct& p);

// A side of such a product. `type` is what the instruction takes its codes for; where `flipped`, those in memory have the first bit otherwise.
struct CodeSide {
  DType type = DType::None;
  bool flipped = false;
};
// Turns the factor into its load: conditions become terms of the side, and what is read instead becomes its `outside`.
CodeSide take_codes(ir::Context& ctx, DeviceProduct::Side& side);

// Elements of a factor that lie side by side along the depth, at a multiple of `length` in memory: those of index q of the last dim of the depth, counted in
// runs, begin at length * (base + q * step). Length 1: none do.
struct DepthRuns {
  int64_t length = 1;
  const ir::Expr *base = nullptr, *step = nullptr;
};
// Of `most` elements, or else of `least`, which is a cell.
DepthRuns depth_runs(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t most, int64_t least);

}  // namespace mlc::lower
