// How several workers share one instance of a proc whose outer loop carries something from turn to turn (a recurrence): all of them make
// its turns together, phase by phase, and of the loops inside that have independent iterations each has a part. They meet between phases.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "packager/nest/proc.h"

namespace mlc::nest {

// A phase is some statements of the proc in their order. What is in none (`of`) stores nothing and is computed by all workers: the
// outermost of such statements before anything else, those of the body of `carried` at the beginning of a turn.
struct Phases {
  const loop::Stmt* carried = nullptr;  // a loop of the proc's own body, of step 1 and between extents
  uint32_t before = 0, inside = 0, behind = 0;  // phases before that loop, of one turn of it, behind it; numbered in this order
  std::unordered_map<const loop::Stmt*, uint32_t> of;
  std::unordered_set<const loop::Stmt*> opened;  // an If of several phases, without another arm: its condition holds or not for all of these
  std::vector<const loop::Stmt*> shared;  // loops of which each worker has a part; equal bounds, equal parts. All stores are in one
  uint32_t count() const { return before + inside + behind; }
};

// Nothing if the proc has no such loop, or a phase would need what another worker computes in it. Within a phase an element that is stored
// is touched by one part of one shared loop, or of several of equal bounds.
std::optional<Phases> phases_of(ir::Context& ctx, const Proc& proc);

}  // namespace mlc::nest
