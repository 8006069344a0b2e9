// Products with weights in bf16 (mlpack build --precision bf16): both factors are rounded to bf16 where they are stored, the
// weights now, the other one wherever it is written; products of these are exact in f32, and so are their sums as far as f32 goes.
//
// What is rounded stands in the function as a cast, so that the interpreter, every target and every kernel round alike.
#include <algorithm>
#include <map>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

class Precision {
 public:
  Precision(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), is_weight_(constant_temporaries(f, uses_of(f))) {
    for (size_t i = 0; i < f.arrays.size(); ++i) is_weight_[i] = is_weight_[i] || f.arrays[i].kind == nest::Array::Kind::Const;
  }

  void run() {
    std::vector<nest::Statement> body;
    for (nest::Statement& s : f_.body) {
      if (s.nest)
        for (nest::Write& w : s.nest->writes)
          w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return rounded(s.nest->dims, e); });
      body.insert(body.end(), std::make_move_iterator(added_.begin()), std::make_move_iterator(added_.end()));
      added_.clear();
      body.push_back(std::move(s));
    }
    f_.body = std::move(body);
  }

 private:
  bool is_weight(const nest::Operand& o) { return o.load->array < is_weight_.size() && is_weight_[o.load->array]; }

  const Expr* rounded(const std::vector<const ir::Dim*>& scope, const Expr* e) {
    auto c = nest::contraction_of(ctx_, scope, e);
    if (!c || c->acc() != DType::F32 || !c->is_plain() || c->a.code() != DType::F32 || c->b.code() != DType::F32) return nullptr;
    if (is_weight(c->a)) c = c->swapped();
    if (!is_weight(c->b) || is_weight(c->a)) return nullptr;
    const auto longer = [](const std::vector<const ir::Dim*>& dims, int64_t than) {
      return std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return !d->extent->is_const() || d->extent->i > than; });
    };
    // Depthwise; or few channels, which pairs along k are no gain for, and a group of which would be half empty.
    if (!longer(c->n, nest::kFewColumns) || !longer(c->k, nest::kGroup)) return nullptr;
    const auto element = [&](const Expr* load) {
      const std::vector<const Expr*> index(load->args.begin(), load->args.end());
      return ctx_.cast(DType::F32, ctx_.load(twin(load->array), {DType::BF16, 1}, index, load->access));
    };
    return ctx_.fold(*e->fold, {ctx_.binary(Op::Mul, element(c->a.load), element(c->b.load))});
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
    added_.push_back(copy_statement(ctx_, f_, array, found->second, f_.arrays[found->second].name));
    return found->second;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  std::vector<bool> is_weight_;  // constants, and what is computed from them alone: scaled by a normalisation, say
  std::map<uint32_t, uint32_t> twins_;
  std::vector<nest::Statement> added_;  // to stand before the statement at hand
};

}  // namespace

Status products_in_bf16(ir::Context& ctx, nest::Function& f) {
  Precision(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
