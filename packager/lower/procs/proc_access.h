// The statements of a proc in flat form: addresses, and conditions where nothing proves that an index is in range. Loops whose
// bounds are extents become dims, whose range the prover knows.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "packager/lower/flat/flat.h"
#include "packager/nest/proc.h"

namespace mlc::lower {

class ProcAccess {
 public:
  ProcAccess(ir::Context& ctx, const nest::Function& f, const nest::Proc& p);

  // Where arrays of the block lie.
  enum class Locals {
    Worker,       // those of constant size in scratch (`scratch`, numbered behind `params`), the others in a workspace with one part per instance
    Instance,     // all in such workspaces: several workers share an instance
    Interleaved,  // in workspaces, element by element those of all instances side by side, which are neighbouring lanes of a device
  };
  void place_locals(const ir::Expr* instances, Locals place);
  void at_instance(const ir::Expr* number) { instance_ = number; }

  const ir::Expr* flat(const ir::Expr* e);
  FlatWrite write(const loop::Stmt& store);
  // The address of a load or store of the proc as it stands there, with variables for loops.
  const ir::Expr* address(uint32_t array, const std::vector<const ir::Expr*>& index) const;
  bool in_panels(uint32_t array) const { return array < nest::kFirstLocal && !f_.arrays[array].layout.pieces.empty(); }

  // Runs `body` with the variable of a For standing for the values between its bounds, which are flat. There it is
  // begin + d; without d (null) it is `var`.
  struct Loop {
    const ir::Dim* d = nullptr;
    const ir::Expr *begin = nullptr, *end = nullptr;
  };
  Loop loop_of(const loop::Stmt& s);
  void within(const loop::Stmt& s, const Loop& loop, const ir::Expr* var, const std::function<void()>& body);
  // Runs `body` where this flat condition holds.
  void where(const ir::Expr* condition, const std::function<void()>& body);
  bool changes(const ir::Expr* var) const { return locals_that_change_.contains(var); }
  // Whether so many more dims may be made; facts about expressions are sets of few dims.
  bool room_for(unsigned dims) const { return dims_ + dims <= kMostDims; }
  const ir::Dim* new_dim(std::string name, const ir::Expr* extent);

  Params params;
  std::vector<loop::LocalArray> scratch;

 private:
  struct Local {
    bool constant = false;
    uint32_t buffer = 0;
    const ir::Expr* elements = nullptr;  // of one instance
  };
  const ir::Expr* local_address(uint32_t local, const std::vector<const ir::Expr*>& index);
  const ir::Expr* flat_load(const ir::Expr* load);
  // What is to be checked of an index; null: nothing. `always`: in range whatever the conditions around are.
  const ir::Expr* unproved(const std::vector<const ir::Expr*>& index, const std::vector<const ir::Expr*>& shape, bool& always);
  bool usable(const ir::Expr* condition) const;

  static constexpr int64_t kMaxScratchElements = 4096;
  static constexpr unsigned kMostDims = 60;
  static constexpr size_t kMostFacts = 16;  // conditions that a proof may use
  ir::Context& ctx_;
  const nest::Function& f_;
  const nest::Proc& p_;
  std::vector<Local> locals_;
  const ir::Expr *instance_ = nullptr, *instances_ = nullptr;  // instances_: set where locals are interleaved
  std::unordered_map<const ir::Expr*, const ir::Expr*> loops_;  // variables of loops to what they are
  std::vector<const ir::Expr*> given_;
  std::unordered_set<const ir::Expr*> locals_that_change_;
  std::unordered_map<const loop::Stmt*, const ir::Dim*> dim_of_;
  unsigned dims_;
};

}  // namespace mlc::lower
