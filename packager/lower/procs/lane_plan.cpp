// Which loops of a proc run in lanes. The estimate counts operations: what is the same for all lanes, and neighbours in
// memory, cost as much for a vector as for one element; other accesses cost as much as the elements one by one.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "packager/ir/typical.h"
#include "packager/lower/procs/proc_lanes.h"
#include "packager/nest/facts/contraction.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using nest::kPanel;

namespace {

constexpr size_t kMostOfBody = 64;  // of a body that is emitted for several vectors

double trips(const Stmt& s) {
  if (ir::is_extent(s.begin) && ir::is_extent(s.end)) return std::max(0.0, estimate(s.end) - estimate(s.begin));
  return static_cast<double>(ir::Guess::Any);
}

void for_statements(const std::vector<loop::StmtPtr>& block, const std::function<void(const Stmt&)>& visit) {
  for (const loop::StmtPtr& s : block) {
    visit(*s);
    for_statements(s->body, visit);
    for_statements(s->orelse, visit);
  }
}

// Nodes of a value, apart from addresses; of each load only itself.
void for_values(const Expr* root, const std::function<void(const Expr*)>& visit) {
  std::vector<const Expr*> stack{root};
  std::unordered_set<const Expr*> seen;
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (!seen.insert(e).second) continue;
    visit(e);
    if (e->op != Op::Load) stack.insert(stack.end(), e->args.begin(), e->args.end());
  }
}

// Most sums that one loop inside of `block` adds to.
unsigned sums_in(const std::vector<loop::StmtPtr>& block, bool inside) {
  unsigned here = 0, most = 0;
  for (const loop::StmtPtr& s : block) {
    here += inside && s->kind == StmtKind::Assign;
    most = std::max({most, sums_in(s->body, inside || s->kind == StmtKind::For), sums_in(s->orelse, inside)});
  }
  return std::max(here, most);
}

// So many vectors side by side that a known extent takes the fewest turns: what fills no group takes a turn for each vector,
// in which its sums wait for themselves. A group is made of panels, or a panel of groups.
unsigned copies_for(const Expr* extent, unsigned lanes, unsigned most) {
  unsigned best = 1;
  int64_t fewest = INT64_MAX;
  for (unsigned copies = most; copies > 0; --copies) {
    const int64_t group = static_cast<int64_t>(copies) * lanes;
    if (group % kPanel != 0 && kPanel % group != 0) continue;
    if (!extent->is_const()) return copies;
    const int64_t vectors = extent->i / lanes, turns = vectors / copies + vectors % copies;
    if (turns < fewest) best = copies, fewest = turns;
  }
  return best;
}

}  // namespace

struct LanePlan::Lanes {
  const Stmt& loop;
  const InLanes& how;
};

LanePlan::LanePlan(const Job& job, const ProcAccess& access, const nest::Proc& p)
    : ctx_(job.ctx), vector_bytes_(job.vector_bytes()), machine_(job.processor()), access_(access) {
  ir::Context& ctx = ctx_;
  const Expr* panel = ctx.dim(ctx.declare_dim("panel", ctx.integer(INT32_MAX)));
  aligned_ = ctx.add(ctx.mul(ctx.integer(kPanel), panel), ctx.dim(ctx.declare_dim("lane", ctx.integer(kPanel))));
  choose(p.body);
}

const InLanes* LanePlan::of(const Stmt& loop) const {
  const auto it = chosen_.find(&loop);
  return it == chosen_.end() ? nullptr : &it->second;
}

double LanePlan::access_cost(uint32_t array, const std::vector<const Expr*>& index, const Lanes* in) const {
  if (!in) return 1;
  const Expr* at = access_.address(array, index);
  if (!in->how.facts.varies(at, in->loop.var)) return 1;
  const Expr* leaf[] = {aligned_->op == Op::Add ? aligned_->args[1] : aligned_};
  for (const Expr* a : aligned_->args)
    if (a->op == Op::Dim) leaf[0] = a;
  const auto linear = ir::linear_in(ctx_, ctx_.substitute(at, {{in->loop.var, aligned_}}), leaf);
  return linear && linear->coefficients[0]->is_int(1) ? 1 : in->how.lanes;
}

