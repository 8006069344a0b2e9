// Loops of procs in lanes: the iterations of a loop that do not see each other (nest/facts/independent.h) run side by side, several
// vectors of them at once, statement by statement. A fold inside is then a loop over vectors of sums, one per lane; a
// loop that is a fold itself has a partial result per lane.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "packager/lower/flat/body.h"
#include "packager/lower/procs/proc_access.h"
#include "packager/lower/walk/templates.h"
#include "packager/nest/facts/independent.h"

namespace mlc::lower {

struct InLanes {
  nest::Independent facts;
  unsigned lanes = 1;
  unsigned copies = 1;  // vectors at once: as many sums as hide the latency of an addition
  bool panels = false;  // reads an array that is stored in panels: vectors must not cross them
};

// Which loops of a proc run in lanes: those where the estimate says that it pays, seen from outside.
class LanePlan {
 public:
  LanePlan(const Job& job, const ProcAccess& access, const nest::Proc& p);
  const InLanes* of(const loop::Stmt& loop) const;
  double operations(const loop::Stmt& loop) const { return costs_.at(&loop); }  // that it takes, roughly
  double operations_of_conditions(const std::vector<loop::StmtPtr>& block) const;  // and of names beside them

 private:
  struct Lanes;  // of the loop that is looked at
  double choose(const std::vector<loop::StmtPtr>& block);
  double choose(const loop::Stmt& s);
  double choose_for(const loop::Stmt& loop, double one);
  double cost(const std::vector<loop::StmtPtr>& block, const Lanes* in) const;
  double cost(const ir::Expr* e, const Lanes* in) const;
  double access_cost(uint32_t array, const std::vector<const ir::Expr*>& index, const Lanes* in) const;
  bool fit(const loop::Stmt& s, InLanes& how) const;

  ir::Context& ctx_;
  const unsigned vector_bytes_;
  const targets::ProcessorRow& machine_;
  const ProcAccess& access_;
  const ir::Expr* aligned_;  // 16*c + l, with the dim l
  std::unordered_map<const loop::Stmt*, InLanes> chosen_;
  std::unordered_map<const loop::Stmt*, double> costs_;
};

// The iterations of a shared loop (nest/facts/phases.h) that one worker has: of its whole quanta those from `begin` to `end`, and what fills
// none if it is the last one.
struct SharedPart {
  int64_t quantum = 1;  // a multiple of the iterations that a loop in lanes makes at once
  const ir::Expr *begin = nullptr, *end = nullptr, *is_last = nullptr;
};

// Emits one loop in lanes.
class LaneLoop {
 public:
  // `one`: emits the body for one iteration, where the rest that fills no vector has no masks.
  LaneLoop(Body& body, loop::Builder& b, ProcAccess& access, const loop::Stmt& loop, const InLanes& how,
           std::function<void()> one)
      : s_(body), b_(b), ctx_(body.ctx), access_(access), loop_(loop), how_(how), one_(std::move(one)) {}
  void run(const ProcAccess::Loop& bounds, const SharedPart* part = nullptr);
  static constexpr unsigned kDims = 4;  // that a loop in lanes may add

 private:
  struct Copy {
    std::unordered_map<const ir::Expr*, const ir::Expr*> is;  // the loop's dim, and variables that differ between copies
    const ir::Expr* mask = nullptr;                           // of conditions that vary; null: all lanes
  };
  void whole_groups(const SharedPart* part);
  void rest();
  void join_partials();
  void vectors(const std::vector<const ir::Expr*>& at, const ir::Expr* tail);
  void block(const std::vector<loop::StmtPtr>& stmts);
  void stmt(const loop::Stmt& s);
  void define(const loop::Stmt& s);
  void assign(const loop::Stmt& s);
  void store(const loop::Stmt& s);
  void branch(const loop::Stmt& s);
  void inner_loop(const loop::Stmt& s);
  bool varies(const ir::Expr* e) const { return how_.facts.varies(e, loop_.var); }
  bool masked() const { return copies_[0].mask != nullptr; }
  const ir::Expr* of(const Copy& c, const ir::Expr* flat) { return ctx_.substitute(flat, c.is); }
  const ir::Expr* wide(const ir::Expr* e) { return loop::splat(ctx_, e, how_.lanes); }
  const ir::Expr* next_of(const Copy& c, const loop::Stmt& s, const ir::Expr* flat, const ir::Expr* old);

  Body& s_;
  loop::Builder& b_;
  ir::Context& ctx_;
  ProcAccess& access_;
  const loop::Stmt& loop_;
  const InLanes& how_;
  std::function<void()> one_;
  const ir::Dim *v_ = nullptr, *lane_ = nullptr;
  std::vector<std::vector<const ir::Expr*>> partials_;  // of each joined local, one per copy
  std::vector<Copy> copies_;
};

}  // namespace mlc::lower
