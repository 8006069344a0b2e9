// How the lanes of a block share one instance of a proc that is no recurrence (phases.h): scalars are the same in all lanes, which walk the
// proc together as far as it leads to loops that they share; what stores, and loops between these, one lane does for all.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "packager/nest/facts/independent.h"
#include "packager/nest/proc.h"

namespace mlc::nest {

struct Uniform {
  std::unordered_map<const loop::Stmt*, Independent> shared;  // loops of which each lane has every so many iterations
  // Loops whose iterations do nothing unless some condition holds: lanes look for the next one of which one does, all of them make it together.
  // Until then nothing changes, so that each iteration between is as it would be in its turn.
  std::unordered_set<const loop::Stmt*> searched;
  std::unordered_set<const loop::Stmt*> open;                 // loops and Ifs that are searched, or have such loops inside: what decides on them is the same in all lanes
  std::unordered_set<uint32_t> stored;                        // arrays that the proc stores to: what they hold is known to the lane that stored it
  bool reads_stored(const ir::Expr* e) const;
  // Names and Ifs alone, of which what decides on them reads nothing that is stored.
  bool is_conditional(const std::vector<loop::StmtPtr>& stmts) const;
  // Whether a shared loop touches arrays that are stored: the lanes meet before it and behind it.
  bool touches_stored(const loop::Stmt& loop) const;
};

// Loops that lanes may share have independent iterations (independent.h), and what these join has the same bits in any order: integers and Bools.
// Of nested ones it is the outermost for which `pays` says so. Null: it would be searched.
using Pays = std::function<bool(const loop::Stmt& loop, const Independent* facts)>;
Uniform uniform_of(ir::Context& ctx, const Proc& proc, const Pays& pays);

// Variables from outside of a statement that it assigns, in the order of the text.
std::vector<const ir::Expr*> assigned_by(const loop::Stmt& s);

}  // namespace mlc::nest
