#include "packager/compile/variant/shared_kernels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "packager/ir/structure_key.h"
#include "packager/loop/kernel_key.h"

namespace mlc::compile {
namespace {

using ir::Expr;
using ir::Op;
using loop::Kernel;
using loop::Stmt;
using loop::StmtKind;
using loop::StmtPtr;

constexpr size_t kLeast = 4;                       // kernels, that it be worth their integers
constexpr size_t kMostOfMap = 12, kMostOfSum = 1;  // integers that a kernel is told

bool accumulates(const std::vector<StmtPtr>& block) {
  return std::any_of(block.begin(), block.end(), [](const StmtPtr& s) {
    return s->kind == StmtKind::Assign || s->kind == StmtKind::GroupMma || s->kind == StmtKind::Matrix || s->kind == StmtKind::While || accumulates(s->body) || accumulates(s->orelse);
  });
}

bool is_index_constant(const Expr* e) { return e && e->is_const() && e->type == ir::Type{DType::I64, 1}; }

// Where in a kernel integers are open. Both walks below meet the same ones in the same order.
class Places {
 public:
  explicit Places(const Kernel& kernel) : accumulates_(accumulates(kernel.body)) {}

  size_t most() const { return accumulates_ ? kMostOfSum : kMostOfMap; }
  bool is_open(const Expr* parent, size_t k) const {
    if (!is_index_constant(parent->args[k])) return false;
    switch (parent->op) {
      case Op::Add: case Op::Sub: return true;
      case Op::Load: return k == 0;
      case Op::Mul: case Op::Lt: case Op::Le: case Op::Splat: return !accumulates_;
      default: return false;
    }
  }
  // Of a statement's own expressions.
  bool is_open(const Stmt& s, const Expr* const& e) const {
    if (!is_index_constant(e)) return false;
    if (&e == &s.end) return s.for_kind == loop::ForKind::Serial && !accumulates_;
    return !s.index.empty() && &e == &s.index[0];
  }

 private:
  bool accumulates_;
};

template <class Visit>
void each_expression(Stmt& s, const Visit& visit) {
  for (const Expr** e : {&s.var, &s.begin, &s.end, &s.cond, &s.bound, &s.value}) visit(*e);
  for (const Expr*& e : s.index) visit(e);
  for (const Expr*& e : s.sums) visit(e);
}

// A text that kernels share if they are equal up to open integers, and those.
class Pattern {
 public:
  explicit Pattern(Kernel& kernel) : places_(kernel) {
    for (const ir::Sym* sym : kernel.scalars) syms_.emplace(sym, syms_.size());
    number(kernel.scalars.size()), number(kernel.params.size()), number(kernel.locals.size()), number(kernel.hoisting);
    for (const loop::Param& param : kernel.params) number(param.dtype), number(param.written);
    for (const loop::LocalArray& local : kernel.locals) number(local.dtype), number(local.space), key_.expression(local.count);
    key_.expression(kernel.tile_begin), key_.expression(kernel.tile_end);
    number(kernel.lanes), number(kernel.cluster), number(kernel.resident);
    number(kernel.team.lanes), number(kernel.team.side), number(kernel.team.rows), number(kernel.team.columns);
    number(kernel.cuts.size());
    for (const loop::Cut& cut : kernel.cuts) key_.expression(cut.chunk);
    block(kernel.body);
  }
  std::string take() { return key_.take(); }
  const std::vector<int64_t>& open() const { return open_; }
  size_t most() const { return places_.most(); }

 private:
  template <class T>
  void number(T value) {
    key_.number(static_cast<int64_t>(value));
  }
  void leaf(const Expr* e) {
    if (e->op == Op::Var) number(vars_.emplace(e->i, vars_.size()).first->second);
    if (e->op == Op::Sym) number(syms_.emplace(e->sym, syms_.size()).first->second);
    if (e->op == Op::Load) number(e->array);
  }
  void block(std::vector<StmtPtr>& statements) {
    number(statements.size());
    for (StmtPtr& s : statements) {
      for (const int64_t word : loop::words_of(*s)) number(word);
      each_expression(*s, [&](const Expr*& e) {
        if (places_.is_open(*s, e)) open_.push_back(e->i), number(-1);
        else number(0), key_.expression(e);
      });
      block(s->body), block(s->orelse);
    }
  }

  const Places places_;
  ir::StructureKey key_{[this](ir::StructureKey&, const Expr* e) { leaf(e); }, ir::StructureKey::Extents::Inside,
                        [this](const Expr* parent, size_t k) {
                          const bool open = places_.is_open(parent, k);
                          if (open) open_.push_back(parent->args[k]->i);
                          return open;
                        }};
  std::vector<int64_t> open_;
  std::unordered_map<int64_t, size_t> vars_;
  std::unordered_map<const ir::Sym*, size_t> syms_;
};

// Puts expressions in place of open integers; null: the integer stays.
class Filler {
 public:
  Filler(ir::Context& ctx, Kernel& kernel, const std::vector<const Expr*>& with) : ctx_(ctx), places_(kernel), with_(with) { block(kernel.body); }

