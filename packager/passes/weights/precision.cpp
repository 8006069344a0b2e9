// Products of rounded factors (mlpack build --precision).
//
// bf16, f16: both factors are rounded where they are stored, weights now, all others wherever they are written; products of these are
// exact in f32, and so are their sums as far as f32 goes. Products of two values of the run (attention) are among them for units for
// matrices alone, which have bf16, where there are rows enough to pack the second factor for: other instructions gain nothing by them.
// Devices store queries, keys and values so, where nothing else reads them, not exponentials, which one launch of attention has in registers (below).
// A weight that f16 cannot hold stays f32, and so does the other factor.
//
// tf32: the same 32 bits, so nothing is stored anew: both factors are rounded where the product reads them. Only tensor cores take it,
// which do what is wide in all directions. Not among them are products
// whose weights change with the batch: groups are narrow, and places of Winograd magnify what a rounding loses.
//
// A launch of attention is rounded apart, for devices with tensor cores alone: to tf32 all factors of both products, to bf16 and f16 the
// exponentials that the second one takes from registers, where its values are of that type. Launches of few queries multiply in f32 anyway.
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

// Whichever of both is the first factor.
bool is_worth_packing_either(const nest::Contraction& c) { return nest::is_worth_packing(c) || nest::is_worth_packing(c.swapped()); }

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
    if (is_weight(c->b) ? !is_longer(c->k, nest::kGroup) || !holds(c->b.load->array) : !values_ || !is_longer(e->fold->dims, nest::kGroup) || !is_worth_packing_either(*c)) return nullptr;
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

// Values of the run that products of two such values alone read, stored rounded: cuts and fusion find the arrays that were there.
class RoundedInPlace {
 public:
  RoundedInPlace(ir::Context& ctx, nest::Function& f, DType type) : ctx_(ctx), f_(f), type_(type), is_weight_(weights_in(f)), uses_(uses_of(f)) {}

  void run() {
    std::vector<uint32_t> found;
    for (uint32_t a = 0; a < f_.arrays.size(); ++a)
      if (is_private(a) && !is_exponential(a) && is_factor(a)) found.push_back(a);
    for (const uint32_t a : found) {
      f_.arrays[a].dtype = type_;
      for (nest::Write& w : f_.body[uses_.writers[a][0]].nest->writes)
        if (w.array == a) w.value = ctx_.cast(type_, w.value);
      for (const size_t reader : uses_.readers[a]) map_roots(f_.body[reader], [&](const Expr* root) { return ctx_.rewrite(root, [&](const Expr* e) { return rounded(e, a); }); });
    }
  }

 private:
  const Expr* rounded(const Expr* e, uint32_t array) {
    if (e->op != Op::Load || e->array != array || e->type.dtype == type_) return nullptr;
    return ctx_.cast(DType::F32, ctx_.load(array, {type_, 1}, {e->args.begin(), e->args.end()}, e->access));
  }

  bool is_private(uint32_t a) const {
    const nest::Array& array = f_.arrays[a];
    if (array.dtype != DType::F32 || array.kind != nest::Array::Kind::Temp || is_weight_[a] || uses_.output[a] || uses_.writers[a].size() != 1) return false;
    const nest::Statement& writer = f_.body[uses_.writers[a][0]];
    const auto stays = [&](size_t reader) { return f_.body[reader].nest && f_.body[reader].part == writer.part; };
    return writer.nest && std::all_of(uses_.readers[a].begin(), uses_.readers[a].end(), stays);
  }

  bool is_factor(uint32_t array) {
    size_t loads = 0, factors = 0;
    for (const size_t reader : uses_.readers[array])
      for_roots(f_.body[reader], [&](const Expr* root) {
        ir::walk(root, [&](const Expr* e) {
          loads += e->op == Op::Load && e->array == array;
          const auto c = product_in_f32(ctx_, f_.body[reader].nest->dims, e, is_weight_);
          if (!c || is_weight_[c->b.load->array] || !is_longer(c->n, nest::kFewColumns) || !is_longer(e->fold->dims, nest::kGroup) || !is_worth_packing_either(*c)) return;
          factors += c->a.load->array == array;
          factors += c->b.load->array == array && c->b.load != c->a.load;
        });
      });
    return loads == factors && loads > 0;
  }

