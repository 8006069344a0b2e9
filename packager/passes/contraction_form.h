// What a contraction is to the layout pass: a sum of products of two loads, its operands and the roles of its dims.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::passes {

struct ContractionForm {
  const nest::Write* write = nullptr;
  const ir::Expr* fold = nullptr;
  const ir::Expr *left = nullptr, *right = nullptr;  // loads; `right` is the constant one, or the one with the columns
  const ir::Dim* column = nullptr;                   // map dim that only `right` and the result depend on; null if none
  const ir::Dim* channel = nullptr;                  // without a column: the map dim that indexes both (depthwise)
  std::set<const ir::Dim*> windows;                  // fold dims that slide: they share an index of `left` with a map dim
  double work = 0;                                   // multiply-adds, free extents taken as 64
};

// The contraction in `nest`, if its only write holds exactly one.
std::optional<ContractionForm> contraction_in(const nest::Function& function, const nest::Nest& nest);

// Dims that `e` depends on, folds inside it included.
std::set<const ir::Dim*> dims_in(const ir::Expr* e);

}  // namespace mlc::passes
