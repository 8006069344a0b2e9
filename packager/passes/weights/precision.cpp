// Products of rounded factors (mlpack build --precision).
//
// bf16, f16: both factors are rounded where they are stored, weights now, all others wherever they are written; products of these are
// exact in f32, and so are their sums as far as f32 goes. Products of two values of the run (attention) are among them for units for
// matrices alone, which have bf16, where there are rows enough to pack the second factor for: other instructions gain nothing by them.
// A weight that f16 cannot hold stays f32, and so does the other factor.
//
// tf32: the same 32 bits, so nothing is stored anew: both factors are rounded where the product reads them. Only tensor cores take it,
// which do what is wide in all directions. Not among them are statements of one launch of attention, whose sums are no tiles, and products
// whose weights change with the batch: groups are narrow, and places of Winograd magnify what a rounding loses.
//
// What is rounded stands in the function as an operation, so that the interpreter, every target and every kernel round alike.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "packager/ir/numeric.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

bool is_longer(const std::vector<const ir::Dim*>& dims, int64_t than) {
  return std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return !d->extent->is_const() || d->extent->i > than; });
}

// Of a side of a product; what the run tells is many.
int64_t points(const std::vector<const ir::Dim*>& dims) {
  constexpr int64_t kMany = 1 << 20;
  int64_t all = 1;
  for (const ir::Dim* d : dims) all = std::min(kMany, all * (d->extent->is_const() ? std::min(kMany, d->extent->i) : kMany));
  return all;
}

// Constants, and what is computed from them alone: scaled by a normalisation, say.
std::vector<bool> weights_in(const nest::Function& f) {
  std::vector<bool> found = constant_temporaries(f, uses_of(f));
  for (size_t i = 0; i < f.arrays.size(); ++i) found[i] = found[i] || f.arrays[i].kind == nest::Array::Kind::Const || f.arrays[i].kind == nest::Array::Kind::Derived;
  return found;
}

// Of f32 alone: sum(a * b). The weights, if there are any, are `b`.
std::optional<nest::Contraction> product_in_f32(ir::Context& ctx, const std::vector<const ir::Dim*>& scope, const Expr* e, const std::vector<bool>& is_weight) {
  auto c = nest::contraction_of(ctx, scope, e);
  if (!c || c->acc() != DType::F32 || !c->is_plain() || c->a.factor != c->a.load || c->b.factor != c->b.load) return std::nullopt;
  const auto is_one = [&](const nest::Operand& o) { return o.load->array < is_weight.size() && is_weight[o.load->array]; };
  if (is_one(c->a)) c = c->swapped();
  return is_one(c->a) ? std::nullopt : c;
}

class RoundedFactors {
 public:
  RoundedFactors(ir::Context& ctx, nest::Function& f, DType type, bool values) : ctx_(ctx), f_(f), type_(type), values_(values), is_weight_(weights_in(f)) {}

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
    const auto c = product_in_f32(ctx_, scope, e, is_weight_);
    // Depthwise; or few channels, which pairs along k are no gain for, and a group of which would be half empty.
    if (!c || !is_longer(c->n, nest::kFewColumns)) return nullptr;
    if (is_weight(c->b) ? !is_longer(c->k, nest::kGroup) || !holds(c->b.load->array) : !values_ || !is_longer(e->fold->dims, nest::kGroup) || !is_worth_packing(*c)) return nullptr;
    return ctx_.fold(*e->fold, {ctx_.binary(Op::Mul, element(c->a.load), element(c->b.load))});
  }

  // Whether the type has a finite number for each element. Of weights that are computed it is not known.
  bool holds(uint32_t array) {
    if (type_ == DType::BF16) return true;
    const auto [known, is_new] = holds_.emplace(array, false);
    const nest::Array& a = f_.arrays[array];
    if (!is_new || !a.data || a.dtype != DType::F32) return known->second;
    const std::span<const std::byte> bytes = a.data->bytes;
    bool all = true;
    for (uint64_t i = 0; i < bytes.size() / sizeof(float); ++i) all &= std::isfinite(ir::round_to(type_, ir::load_element(a.dtype, bytes.data(), i).f));
    return known->second = all;
  }

  // Whichever of both is the first factor.
  static bool is_worth_packing(const nest::Contraction& c) { return nest::is_worth_packing(c) || nest::is_worth_packing(c.swapped()); }

  const Expr* element(const Expr* load) {
    const std::vector<const Expr*> index(load->args.begin(), load->args.end());
    return ctx_.cast(DType::F32, ctx_.load(twin(load->array), {type_, 1}, index, load->access));
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

  // The array with the same elements, rounded.
  uint32_t twin(uint32_t array) {
    const auto [found, is_new] = twins_.emplace(array, static_cast<uint32_t>(f_.arrays.size()));
    if (!is_new) return found->second;
    nest::Array a;
    a.name = nest::unique_name(f_, f_.arrays[array].name + ", " + std::string(name_of(type_)), "");
    a.dtype = type_;
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
  const DType type_;
  const bool values_;  // products of two values of the run, too
  const std::vector<bool> is_weight_;
  std::map<uint32_t, bool> holds_;
  std::map<uint32_t, uint32_t> twins_;
  std::set<uint32_t> exponentials_;  // of those that have a twin
};

}  // namespace

Status round_products(ir::Context& ctx, nest::Function& f, DType type, bool values) {
  RoundedFactors(ctx, f, type, values).run();
  return ok();
}

Status products_in_tf32(ir::Context& ctx, nest::Function& f) {
  constexpr int64_t kLeast = 31;  // as many, or fewer, are no tile (lower/device/device_mma.cpp)
  const std::vector<bool> is_weight = weights_in(f);
  const auto rounded = [&](const std::vector<const ir::Dim*>& scope, const Expr* e) -> const Expr* {
    const auto c = product_in_f32(ctx, scope, e, is_weight);
    if (!c || points(c->m) <= kLeast || points(c->n) <= kLeast || points(e->fold->dims) <= kLeast) return nullptr;
    if (!c->batch.empty() && c->b.load->array < is_weight.size() && is_weight[c->b.load->array]) return nullptr;
    return ctx.fold(*e->fold, {ctx.binary(Op::Mul, ctx.unary(Op::Tf32, c->a.load), ctx.unary(Op::Tf32, c->b.load))});
  };
  for (size_t k = 0; k < f.body.size(); ++k) {
    const bool is_attention = f.body[k].joins || (k + 1 < f.body.size() && f.body[k + 1].joins);
    if (!f.body[k].nest || is_attention) continue;
    for (nest::Write& w : f.body[k].nest->writes) w.value = ctx.rewrite(w.value, [&](const Expr* e) { return rounded(f.body[k].nest->dims, e); });
  }
  return ok();
}

}  // namespace mlc::passes
