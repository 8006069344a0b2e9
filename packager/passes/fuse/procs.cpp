// Procs are brought into a form in which their loops can be judged: indices are written out, and folds over the same range
// become one loop. Both keep every number: what is inlined reads no memory, and what is moved reads nothing that is written
// on the way.
#include <algorithm>

#include "packager/nest/proc.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using Block = std::vector<loop::StmtPtr>;

constexpr size_t kMostNodesOfIndex = 32;       // of an index that is written out
constexpr size_t kMostAccumulators = 8;  // of one loop: more do not fit the registers
constexpr size_t kMostNeighbours = 16;   // loops before this one that are looked at

void for_statements(const Block& block, const std::function<void(Stmt&)>& visit) {
  for (const loop::StmtPtr& s : block) {
    visit(*s);
    for_statements(s->body, visit);
    for_statements(s->orelse, visit);
  }
}

template <typename Visit>  // const Expr*& of each expression
void for_expressions(Stmt& s, const Visit& visit) {
  for (const Expr** e : {&s.begin, &s.end, &s.cond, &s.bound, &s.value})
    if (*e) visit(*e);
  for (const Expr*& e : s.index) visit(e);
}

// Lets of integers and conditions that are made of loops and extents.
class Indices {
 public:
  Indices(ir::Context& ctx, nest::Proc& p) : ctx_(ctx) {
    for_statements(p.body, [&](Stmt& s) {
      if (s.kind == StmtKind::Local) mutable_.insert(s.var);
    });
    block(p.body);
  }

 private:
  void block(Block& stmts) {
    for (loop::StmtPtr& s : stmts) {
      for_expressions(*s, [&](const Expr*& e) {
        if (!is_.empty()) e = ctx_.substitute(e, is_);
      });
      if (s->kind == StmtKind::Let && written_out(*s->value)) {
        is_[s->var] = s->value;
        s = nullptr;
        continue;
      }
      block(s->body);
      block(s->orelse);
    }
    std::erase(stmts, nullptr);
  }
  bool written_out(const Expr& value) const {
    if (value.type.dtype != DType::I64 && value.type.dtype != DType::Bool) return false;
    size_t nodes = 0;
    bool plain = true;
    ir::walk(&value, [&](const Expr* e) {
      ++nodes;
      plain &= e->op != Op::Load && e->op != Op::Fold && !is_float(e->type.dtype) && !mutable_.contains(e);
    });
    return plain && nodes <= kMostNodesOfIndex;
  }

  ir::Context& ctx_;
  std::unordered_set<const Expr*> mutable_;
  std::unordered_map<const Expr*, const Expr*> is_;
};

// What a statement and those inside of it do.
struct Effects {
  std::unordered_set<const Expr*> read, defined, assigned;  // variables; `defined` at the outermost level too
  std::unordered_set<uint32_t> loaded, stored;              // arrays
  bool leaves = false;                                      // may end the kernel, or not end

  void add(Stmt& s) {
    for_expressions(s, [&](const Expr* root) {
      ir::walk(root, [&](const Expr* e) {
        if (e->op == Op::Var) read.insert(e);
        if (e->op == Op::Load) loaded.insert(e->array);
      });
    });
    if (s.kind == StmtKind::Let || s.kind == StmtKind::Local || s.kind == StmtKind::For) defined.insert(s.var);
    if (s.kind == StmtKind::Assign) assigned.insert(s.var);
    if (s.kind == StmtKind::Store) stored.insert(s.array);
    leaves |= s.kind == StmtKind::While || s.kind == StmtKind::Fault;
    for (const Block* b : {&s.body, &s.orelse})
      for (const loop::StmtPtr& inner : *b) add(*inner);
  }
};

template <typename A, typename B>
bool meet(const A& a, const B& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& x) { return b.contains(x); });
}

class Joining {
 public:
  explicit Joining(ir::Context& ctx) : ctx_(ctx) {}

  void block(Block& stmts) {
    for (loop::StmtPtr& s : stmts) {
      block(s->body);
      block(s->orelse);
    }
    for (size_t late = 1; late < stmts.size(); ++late) {
      if (stmts[late]->kind != StmtKind::For) continue;
      size_t looked = 0;
      for (size_t early = late; early-- > 0 && looked < kMostNeighbours;) {
        if (stmts[early]->kind != StmtKind::For) continue;
        ++looked;
        if (!join(stmts, early, late)) continue;
        --late;
        break;
      }
    }
  }

 private:
  // The loop at `late` becomes part of the one at `early`, its accumulators are declared before that.
  bool join(Block& stmts, size_t early, size_t late) {
    Stmt &first = *stmts[early], &second = *stmts[late];
    if (first.begin != second.begin || first.end != second.end || first.step != second.step) return false;
    Effects moved, passed;
    moved.add(second);
    if (moved.leaves || !moved.stored.empty()) return false;
    std::vector<size_t> accumulators;
    for (size_t k = early; k < late; ++k) {
      Stmt& s = *stmts[k];
      if (s.kind == StmtKind::Local && moved.assigned.contains(s.var) && s.value->is_const()) accumulators.push_back(k);
      else passed.add(s);
    }
    Effects before;
    before.add(first);
    if (before.assigned.size() + moved.assigned.size() > kMostAccumulators) return false;
    if (passed.leaves || meet(moved.loaded, passed.stored) || meet(moved.read, passed.defined) || meet(moved.read, passed.assigned) ||
        meet(moved.assigned, passed.defined) || meet(moved.assigned, passed.read) || meet(moved.assigned, passed.assigned))
      return false;
    for_statements(second.body, [&](Stmt& s) {
      for_expressions(s, [&](const Expr*& e) { e = ctx_.substitute(e, {{second.var, first.var}}); });
    });
    for (loop::StmtPtr& s : second.body) first.body.push_back(std::move(s));
    stmts.erase(stmts.begin() + static_cast<ptrdiff_t>(late));
    for (size_t k = 0; k < accumulators.size(); ++k) {
      const auto from = stmts.begin() + static_cast<ptrdiff_t>(accumulators[k]);
      std::rotate(stmts.begin() + static_cast<ptrdiff_t>(early + k), from, from + 1);
    }
    return true;
  }

  ir::Context& ctx_;
};

}  // namespace

Status simplify_procs(ir::Context& ctx, nest::Function& f) {
  for (nest::Statement& s : f.body) {
    if (!s.proc) continue;
    Indices(ctx, *s.proc);
    Joining(ctx).block(s.proc->body);
  }
  return ok();
}

}  // namespace mlc::passes
