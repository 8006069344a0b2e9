#include "packager/nest/facts/phases.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "packager/ir/typical.h"
#include "packager/nest/facts/independent.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using Block = std::vector<loop::StmtPtr>;

namespace {

constexpr uint32_t kMostPhases = 16;  // of a proc
constexpr size_t kMostAccesses = 512;  // of a phase
constexpr int kMostDepth = 64;

// Everything below a statement, itself included; false: it is nested too deeply.
bool visit(const Stmt& s, const std::function<void(const Stmt&)>& each, int depth = 0) {
  if (depth > kMostDepth) return false;
  each(s);
  for (const Block* block : {&s.body, &s.orelse})
    for (const loop::StmtPtr& inner : *block)
      if (!visit(*inner, each, depth + 1)) return false;
  return true;
}

void expressions_of(const Stmt& s, const std::function<void(const Expr*)>& each) {
  for (const Expr* e : {s.begin, s.end, s.cond, s.bound, s.value})
    if (e) each(e);
  for (const Expr* e : s.index) each(e);
}

class Search {
 public:
  Search(ir::Context& ctx, const Proc& proc) : ctx_(ctx), proc_(proc) {}

  std::optional<Phases> run() {
    for (const loop::StmtPtr& s : proc_.body) ok_ &= visit(*s, [&](const Stmt& x) { look_at(x); });
    if (!ok_ || !find_carried()) return std::nullopt;
    size_t at = 0;
    while (proc_.body[at].get() != p_.carried) ++at;
    const auto of_body = [&](size_t begin, size_t end) {
      const uint32_t first = phase_;
      for (size_t k = begin; k < end; ++k) statement(*proc_.body[k], false);
      if (!accesses_.empty()) next_phase();
      return phase_ - first;
    };
    p_.before = of_body(0, at);
    const uint32_t first = phase_;
    for (const loop::StmtPtr& s : p_.carried->body) statement(*s, false);
    if (!accesses_.empty()) next_phase();
    p_.inside = phase_ - first;
    p_.behind = of_body(at + 1, proc_.body.size());
    if (!ok_ || p_.inside == 0 || p_.count() > kMostPhases || !locals_stay()) return std::nullopt;
    return std::move(p_);
  }

 private:
  struct Access {
    uint32_t array;
    const Stmt* loop;  // the shared loop around it
    std::vector<const Expr*> index;
    bool store;
  };

  void look_at(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::Store: stored_.insert(s.array); break;
      case StmtKind::Let:
      case StmtKind::Local:
      case StmtKind::Assign:
      case StmtKind::If:
      case StmtKind::For: break;
      default: ok_ = false;
    }
  }

  static bool stores(const Stmt& s) {
    bool found = false;
    visit(s, [&](const Stmt& x) { found |= x.kind == StmtKind::Store; });
    return found;
  }

  // Of the loops of the proc's body that store and whose iterations depend on each other the longest.
  bool find_carried() {
    for (const loop::StmtPtr& s : proc_.body) {
      if (s->kind != StmtKind::For || s->step != 1 || !ir::is_extent(s->begin) || !ir::is_extent(s->end)) continue;
      if (stores(*s) && !independent(ctx_, *s) && (!p_.carried || length(*s) > length(*p_.carried))) p_.carried = s.get();
    }
    return p_.carried != nullptr;
  }

  // Whether an expression is the same for all workers in whatever phase: it reads nothing that is stored.
  bool is_common(const Expr* e) const {
    bool common = true;
    ir::walk(e, [&](const Expr* x) { common &= x->op != Op::Load || !stored_.contains(x->array); });
    return common;
  }

  void next_phase() {
    ++phase_;
    accesses_.clear();
  }

  // `opened`: inside of an If that has several phases.
  void statement(const Stmt& s, bool opened) {
    if (!ok_) return;
    if (!stores(s)) {
      // What all compute is computed once in a turn, before its phases.
      ok_ &= !opened;
      visit(s, [&](const Stmt& x) { expressions_of(x, [&](const Expr* e) { ok_ &= is_common(e); }); });
      return;
    }
    const bool opens = s.kind == StmtKind::If && s.orelse.empty() && is_common(s.cond) &&
                       std::all_of(s.body.begin(), s.body.end(), [](const loop::StmtPtr& x) { return stores(*x); });
    if (!opens) return unit(s);
    p_.opened.insert(&s);
    for (const loop::StmtPtr& x : s.body) statement(*x, true);
  }

  // A statement of one phase: this one, if what it touches fits what stands there, else the next.
  void unit(const Stmt& s) {
    std::vector<const Stmt*> shared;
    std::vector<Access> added;
    ok_ &= cover(s, shared) && touched(s, nullptr, {shared.begin(), shared.end()}, added, 0);
    if (!ok_) return;
    if (accesses_.size() + added.size() > kMostAccesses) ok_ = false;
    if (!ok_) return;
    std::vector<Access> all = accesses_;
    all.insert(all.end(), added.begin(), added.end());
    if (!fits(all)) {
      if (!accesses_.empty()) next_phase();
      all = std::move(added);
      ok_ &= fits(all);
    }
    accesses_ = std::move(all);
    p_.of[&s] = phase_;
    p_.shared.insert(p_.shared.end(), shared.begin(), shared.end());
  }