  // Also what is divided by their sum, or is zero where there is none.
  bool is_exponential(uint32_t array) const {
    constexpr int kMost = 8;  // arrays, one made of the other
    for (int k = 0; k < kMost && uses_.writers[array].size() == 1 && f_.body[uses_.writers[array][0]].nest; ++k) {
      const Expr *whole = f_.body[uses_.writers[array][0]].nest->writes[0].value, *e = whole;
      while (e->op == Op::Select || e->op == Op::Div || e->op == Op::Mul) {
        const bool second = e->op == Op::Mul && e->args[0]->op != Op::Load && e->args[0]->op != Op::Exp;
        e = e->args[e->op == Op::Select ? 2 : second];
      }
      if (e->op == Op::Exp) return true;
      if (e->op != Op::Load || e == whole) return false;
      array = e->array;
    }
    return false;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const DType type_;
  const std::vector<bool> is_weight_;
  const Uses uses_;
};

// A launch of attention by tensor cores: what its products take is rounded, and so are its weights, which stay in registers.
class RoundedAttention {
 public:
  // `type`: F16 or BF16, whose factors from memory are rounded there; F32: to tf32.
  RoundedAttention(ir::Context& ctx, nest::Function& f, DType type) : ctx_(ctx), f_(f), type_(type) {}

  void run() {
    for (size_t begin = 0, end; begin < f_.body.size(); begin = end) {
      for (end = begin + 1; end < f_.body.size() && f_.body[end].joins;) ++end;
      if (end == begin + 1) continue;
      std::set<uint32_t> inside;  // what one statement of the launch passes on to another
      for (size_t k = begin; k < end; ++k) {
        if (!f_.body[k].nest) continue;
        for (nest::Write& w : f_.body[k].nest->writes) w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return rounded(f_.body[k].nest->dims, e, inside); });
        for (const nest::Write& w : f_.body[k].nest->writes) inside.insert(w.array);
      }
    }
  }

 private:
  const Expr* rounded(const std::vector<const ir::Dim*>& scope, const Expr* e, const std::set<uint32_t>& inside) {
    const auto c = nest::contraction_of(ctx_, scope, e);
    constexpr int64_t kLeast = 31;  // as many, or fewer, are no tile (lower/device/attention/mma.cpp)
    if (!c || c->acc() != DType::F32 || !c->is_plain()) return nullptr;
    const bool a_weighs = inside.contains(c->a.load->array), b_weighs = inside.contains(c->b.load->array);
    if ((a_weighs && b_weighs) || (!inside.empty() && !a_weighs && !b_weighs)) return nullptr;
    if (points(b_weighs ? c->n : c->m) <= kLeast || points(a_weighs || b_weighs ? e->fold->dims : c->n) <= kLeast) return nullptr;  // queries, keys
    const Expr *a = factor(c->a, inside), *b = factor(c->b, inside);
    return a && b && (a != c->a.factor || b != c->b.factor) ? ctx_.fold(*e->fold, {ctx_.binary(Op::Mul, a, b)}) : nullptr;
  }

  // Null: it is of another type than the rounded ones.
  const Expr* factor(const nest::Operand& o, const std::set<uint32_t>& inside) {
    const bool is_f32 = o.factor == o.load && o.load->type.dtype == DType::F32;
    if (type_ == DType::F32) return is_f32 ? ctx_.unary(Op::Tf32, o.load) : nullptr;
    if (inside.contains(o.load->array)) return is_f32 ? ctx_.cast(DType::F32, ctx_.cast(type_, o.load)) : nullptr;
    return o.load->type.dtype == type_ ? o.factor : nullptr;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const DType type_;
};

}  // namespace

Status round_attention(ir::Context& ctx, nest::Function& f, DType type) {
  RoundedAttention(ctx, f, type).run();
  return ok();
}

Status round_values(ir::Context& ctx, nest::Function& f, DType type) {
  RoundedInPlace(ctx, f, type).run();
  return ok();
}

Status round_products(ir::Context& ctx, nest::Function& f, DType type, bool values) {
  RoundedFactors(ctx, f, type, values).run();
  return ok();
}

Status products_in_tf32(ir::Context& ctx, nest::Function& f) {
  constexpr int64_t kLeast = 31;  // as many, or fewer, are no tile (lower/device/product/mma.cpp)
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
