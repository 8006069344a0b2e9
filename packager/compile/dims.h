// Bounds of a model's free extents, as the user gives them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/model/model.h"

namespace mlc::compile {

// Bounds of a free extent ("--dim batch=1..8"); equal ends freeze it.
struct DimBound {
  std::string name;
  int64_t lo = 0, hi = INT64_MAX;
};

// Bounds on free extents are declared, fixed ones replace the name wherever it stands.
Status apply_bounds(ir::Context& ctx, const std::vector<DimBound>& bounds, model::Model& model);

}  // namespace mlc::compile
