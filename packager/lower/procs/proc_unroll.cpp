#include "packager/lower/procs/proc_unroll.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <vector>

#include "packager/ir/context.h"

namespace mlc::lower {
namespace {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using Block = std::vector<loop::StmtPtr>;

constexpr int64_t kMostTurnsUnrolled = 16;
constexpr int64_t kMostElements = 32;      // of an array: more do not fit the registers
constexpr int64_t kMostUnrolled = 192;   // that a loop becomes
constexpr int kMostDepth = 100;

int64_t turns_of(const Stmt& s) {
  if (s.kind != StmtKind::For || s.step != 1 || !s.begin->is_const() || !s.end->is_const()) return 0;
  if (s.begin->i < 0 || s.end->i > kMostTurnsUnrolled) return 0;
  return std::max<int64_t>(0, s.end->i - s.begin->i);
}

class ArraySearch {
 public:
  explicit ArraySearch(const nest::Proc& p) {
    for (const loop::LocalArray& l : p.locals) {
      int64_t elements = 1;
      for (const Expr* e : l.shape) elements = e->is_const() && e->i >= 0 && e->i <= kMostElements ? elements * std::max<int64_t>(1, e->i) : kMostElements + 1;
      Array a;
      a.fits = elements > 0 && elements <= kMostElements;
      arrays_.push_back(a);
    }
    block(p.body, 0);
  }

  std::unordered_set<const Stmt*> loops(const std::function<bool(const Stmt&)>& in_lanes) {
    std::unordered_set<const Stmt*> r;
    for (const Array& a : arrays_) {
      bool pays = false;
      for (const Stmt* s : a.loops) pays = pays || !in_lanes(*s);
      if (a.fits && pays) r.insert(a.loops.begin(), a.loops.end());
    }
    return r;
  }

 private:
  struct Array {
    bool fits = false;
    std::unordered_set<const Stmt*> loops;  // that its places depend on
  };

  // Statements of a block in full; what is unrolled inside counts as often as it stands there.
  static int64_t size(const Block& stmts, int depth) {
    int64_t n = 0;
    if (depth > kMostDepth) return kMostUnrolled + 1;
    for (const loop::StmtPtr& s : stmts) {
      const int64_t inner = size(s->body, depth + 1) + size(s->orelse, depth + 1), turns = turns_of(*s);
      n = std::min(kMostUnrolled + 1, n + 1 + inner * std::max<int64_t>(1, turns));
    }
    return n;
  }

  void block(const Block& stmts, int depth) {
    if (depth > kMostDepth) return;
    for (const loop::StmtPtr& s : stmts) {
      for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value})
        if (e) reads(e);
      for (const Expr* e : s->index) reads(e);
      if (s->kind == StmtKind::Store) place(s->array, s->index);
      const int64_t turns = turns_of(*s);
      const bool small = turns > 0 && turns * size(s->body, depth) <= kMostUnrolled;
      if (small) known_[s->var] = s.get();
      block(s->body, depth + 1);
      block(s->orelse, depth + 1);
      if (small) known_.erase(s->var);
    }
  }

  void reads(const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      if (e->op == Op::Load) place(e->array, e->args);
    });
  }

  void place(uint32_t array, std::span<const Expr* const> index) {
    if (array < nest::kFirstLocal || array - nest::kFirstLocal >= arrays_.size()) return;
    Array& a = arrays_[array - nest::kFirstLocal];
    for (const Expr* root : index)
      ir::walk(root, [&](const Expr* e) {
        const auto loop = known_.find(e);
        if (loop != known_.end()) a.loops.insert(loop->second);
        else a.fits = a.fits && e->op != Op::Var && e->op != Op::Dim && e->op != Op::Sym && e->op != Op::Load && e->op != Op::Fold;
      });
  }

  std::vector<Array> arrays_;
  std::unordered_map<const Expr*, const Stmt*> known_;  // variables of loops around that may be unrolled
};

}  // namespace

std::unordered_set<const Stmt*> unrolled_loops(const nest::Proc& p, const std::function<bool(const Stmt&)>& in_lanes) {
  return ArraySearch(p).loops(in_lanes);
}

}  // namespace mlc::lower
