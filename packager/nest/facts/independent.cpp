#include "packager/nest/facts/independent.h"

#include <algorithm>
#include <map>
#include <vector>

namespace mlc::nest {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;

namespace {

std::optional<ir::Join> join_of(Op op) {
  switch (op) {
    case Op::Add: return ir::Join::Sum;
    case Op::Mul: return ir::Join::Prod;
    case Op::Min: return ir::Join::Min;
    case Op::Max: return ir::Join::Max;
    case Op::And: return ir::Join::All;
    case Op::Or: return ir::Join::Any;
    default: return std::nullopt;
  }
}

class Analysis {
 public:
  Analysis(ir::Context& ctx, const Stmt& loop, bool gathers) : ctx_(ctx), loop_(loop), gathers_(gathers) {}

  std::optional<Independent> run() {
    if (loop_.kind != StmtKind::For || loop_.step != 1) return std::nullopt;
    defined_.insert(loop_.var);
    block(loop_.body, false);
    for (const Independent::Joined& j : result_.joined) joins_only(j.local);
    for (const auto& [array, accesses] : accesses_)
      if (accesses.stored) ok_ &= !accesses.gathered && apart(accesses);
    if (!ok_) return std::nullopt;
    return std::move(result_);
  }

 private:
  struct Accesses {
    bool stored = false, gathered = false;
    std::vector<std::vector<const Expr*>> index;
  };

  bool varies(const Expr* e) const { return result_.varies(e, loop_.var); }

  // A root of the body; where it varies it must be no index.
  void root(const Expr* e) {
    roots_.push_back({e, nullptr});
    loads_of(e);
  }
  void loads_of(const Expr* e) {
    ir::walk(e, [&](const Expr* x) {
      if (x->op == Op::Load) access(x->array, {x->args.begin(), x->args.end()}, false);
    });
  }
  void access(uint32_t array, std::vector<const Expr*> index, bool store) {
    Accesses& a = accesses_[array];
    a.stored |= store;
    for (const Expr* i : index)
      ir::walk(i, [&](const Expr* x) { a.gathered |= result_.varying.contains(x); });
    ok_ &= !a.gathered || (gathers_ && !a.stored);
    a.index.push_back(std::move(index));
  }

  void block(const std::vector<loop::StmtPtr>& stmts, bool masked) {
    for (const loop::StmtPtr& s : stmts) {
      if (!ok_) return;
      stmt(*s, masked);
    }
  }

  void stmt(const Stmt& s, bool masked) {
    switch (s.kind) {
      case StmtKind::Let:
        root(s.value);
        defined_.insert(s.var);
        if (varies(s.value)) result_.varying.insert(s.var);
        return;
      case StmtKind::Local:
        root(s.value);
        defined_.insert(s.var);
        result_.varying.insert(s.var);
        return;
      case StmtKind::Assign: return assign(s);
      case StmtKind::For:
        root(s.begin);
        root(s.end);
        // Lanes turn a loop together.
        ok_ &= !masked && !varies(s.begin) && !varies(s.end);
        defined_.insert(s.var);
        return block(s.body, masked);
      case StmtKind::If:
        root(s.cond);
        masked |= varies(s.cond);
        block(s.body, masked);
        return block(s.orelse, masked);
      case StmtKind::Store:
        for (const Expr* i : s.index) root(i);
        root(s.value);
        return access(s.array, s.index, true);
      case StmtKind::Barrier:
      case StmtKind::ClusterBarrier:
      case StmtKind::Peer:
      case StmtKind::LoadMatrices:
      case StmtKind::GroupMma:
      case StmtKind::Matrix:
      case StmtKind::FoldLanes:
      case StmtKind::Mma:
      case StmtKind::Tiles:
      case StmtKind::Copy:
      case StmtKind::CloseCopies:
      case StmtKind::WaitCopies:
      case StmtKind::Prefetch: return;
      case StmtKind::While: case StmtKind::Fault: ok_ = false; return;
    }
  }

  void assign(const Stmt& s) {
    loads_of(s.value);
    roots_.push_back({s.value, s.var});
    if (defined_.contains(s.var)) return;
    const auto how = join_of(s.value->op);
    ok_ &= how.has_value();
    if (!ok_) return;
    for (const Independent::Joined& j : result_.joined) ok_ &= j.local != s.var || j.how == *how;
    if (result_.varying.insert(s.var).second) result_.joined.push_back({s.var, *how});
  }

  // `var` stands nowhere but as one operand of what is assigned to it.
  void joins_only(const Expr* var) {
    for (const auto& [e, target] : roots_) {
      if (target != var) {
        ok_ &= !ir::depends_on(e, var);
        continue;
      }
      const bool left = e->args[0] == var, right = e->args[1] == var;
      ok_ &= left != right && !ir::depends_on(e->args[left ? 1 : 0], var);
    }
  }

  // One axis has the same index everywhere, which no two iterations share.
  bool apart(const Accesses& a) {
    const std::vector<const Expr*>& first = a.index[0];
    for (size_t k = 0; k < first.size(); ++k) {
      const bool same = std::all_of(a.index.begin(), a.index.end(), [&](const auto& index) { return index[k] == first[k]; });
      if (same && tells_apart(first[k])) return true;
    }
    return false;
  }
  bool tells_apart(const Expr* index) {
    const Expr* leaf[] = {loop_.var};
    const auto linear = ir::linear_in(ctx_, index, leaf);
    if (!linear || !linear->coefficients[0]->is_const() || linear->coefficients[0]->i == 0) return false;
    bool fixed = true;
    ir::walk(linear->rest, [&](const Expr* x) {
      if (x->op == Op::Var) fixed &= !defined_.contains(x) && !result_.joins(x);
      if (x->op == Op::Load) fixed &= !accesses_.at(x->array).stored;
    });
    return fixed;
  }

  ir::Context& ctx_;
  const Stmt& loop_;
  const bool gathers_;
  Independent result_;
  bool ok_ = true;
  std::unordered_set<const Expr*> defined_;                     // variables of the loop and its body
  std::vector<std::pair<const Expr*, const Expr*>> roots_;      // expressions, and the variable that one is assigned to
  std::map<uint32_t, Accesses> accesses_;                       // by array
};

}  // namespace

bool Independent::varies(const Expr* e, const Expr* var) const {
  bool found = false;
  ir::walk(e, [&](const Expr* x) { found |= x == var || varying.contains(x); });
  return found;
}

bool Independent::joins(const Expr* local) const {
  return std::any_of(joined.begin(), joined.end(), [&](const Joined& j) { return j.local == local; });
}

std::optional<Independent> independent(ir::Context& ctx, const Stmt& loop, bool gathers) { return Analysis(ctx, loop, gathers).run(); }

}  // namespace mlc::nest