  static double length(const Stmt& loop) {
    const auto guess = [](const Expr* e) { return static_cast<double>(e->is_const() ? e->i : kUnknown); };
    return guess(loop.end) - guess(loop.begin);
  }

  // Loops that have all stores of a statement in them, each with independent iterations and none inside of another: of nested ones
  // the longest.
  bool cover(const Stmt& s, std::vector<const Stmt*>& shared) {
    if (!stores(s)) return true;
    std::vector<const Stmt*> inner;
    bool covered = s.kind != StmtKind::Store;
    for (const Block* block : {&s.body, &s.orelse})
      for (const loop::StmtPtr& x : *block) covered = covered && cover(*x, inner);
    if (s.kind == StmtKind::For) {
      const bool longer = covered && std::all_of(inner.begin(), inner.end(), [&](const Stmt* x) { return length(*x) >= length(s); });
      const bool can = s.step == 1 && ir::is_extent(s.begin) && ir::is_extent(s.end);
      const auto facts = can && !longer ? independent(ctx_, s) : std::nullopt;
      if (facts && facts->joined.empty()) {
        shared.push_back(&s);
        return true;
      }
    }
    shared.insert(shared.end(), inner.begin(), inner.end());
    return covered;
  }

  // What `s` touches of the arrays that are stored. Outside of shared loops nothing does.
  bool touched(const Stmt& s, const Stmt* loop, const std::unordered_set<const Stmt*>& shared, std::vector<Access>& out, int depth) {
    if (depth > kMostDepth) return false;
    bool good = true;
    expressions_of(s, [&](const Expr* root) {
      good &= loop || is_common(root);
      ir::walk(root, [&](const Expr* x) {
        if (x->op == Op::Load && stored_.contains(x->array)) out.push_back({x->array, loop, {x->args.begin(), x->args.end()}, false});
      });
    });
    if (s.kind == StmtKind::Store) out.push_back({s.array, loop, s.index, true});
    const Stmt* around = shared.contains(&s) ? &s : loop;
    for (const Block* block : {&s.body, &s.orelse})
      for (const loop::StmtPtr& x : *block) good = good && touched(*x, around, shared, out, depth + 1);
    return good;
  }

  // Whether each element that is stored is touched by one part only.
  static bool fits(const std::vector<Access>& all) {
    return std::all_of(all.begin(), all.end(), [&](const Access& a) {
      if (!a.store) return true;
      for (size_t k = 0; k < a.index.size(); ++k) {
        const bool apart = std::all_of(all.begin(), all.end(), [&](const Access& b) {
          return b.array != a.array || (b.loop && a.loop && b.index[k] == b.loop->var && b.loop->begin == a.loop->begin && b.loop->end == a.loop->end);
        });
        if (apart) return true;
      }
      return false;
    });
  }

  // Registers do not go from phase to phase: what a phase assigns is defined in it, and used there.
  bool locals_stay() const {
    std::unordered_map<const Expr*, const Stmt*> made;  // in a statement of a phase; variables to it
    for (const auto& [s, phase] : p_.of)
      visit(*s, [&](const Stmt& x) { if (x.kind == StmtKind::Let || x.kind == StmtKind::Local || x.kind == StmtKind::For) made[x.var] = s; });
    bool stay = true;
    for (const auto& [s, phase] : p_.of)
      visit(*s, [&, unit = s](const Stmt& x) {
        if (x.kind == StmtKind::Assign) stay &= made.contains(x.var) && made.at(x.var) == unit;
        expressions_of(x, [&](const Expr* root) {
          ir::walk(root, [&](const Expr* e) { stay &= e->op != Op::Var || !made.contains(e) || made.at(e) == unit; });
        });
      });
    return stay && assigned_where_defined(proc_.body) && assigned_where_defined(p_.carried->body);
  }

  // Of statements that all compute: what they assign is defined beside them. What turns carry is in arrays.
  bool assigned_where_defined(const Block& block) const {
    std::unordered_set<const Expr*> defined;
    bool good = true;
    for (const loop::StmtPtr& s : block) {
      if (stores(*s)) continue;
      visit(*s, [&](const Stmt& x) {
        if (x.kind == StmtKind::Let || x.kind == StmtKind::Local || x.kind == StmtKind::For) defined.insert(x.var);
        if (x.kind == StmtKind::Assign) good &= defined.contains(x.var);
      });
    }
    return good;
  }

  static constexpr auto kUnknown = static_cast<int64_t>(ir::Guess::Any);  // a length that only the run knows

  ir::Context& ctx_;
  const Proc& proc_;
  Phases p_;
  bool ok_ = true;
  uint32_t phase_ = 0;
  std::unordered_set<uint32_t> stored_;  // arrays
  std::vector<Access> accesses_;         // of the phase that is being made
};

}  // namespace

std::optional<Phases> phases_of(ir::Context& ctx, const Proc& proc) { return Search(ctx, proc).run(); }

}  // namespace mlc::nest