 private:
  void block(std::vector<StmtPtr>& statements) {
    for (StmtPtr& s : statements) {
      each_expression(*s, [&](const Expr*& e) {
        if (places_.is_open(*s, e)) take_next(e);
        else if (e) e = filled(e);
      });
      block(s->body), block(s->orelse);
    }
  }
  void take_next(const Expr*& e) {
    if (const Expr* other = with_[next_++]) e = other;
  }
  const Expr* filled(const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      if (e->is_const() || done_.count(e)) return;
      std::vector<const Expr*> args;
      for (size_t k = 0; k < e->args.size(); ++k) {
        args.push_back(e->args[k]);
        if (places_.is_open(e, k)) take_next(args.back());
        else if (!args.back()->is_const()) args.back() = done_.at(args.back());
      }
      if (std::equal(args.begin(), args.end(), e->args.begin())) {
        done_.emplace(e, e);
        return;
      }
      Expr copy = *e;
      copy.args = {};
      done_.emplace(e, ctx_.raw(copy, std::move(args)));  // as it stands: others must be equal to it
    });
    return root->is_const() ? root : done_.at(root);
  }

  ir::Context& ctx_;
  const Places places_;
  const std::vector<const Expr*>& with_;
  size_t next_ = 0;
  std::unordered_map<const Expr*, const Expr*> done_;
};

// A symbol that the kernel does not have yet.
const ir::Sym* new_scalar(ir::Context& ctx, Kernel& kernel) {
  for (size_t k = 0;; ++k) {
    const ir::Sym* sym = ctx.declare_sym("$told." + std::to_string(k), INT64_MIN);
    if (std::find(kernel.scalars.begin(), kernel.scalars.end(), sym) == kernel.scalars.end()) return kernel.scalars.emplace_back(sym);
  }
}

struct KernelGroup {
  std::vector<uint32_t> kernels;
  std::vector<std::vector<int64_t>> open;  // by kernel
  size_t most = 0;

  // The places whose integers are not the same in all kernels, those of equal integers as one: a class for each place, which is
  // -1 where nothing is open after all.
  std::vector<int> classes(std::vector<size_t>& first) const {
    std::vector<int> out;
    std::map<std::vector<int64_t>, int> known;
    for (size_t place = 0; place < open[0].size(); ++place) {
      std::vector<int64_t> column;
      for (const auto& row : open) column.push_back(row[place]);
      if (std::all_of(column.begin(), column.end(), [&](int64_t v) { return v == column[0]; })) {
        out.push_back(-1);
        continue;
      }
      const auto [found, is_new] = known.emplace(std::move(column), static_cast<int>(first.size()));
      if (is_new) first.push_back(place);
      out.push_back(found->second);
    }
    return out;
  }
};

}  // namespace

std::vector<SharedKernel> share_kernels(ir::Context& ctx, std::vector<Kernel>& kernels) {
  std::unordered_map<std::string, size_t> known;
  std::vector<KernelGroup> groups;
  for (uint32_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].hoisting != loop::Hoisting::All) continue;  // its frame was a matter already
    Pattern pattern(kernels[k]);
    if (pattern.open().empty()) continue;
    const auto [found, is_new] = known.emplace(pattern.take(), groups.size());
    if (is_new) groups.emplace_back().most = pattern.most();
    groups[found->second].kernels.push_back(k);
    groups[found->second].open.push_back(pattern.open());
  }
  std::vector<uint32_t> taken_by(kernels.size());
  for (uint32_t k = 0; k < kernels.size(); ++k) taken_by[k] = k;
  std::vector<SharedKernel> out(kernels.size());
  for (const KernelGroup& group : groups) {
    std::vector<size_t> first;
    if (group.kernels.size() < kLeast) continue;
    const std::vector<int> classes = group.classes(first);
    if (first.empty() || first.size() > group.most) continue;
    Kernel& kernel = kernels[group.kernels[0]];
    std::vector<const Expr*> scalars, with;
    while (scalars.size() < first.size()) scalars.push_back(ctx.sym(new_scalar(ctx, kernel)));
    for (const int c : classes) with.push_back(c < 0 ? nullptr : scalars[static_cast<size_t>(c)]);
    Filler(ctx, kernel, with);
    for (size_t k = 0; k < group.kernels.size(); ++k) {
      taken_by[group.kernels[k]] = group.kernels[0];
      for (const size_t place : first) out[group.kernels[k]].scalars.push_back(ctx.integer(group.open[k][place]));
    }
  }
  std::vector<Kernel> kept;
  for (uint32_t k = 0; k < kernels.size(); ++k) {
    if (taken_by[k] == k) {
      out[k].number = static_cast<uint32_t>(kept.size());
      kept.push_back(std::move(kernels[k]));
    } else {
      out[k].number = out[taken_by[k]].number;
    }
  }
  kernels = std::move(kept);
  return out;
}

}  // namespace mlc::compile
