#include "packager/compile/lift_extents.h"

#include <algorithm>
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
    if (e->is_const() || e->type != ir::Type{DType::I64, 1} || !ir::is_extent(e) || !has_value(e)) return nullptr;
    auto [found, is_new] = symbol_of_.try_emplace(e, e);
    if (!is_new) return found->second;
    const ir::Interval range = ir::interval_of(e);
    // A new symbol in each kernel: operands are ordered by age, and one that an earlier target had made would stand elsewhere.
    const auto fresh = [&] { return "=" + std::to_string(ctx_.fresh_var({DType::I64, 1})->i); };
    const ir::Sym* sym = e->op == Op::Sym ? e->sym : ctx_.declare_sym(fresh(), range.lo, range.hi, ir::divisor_of(e));
    used_.emplace_back(sym, e);
    return found->second = ctx_.sym(sym);
  }

  // Sizes of buffers, and the number of tiles: the plan computes both arms of each choice in them.
  void compute_anyway(const Expr* size) {
    if (size) ir::walk(size, [this](const Expr* e) { has_value_[e] = true; });
  }

  // The plan computes a scalar whether the kernel needs it or not, so nothing in it may fail but what the plan computes anyway.
  bool has_value(const Expr* root) {
    std::vector<const Expr*> open{root};
    while (!open.empty()) {
      const Expr* e = open.back();
      const size_t before = open.size();
      if (!has_value_.contains(e))
        for (const Expr* arg : e->args)
          if (!has_value_.contains(arg)) open.push_back(arg);
      if (open.size() != before) continue;
      open.pop_back();
      has_value_.try_emplace(e, !ir::may_fail(e) && std::all_of(e->args.begin(), e->args.end(), [this](const Expr* arg) { return has_value_.at(arg); }));
    }
    return has_value_.at(root);
  }

  ir::Context& ctx_;
  loop::Kernel& kernel_;
  std::unordered_map<const Expr*, const Expr*> symbol_of_;
  std::unordered_map<const Expr*, bool> has_value_;
  std::vector<std::pair<const ir::Sym*, const Expr*>> used_;  // in order of the kernel
};

}  // namespace

std::vector<const Expr*> lift_extents(ir::Context& ctx, loop::Kernel& kernel, std::span<const Expr* const> computed) {
  return Lifter(ctx, kernel).run(computed);
}

}  // namespace mlc::compile
