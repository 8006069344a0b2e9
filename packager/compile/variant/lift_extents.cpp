#include "packager/compile/variant/lift_extents.h"

#include <string>
#include <unordered_map>

#include "packager/ir/context.h"

namespace mlc::compile {
namespace {

using ir::Expr;
using ir::Op;

class Lifter {
 public:
  Lifter(ir::Context& ctx, loop::Kernel& kernel) : ctx_(ctx), kernel_(kernel) {}

  std::vector<const Expr*> run(std::span<const Expr* const> computed) {
    for (const Expr* size : computed) compute_anyway(size);
    for (const loop::Param& param : kernel_.params) compute_anyway(param.elements);
    for (const loop::Cut& cut : kernel_.cuts) compute_anyway(cut.units);
    for (const loop::LocalArray& local : kernel_.locals) compute_anyway(local.count);
    compute_anyway(kernel_.tiles);
    expression(kernel_.tiles);
    for (loop::Cut& cut : kernel_.cuts) expression(cut.units);
    for (loop::Param& param : kernel_.params) expression(param.elements);
    for (loop::LocalArray& local : kernel_.locals) expression(local.count);
    block(kernel_.body);
    std::vector<const ir::Sym*> scalars;
    std::vector<const Expr*> values;
    for (const auto& [sym, value] : used_) {
      scalars.push_back(sym);
      values.push_back(value);
    }
    kernel_.scalars = std::move(scalars);
    return values;
  }

 private:
  void block(std::vector<loop::StmtPtr>& statements) {
    for (loop::StmtPtr& s : statements) {
      for (const Expr** e : {&s->begin, &s->end, &s->cond, &s->bound, &s->value}) expression(*e);
      for (const Expr*& e : s->index) expression(e);
      block(s->body), block(s->orelse);
    }
  }

  void expression(const Expr*& e) {
    if (e) e = ctx_.rewrite(e, [this](const Expr* x) { return replaced(x); });
  }

  // Null: not a number of the plan as a whole.
  const Expr* replaced(const Expr* e) {
    if (e->is_const() || e->type != ir::Type{DType::I64, 1} || !ir::is_extent(e)) return nullptr;
    if (const auto found = symbol_of_.find(e); found != symbol_of_.end()) return found->second;
    const Expr* value = in_plan(e);
    if (!value) return nullptr;
    const ir::Interval range = ir::interval_of(e);
    const ir::Sym* sym = e->op == Op::Sym ? e->sym : ctx_.numbered_sym("=", symbol_of_.size(), range.lo, range.hi, ir::divisor_of(e));
    used_.emplace_back(sym, value);
    return symbol_of_[e] = ctx_.sym(sym);
  }

  // Sizes of buffers, and the number of tiles: the plan computes both arms of each choice in them.
  void compute_anyway(const Expr* size) {
    if (size) ir::walk(size, [this](const Expr* e) { in_plan_[e] = e; });
  }

  // What the plan computes for `root`, or null. It computes a scalar whether the kernel needs it or not, so nothing in it may fail but
  // what it computes anyway. The kernel comes to no quotient by zero: what might be one is of something by one instead.
  const Expr* in_plan(const Expr* root) {
    std::vector<const Expr*> open{root};
    while (!open.empty()) {
      const Expr* e = open.back();
      const size_t before = open.size();
      if (!in_plan_.contains(e))
        for (const Expr* arg : e->args)
          if (!in_plan_.contains(arg)) open.push_back(arg);
      if (open.size() != before) continue;
      open.pop_back();
      if (!in_plan_.contains(e)) in_plan_[e] = without_failure(e);
    }
    return in_plan_.at(root);
  }
  const Expr* without_failure(const Expr* e) {
    std::unordered_map<const Expr*, const Expr*> changed;
    for (const Expr* arg : e->args) {
      const Expr* value = in_plan_.at(arg);
      if (!value) return nullptr;
      if (value != arg) changed.emplace(arg, value);
    }
    if (!changed.empty()) e = ctx_.substitute(e, changed);
    if (!ir::may_fail(e)) return e;
    const bool divides = e->op == Op::FloorDiv || e->op == Op::FloorMod || e->op == Op::TruncDiv || e->op == Op::TruncMod;
    if (!divides) return nullptr;
    const Expr *by = e->args[1], *one = ctx_.integer(1, e->type.dtype);
    const Expr* some = ir::interval_of(by).lo == 0 ? ctx_.max(by, one) : ctx_.select(ctx_.binary(Op::Eq, by, ctx_.integer(0, e->type.dtype)), one, by);
    return ctx_.binary(e->op, e->args[0], some);
  }

  ir::Context& ctx_;
  loop::Kernel& kernel_;
  std::unordered_map<const Expr*, const Expr*> symbol_of_;
  std::unordered_map<const Expr*, const Expr*> in_plan_;
  std::vector<std::pair<const ir::Sym*, const Expr*>> used_;  // in order of the kernel
};

}  // namespace

std::vector<const Expr*> lift_extents(ir::Context& ctx, loop::Kernel& kernel, std::span<const Expr* const> computed) {
  return Lifter(ctx, kernel).run(computed);
}

}  // namespace mlc::compile
