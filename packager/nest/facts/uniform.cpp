#include "packager/nest/facts/uniform.h"

#include <algorithm>

namespace mlc::nest {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using Block = std::vector<loop::StmtPtr>;

namespace {

constexpr int kMostNesting = 64;

void each_below(const Stmt& s, const std::function<void(const Stmt&)>& each) {
  each(s);
  for (const Block* block : {&s.body, &s.orelse})
    for (const loop::StmtPtr& inner : *block) each_below(*inner, each);
}

void roots_of(const Stmt& s, const std::function<void(const Expr*)>& each) {
  for (const Expr* e : {s.begin, s.end, s.cond, s.bound, s.value})
    if (e) each(e);
  for (const Expr* e : s.index) each(e);
}

class UniformSearch {
 public:
  UniformSearch(ir::Context& ctx, const Pays& pays) : ctx_(ctx), pays_(pays) {}

  Uniform run(const Proc& proc) {
    for (const loop::StmtPtr& s : proc.body)
      each_below(*s, [&](const Stmt& x) { if (x.kind == StmtKind::Store) r_.stored.insert(x.array); });
    block(proc.body, 0);
    return std::move(r_);
  }

 private:
  // Whether a loop below is shared.
  bool block(const Block& stmts, int depth) {
    bool any = false;
    for (const loop::StmtPtr& s : stmts) any |= statement(*s, depth);
    return any;
  }

  bool statement(const Stmt& s, int depth) {
    if (depth > kMostNesting || (s.kind != StmtKind::For && s.kind != StmtKind::While && s.kind != StmtKind::If)) return false;
    for (const Expr* e : {s.begin, s.end, s.cond, s.bound})
      if (e && r_.reads_stored(e)) return false;
    if (s.kind == StmtKind::For && share(s)) return true;
    const bool body = block(s.body, depth + 1), orelse = block(s.orelse, depth + 1);
    const bool searched = s.kind == StmtKind::For && s.step == 1 && r_.is_conditional(s.body) && pays_(s, nullptr);
    if (searched) r_.searched.insert(&s);
    if (body || orelse || searched) r_.open.insert(&s);
    return body || orelse || searched;
  }

  bool share(const Stmt& s) {
    auto facts = independent(ctx_, s, /*gathers=*/true);
    if (!facts) return false;
    bool stores = false;
    each_below(s, [&](const Stmt& x) { stores |= x.kind == StmtKind::Store; });
    const bool exact = std::all_of(facts->joined.begin(), facts->joined.end(), [](const Independent::Joined& j) { return !is_float(j.local->type.dtype); });
    if (!exact || (!stores && facts->joined.empty()) || !pays_(s, &*facts)) return false;
    r_.shared.emplace(&s, std::move(*facts));
    return true;
  }

  ir::Context& ctx_;
  const Pays& pays_;
  Uniform r_;
};

}  // namespace

bool Uniform::reads_stored(const Expr* e) const {
  bool found = false;
  ir::walk(e, [&](const Expr* x) { found |= x->op == Op::Load && stored.contains(x->array); });
  return found;
}

bool Uniform::is_conditional(const Block& stmts) const {
  const auto read = [](const Stmt& s) { return s.kind == StmtKind::Let ? s.value : s.kind == StmtKind::If ? s.cond : nullptr; };
  return !stmts.empty() && std::all_of(stmts.begin(), stmts.end(), [&](const loop::StmtPtr& s) { return read(*s) && !reads_stored(read(*s)); });
}

bool Uniform::touches_stored(const Stmt& loop) const {
  bool found = false;
  each_below(loop, [&](const Stmt& x) {
    found |= x.kind == StmtKind::Store;
    roots_of(x, [&](const Expr* e) { found |= reads_stored(e); });
  });
  return found;
}

Uniform uniform_of(ir::Context& ctx, const Proc& proc, const Pays& pays) { return UniformSearch(ctx, pays).run(proc); }

std::vector<const Expr*> assigned_by(const Stmt& s) {
  std::unordered_set<const Expr*> defined;
  std::vector<const Expr*> assigned;
  each_below(s, [&](const Stmt& x) {
    if (x.kind == StmtKind::Let || x.kind == StmtKind::Local || x.kind == StmtKind::For) defined.insert(x.var);
    if (x.kind == StmtKind::Assign && !defined.contains(x.var) && std::find(assigned.begin(), assigned.end(), x.var) == assigned.end()) assigned.push_back(x.var);
  });
  return assigned;
}

}  // namespace mlc::nest
