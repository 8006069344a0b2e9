// What of a product is kernels of its own (parts.cpp): the runs that it tells apart, and the parts of the fold that it adds up.
#pragma once

#include "packager/lower/device/product/fill.h"
#include "packager/lower/device/product/product.h"

namespace mlc::lower {

// Of how many points a product is for in `nest`, as far as it is free.
ProductSize product_size(const FlatNest& nest, const DeviceProduct& p);
// The cases of a product of one free side, fewest points first; the last one has no most. One: its schedule is for all. None: the product's own sizes say.
std::vector<ProductCase> product_cases(const Job& job, const FlatNest& nest, const DeviceProduct& p);
// Into how many parts of equal length which of its folded dims is cut. No dim: all of the fold is one kernel's.
struct FoldParts {
  const ir::Dim* dim = nullptr;
  int64_t parts = 1;
  bool in_cluster = false;  // blocks that run at once have them, of one launch; else the launch has parts, and another one adds them up
};
FoldParts fold_parts(const Job& job, const FlatNest& nest, const DeviceProduct& p);

}  // namespace mlc::lower
