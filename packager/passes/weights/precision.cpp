// Products in bf16 (mlpack build --precision bf16): both factors are rounded to bf16 where they are stored, weights now, all others
// wherever they are written; products of these are exact in f32, and so are their sums as far as f32 goes. Products of two values of the
// run (attention) are among them for units for matrices alone, where there are rows enough to pack the second factor for: other
// instructions gain nothing by them.
//
// What is rounded stands in the function as a cast, so that the interpreter, every target and every kernel round alike.
#include <algorithm>
#include <map>
#include <set>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

class Precision {
 public:
  Precision(ir::Context& ctx, nest::Function& f, bool values) : ctx_(ctx), f_(f), values_(values), is_weight_(constant_temporaries(f, uses_of(f))) {
    for (size_t i = 0; i < f.arrays.size(); ++i) is_weight_[i] = is_weight_[i] || f.arrays[i].kind == nest::Array::Kind::Const;
  }

  void run() {
    for (nest::Statement& s : f_.body)
      if (s.nest)
        for (nest::Write& w : s.nest->writes)
          w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return rounded(s.nest->dims, e); });
    find_exponentials();
    for (nest::Statement& s : f_.body)
      if (s.nest)
        for (nest::Write& w : s.nest->writes) w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return sum_of_rounded(e); });
    place_copies();
  }

 private:
  bool is_weight(const nest::Operand& o) { return o.load->array < is_weight_.size() && is_weight_[o.load->array]; }

  const Expr* rounded(const std::vector<const ir::Dim*>& scope, const Expr* e) {
    auto c = nest::contraction_of(ctx_, scope, e);
    if (!c || c->acc() != DType::F32 || !c->is_plain() || c->a.code() != DType::F32 || c->b.code() != DType::F32) return nullptr;
    if (is_weight(c->a)) c = c->swapped();
    if (is_weight(c->a)) return nullptr;
    const auto longer = [](const std::vector<const ir::Dim*>& dims, int64_t than) {
      return std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return !d->extent->is_const() || d->extent->i > than; });
    };
    // Depthwise; or few channels, which pairs along k are no gain for, and a group of which would be half empty.
    if (!longer(c->n, nest::kFewColumns)) return nullptr;
    if (is_weight(c->b) ? !longer(c->k, nest::kGroup) : !values_ || !longer(e->fold->dims, nest::kGroup) || !is_worth_packing(*c)) return nullptr;
    return ctx_.fold(*e->fold, {ctx_.binary(Op::Mul, element(c->a.load), element(c->b.load))});
  }

  // Whichever of both is the first factor.
  static bool is_worth_packing(const nest::Contraction& c) { return nest::is_worth_packing(c) || nest::is_worth_packing(c.swapped()); }

  const Expr* element(const Expr* load) {
    const std::vector<const Expr*> index(load->args.begin(), load->args.end());
    return ctx_.cast(DType::F32, ctx_.load(twin(load->array), {DType::BF16, 1}, index, load->access));
  }

  void find_exponentials() {
    for (const nest::Statement& s : f_.body)
      for (size_t k = 0; s.nest && k < s.nest->writes.size(); ++k)
        if (const nest::Write& w = s.nest->writes[k]; w.value->op == Op::Exp && twins_.contains(w.array)) exponentials_.insert(w.array);
  }

  // The sum that weights of attention are divided by is of what they are rounded to, so that they still add up to one.
  const Expr* sum_of_rounded(const Expr* e) {
    if (e->op != Op::Fold || e->fold->combiner->join != ir::Join::Sum || e->args.size() != 1) return nullptr;
    const Expr* load = e->args[0];
    return load->op == Op::Load && exponentials_.contains(load->array) ? ctx_.fold(*e->fold, {element(load)}) : nullptr;
  }

  // The array with the same elements in bf16.
  uint32_t twin(uint32_t array) {
    const auto [found, is_new] = twins_.emplace(array, static_cast<uint32_t>(f_.arrays.size()));
    if (!is_new) return found->second;
    nest::Array a;
    a.name = nest::unique_name(f_, f_.arrays[array].name + ", bf16", "");
    a.dtype = DType::BF16;
    a.shape = f_.arrays[array].shape;
    f_.arrays.push_back(std::move(a));
    return found->second;
  }

  // Behind what writes an array, with which the copy is fused as a rule and whose name it has: what reads it stays beside its neighbours.
  void place_copies() {
    const Uses uses = uses_of(f_);
    std::multimap<size_t, nest::Statement> copies;  // by the number of the statement that they stand before
    for (const auto& [array, twin] : twins_) {
      const bool is_written = !uses.writers[array].empty();
      const size_t place = is_written ? uses.writers[array].back() + 1 : 0;
      copies.emplace(place, copy_statement(ctx_, f_, array, twin, is_written ? f_.body[place - 1].source : f_.arrays[twin].name));
    }
    std::vector<nest::Statement> body;
    for (size_t k = 0; k < f_.body.size(); ++k) {
      for (auto [copy, end] = copies.equal_range(k); copy != end; ++copy) body.push_back(std::move(copy->second));
      body.push_back(std::move(f_.body[k]));
    }
    f_.body = std::move(body);
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const bool values_;  // products of two values of the run, too
  std::vector<bool> is_weight_;  // constants, and what is computed from them alone: scaled by a normalisation, say
  std::map<uint32_t, uint32_t> twins_;
  std::set<uint32_t> exponentials_;  // of those that have a twin
};

}  // namespace

Status products_in_bf16(ir::Context& ctx, nest::Function& f, bool values) {
  Precision(ctx, f, values).run();
  return ok();
}

}  // namespace mlc::passes
