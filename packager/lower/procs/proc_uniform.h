// An instance of a proc by the lanes of one block (nest/facts/uniform.h). Scalars are the same in all lanes: each computes them, or the first
// lane does and tells the others by a fold. Loops that lanes share are folded across them. What the proc stores, the first lane stores.
#pragma once

#include <functional>
#include <vector>

#include "packager/lower/flat/body.h"
#include "packager/lower/procs/proc_access.h"
#include "packager/lower/procs/proc_lanes.h"
#include "packager/nest/facts/uniform.h"

namespace mlc::lower {

class UniformWalk {
 public:
  // `plain`: emits a statement as one lane makes it. All of these must outlive the walk.
  UniformWalk(Body& body, loop::Builder& b, ProcAccess& access, const nest::Uniform& facts, unsigned lanes, std::function<void(const loop::Stmt&)> plain)
      : s_(body), b_(b), ctx_(body.ctx), access_(access), facts_(facts), lanes_(lanes), plain_(std::move(plain)) {}
  void run(const std::vector<loop::StmtPtr>& stmts, const ir::Expr* lane);

  // Operations that it spares an instance, or one of its loops that is shared or (facts null) searched: folds of lanes take some.
  static double spared(const nest::Uniform& facts, const std::vector<loop::StmtPtr>& stmts, unsigned lanes, const LanePlan& plan);
  static double spared_by(const loop::Stmt& s, const nest::Independent* facts, unsigned lanes, const LanePlan& plan);

 private:
  enum class Way : uint8_t {
    Shared,   // a part for each lane
    Searched, // lanes look for the next iteration that does something, which is walked
    Alike,    // all lanes, each for itself: nothing is stored, and nothing read that is
    Walked,   // its condition or its bounds alike, what is in it each by its own way
    Defined,  // a name of what the first lane reads
    First,    // the first lane alone, whose assignments the others are told
  };
  static Way way_of(const nest::Uniform& facts, const loop::Stmt& s);
  void block(const std::vector<loop::StmtPtr>& stmts);
  void walk(const loop::Stmt& s);
  void walked(const loop::Stmt& s);
  void shared(const loop::Stmt& s);
  void in_turns(const ir::Dim* d, const std::function<void()>& body);
  void searched(const loop::Stmt& s);
  void test(const std::vector<loop::StmtPtr>& stmts, const ir::Expr* found);
  void defined(const loop::Stmt& s);
  void by_first(const std::vector<const ir::Expr*>& assigned, const std::function<void()>& body);
  void if_first(const std::function<void()>& body);
  const ir::Expr* of_first(const ir::Expr* value);
  const ir::Expr* value(const ir::Expr* flat);

  Body& s_;
  loop::Builder& b_;
  ir::Context& ctx_;
  ProcAccess& access_;
  const nest::Uniform& facts_;
  const unsigned lanes_;
  std::function<void(const loop::Stmt&)> plain_;
  const ir::Expr *lane_ = nullptr, *is_first_ = nullptr;
};

// Behind a fault a lane of a block goes on, since others wait for it: here past the rest of the statements that stand beside it, which rely on
// what was checked. `instead`: of a fault.
void pass_by_faults(loop::Block& block, const std::function<loop::StmtPtr(loop::StmtPtr)>& instead);

}  // namespace mlc::lower
