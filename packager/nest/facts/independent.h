// Which loops of a proc have iterations that do not see each other: those may run at the same time, one per lane.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "packager/ir/context.h"
#include "packager/loop/loop.h"

namespace mlc::nest {

struct Independent {
  // Variables of the body that may have another value in each iteration. Those are in no index: an index that varies is
  // made of the loop's own variable. Variables of loops inside are not among them.
  std::unordered_set<const ir::Expr*> varying;
  // Locals from outside to which iterations only join something (`s = s + x`), and how. The order is not kept: a sum of real
  // numbers whose order counts is named before it is assigned (lang/expand/procs.cpp).
  struct Joined {
    const ir::Expr* local;
    ir::Join how;
  };
  std::vector<Joined> joined;
  bool joins(const ir::Expr* local) const;

  // Whether `e` differs between iterations of the loop over `var`.
  bool varies(const ir::Expr* e, const ir::Expr* var) const;
};

// Nothing if iterations of `loop`, a For of a proc, may depend on each other: each array that it stores to must be touched at
// places that differ in some axis, by the same index at every access. `gathers`: what the loop does not store to is read at any places, which lanes
// that have registers of their own do as well.
std::optional<Independent> independent(ir::Context& ctx, const loop::Stmt& loop, bool gathers = false);

}  // namespace mlc::nest