double LanePlan::cost(const Expr* e, const Lanes* in) const {
  double sum = 0;
  for_values(e, [&](const Expr* x) {
    sum += x->op == Op::Load ? access_cost(x->array, {x->args.begin(), x->args.end()}, in) : cost_alone(x);
  });
  return sum;
}

double LanePlan::cost(const std::vector<loop::StmtPtr>& block, const Lanes* in) const {
  double sum = 0;
  for (const loop::StmtPtr& s : block) {
    for (const Expr* e : {s->cond, s->bound, s->value})
      if (e) sum += cost(e, in);
    if (s->kind == StmtKind::Store) sum += access_cost(s->array, s->index, in);
    const double inner = cost(s->body, in) + cost(s->orelse, in);
    sum += s->kind == StmtKind::For ? machine_.loop_operations + trips(*s) * inner : inner;
  }
  return sum;
}

double LanePlan::operations_of_conditions(const std::vector<loop::StmtPtr>& block) const {
  double sum = 0;
  for (const loop::StmtPtr& s : block) {
    if (s->kind == StmtKind::Let) sum += cost(s->value, nullptr);
    if (s->kind == StmtKind::If) sum += cost(s->cond, nullptr);
  }
  return sum;
}

// Lanes for the widest type among what varies; copies of the vector while few sums are under way.
bool LanePlan::fit(const Stmt& s, InLanes& how) const {
  unsigned bytes = 1;
  size_t statements = 0;
  std::unordered_set<const Expr*> varying = how.facts.varying;
  varying.insert(s.var);
  for_statements(s.body, [&](const Stmt& x) {
    ++statements;
    if (x.kind == StmtKind::Store) bytes = std::max(bytes, bytes_of(x.value->type.dtype));
    for (const Expr* root : {x.cond, x.value})
      if (root) {
        ir::walk(root, [&](const Expr* e) {
          if (std::any_of(e->args.begin(), e->args.end(), [&](const Expr* a) { return varying.contains(a); })) varying.insert(e);
        });
        for_values(root, [&](const Expr* e) {
          if (varying.contains(e)) bytes = std::max(bytes, bytes_of(e->type.dtype));
          how.panels |= e->op == Op::Load && access_.in_panels(e->array);
        });
      }
  });
  how.lanes = std::min(64u, std::max(1u, vector_bytes_ / bytes));
  const Expr* extent = ctx_.sub(s.end, s.begin);
  if (extent->is_const())
    while (how.lanes > 1 && static_cast<int64_t>(how.lanes) > extent->i) how.lanes /= 2;
  if (how.lanes < 2) return false;
  const unsigned sums = sums_in(s.body, false) + static_cast<unsigned>(how.facts.joined.size());
  how.copies = sums > 0 && statements <= kMostOfBody ? copies_for(extent, how.lanes, std::max(1u, machine_.sums_in_flight() / sums)) : 1;
  return true;
}

double LanePlan::choose(const Stmt& s) {
  double one = choose(s.body) + choose(s.orelse);
  for (const Expr* e : {s.cond, s.bound, s.value})
    if (e) one += cost(e, nullptr);
  if (s.kind != StmtKind::For) return one + (s.kind == StmtKind::Store ? 1 : 0);
  return costs_[&s] = choose_for(s, one);
}

// Of a loop whose body takes `one` where its iterations follow each other.
double LanePlan::choose_for(const Stmt& s, double one) {
  const double alone = machine_.loop_operations + trips(s) * one;
  if (!ir::is_extent(s.begin) || !ir::is_extent(s.end)) return alone;
  auto facts = nest::independent(ctx_, s);
  if (!facts) return alone;
  InLanes how;
  how.facts = std::move(*facts);
  if (!fit(s, how)) return alone;
  const Lanes in{s, how};
  const double together = machine_.loop_operations + std::ceil(trips(s) / how.lanes) * cost(s.body, &in) + machine_.join_operations * static_cast<double>(how.facts.joined.size());
  if (together >= alone) return alone;
  chosen_[&s] = std::move(how);
  return together;
}

double LanePlan::choose(const std::vector<loop::StmtPtr>& block) {
  double sum = 0;
  for (const loop::StmtPtr& s : block) sum += choose(*s);
  return sum;
}

}  // namespace mlc::lower
