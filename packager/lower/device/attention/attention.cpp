#include "packager/lower/device/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "packager/nest/proc.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Join;
using ir::Op;

namespace {

using Dims = std::vector<const ir::Dim*>;

constexpr size_t kMostParts = 1000;  // of a score that may fault
constexpr size_t kMostNodes = 2000;  // of a value

bool is_f32(const Expr* e) { return e->type.dtype == DType::F32; }
bool is_lowest(const Expr* e) { return e->is_const() && is_f32(e) && e->f == -INFINITY; }
bool is_zero(const Expr* e) { return e->is_const() && is_f32(e) && e->f == 0; }

// exp(score - top), or zero where top is -inf.
struct Exponential {
  const Expr *score = nullptr, *top = nullptr;
};
std::optional<Exponential> exponential_of(const Expr* e) {
  const Expr* top = nullptr;
  if (e->op == Op::Select && is_zero(e->args[1]) && e->args[0]->op == Op::Eq) {
    const Expr* equal = e->args[0];
    for (size_t k = 0; k < 2; ++k)
      if (is_lowest(equal->args[k])) top = equal->args[1 - k];
    if (!top) return std::nullopt;
    e = e->args[2];
  }
  if (e->op != Op::Exp || e->args[0]->op != Op::Sub || !is_f32(e)) return std::nullopt;
  const Expr* difference = e->args[0];
  if (top && difference->args[1] != top) return std::nullopt;
  return Exponential{difference->args[0], difference->args[1]};
}

// What nests of a group pass on, as values.
class Values {
 public:
  Values(ir::Context& ctx, const nest::Group& group) : ctx_(ctx), group_(group) {}

  // Whether what each nest but the last one writes is a value for each of its points, which these nests alone read.
  bool are_private() const {
    for (size_t k = 0; k + 1 < group_.nests.size(); ++k) {
      const nest::Nest& nest = *group_.nests[k];
      if (!is_plain(nest)) return false;
      if (std::none_of(group_.locals.begin(), group_.locals.end(), [&](const nest::Group::Local& l) { return l.array == nest.writes[0].array; })) return false;
    }
    return true;
  }

  // The nest before the last one that writes what is loaded.
  std::optional<size_t> writer_of(const Expr* load) const {
    for (size_t k = 0; load->op == Op::Load && k + 1 < group_.nests.size(); ++k)
      if (group_.nests[k]->writes[0].array == load->array) return k;
    return std::nullopt;
  }

  // `e`, where what nests from `first` on write is the value that they write; `but` stays as it is. Null, if there is no such value.
  const Expr* resolved(const Expr* e, size_t first, const Expr* but = nullptr) const {
    bool good = true;
    for (size_t round = first; round < group_.nests.size() && good; ++round) {
      bool changed = false;
      e = ctx_.rewrite(e, [&](const Expr* x) -> const Expr* {
        if (x == but) return x;
        const auto writer = writer_of(x);
        if (!writer || *writer < first) return nullptr;
        const Expr* value = written_at(*writer, x);
        changed = true;
        good &= value != nullptr;
        return value;
      });
      size_t nodes = 0;
      ir::walk(e, [&](const Expr*) { ++nodes; });
      if (nodes > kMostNodes) return nullptr;
      if (!changed) return e;
    }
    return nullptr;
  }

 private:
  // Each axis is a dim of its own, or has one element.
  static bool is_plain(const nest::Nest& nest) {
    if (nest.where || nest.scan_dim || nest.writes.size() != 1 || nest.writes[0].push) return false;
    std::vector<const ir::Dim*> seen;
    for (const Expr* e : nest.writes[0].index) {
      if (e->is_int(0)) continue;
      if (e->op != Op::Dim || std::find(seen.begin(), seen.end(), e->dim) != seen.end()) return false;
      seen.push_back(e->dim);
    }
    return seen.size() == nest.dims.size();
  }

  const Expr* written_at(size_t nest, const Expr* load) const {
    const nest::Write& w = group_.nests[nest]->writes[0];
    std::unordered_map<const Expr*, const Expr*> at;
    for (size_t axis = 0; axis < w.index.size(); ++axis)
      if (w.index[axis]->op == Op::Dim) at.emplace(w.index[axis], load->args[axis]);
    // A dim of the reader that is one of a fold inside would become part of it.
    bool captured = false;
    ir::walk(w.value, [&](const Expr* e) {
      if (e->op != Op::Fold) return;
      for (const ir::Dim* d : e->fold->dims)
        for (const Expr* arg : load->args) captured |= ir::depends_on(arg, ctx_.dim(d));
    });
    return captured ? nullptr : ctx_.substitute(w.value, at);
  }

  ir::Context& ctx_;
  const nest::Group& group_;
};

class Finder {
 public:
  Finder(ir::Context& ctx, const nest::Function& f, const nest::Group& group) : ctx_(ctx), f_(f), group_(group), values_(ctx, group) {}

  Result<std::optional<Attention>> run() {
    if (!values_.are_private() || !find_mixing() || !find_part() || !find_all() || !find_product()) return std::optional<Attention>();
    return flat();
  }

 private:
  bool depends_on_key(const Expr* e) const { return ir::depends_on(e, ctx_.dim(key_)); }
  const Expr* along_key(const Expr* e, const ir::Dim* d) { return ctx_.substitute(e, {{ctx_.dim(d), ctx_.dim(key_)}}); }

  // The sum over keys of weights, which the nests before wrote, times values. What the nests behind the first one pass on is had as
  // values, in terms of the scores.
  bool find_mixing() {
    whole_ = *group_.nests.back();
    if (whole_.where || whole_.scan_dim || whole_.writes.size() != 1 || whole_.writes[0].push) return false;
    take_rounding();
    size_t folds = 0;
    ir::walk(whole_.writes[0].value, [&](const Expr* e) {
      if (e->op == Op::Fold) mixed_ = e, ++folds;
    });
    if (folds != 1 || mixed_->fold->dims.size() != 1 || mixed_->fold->where) return false;
    const auto c = nest::contraction_of(ctx_, whole_.dims, mixed_);
    if (!c || c->acc() != DType::F32) return false;
    key_ = mixed_->fold->dims[0];
    const bool is_a = values_.writer_of(c->a.load).has_value();
    const nest::Operand &weights = is_a ? c->a : c->b, &others = is_a ? c->b : c->a;
    if (!values_.writer_of(weights.load) || values_.writer_of(others.load) || weights.factor != weights.load || others.inside || others.outside) return false;
    factor_ = others;
    for (const ir::Dim* d : whole_.dims) {
      const bool weighs = ir::depends_on(weights.load, ctx_.dim(d)), valued = ir::depends_on(others.factor, ctx_.dim(d));
      if (!weighs && !valued) return false;
      (weighs ? rows_ : columns_).push_back(d);
      if (weighs && !valued) queries_.push_back(d);
    }
    weight_ = values_.resolved(weights.load, 1);
    const Expr* result = values_.resolved(whole_.writes[0].value, 1, mixed_);
    if (!weight_ || !result) return false;
    whole_.writes[0].value = result;
    return !columns_.empty() && depends_on_key(weight_);
  }

  // The weights are the exponentials, or these times what does not depend on the key.
  bool find_part() {
    part_ = scaled_by_row(weight_);
    if (!part_) return false;
    const Exponential e = *exponential_of(part_);
    score_ = e.score;
    top_ = e.top;
    // The top is the largest of these scores.
    if (top_->op != Op::Fold || depends_on_key(top_) || top_->fold->combiner->join != Join::Max || top_->fold->where || top_->fold->dims.size() != 1) return false;
    const ir::Dim* d = top_->fold->dims[0];
    return d->extent == key_->extent && along_key(top_->args[0], d) == score_;
  }

  // Weights as the product takes them: whether they are rounded is the template's to do, on their way to it.
  void take_rounding() {
    const auto unrounded = [&](const Expr* e) -> const Expr* {
      const bool to_short = e->op == Op::Cast && is_f32(e) && e->args[0]->op == Op::Cast && is_f32(e->args[0]->args[0]);
      const Expr* load = e->op == Op::Tf32 ? e->args[0] : to_short ? e->args[0]->args[0] : nullptr;
      if (!load || !values_.writer_of(load)) return nullptr;
      rounding_ = to_short ? e->args[0]->type.dtype : DType::F32;
      return load;
    };
    whole_.writes[0].value = ctx_.rewrite(whole_.writes[0].value, unrounded);
  }

  // The exponential that `e` is linear in, if nothing else of it depends on the key.
  const Expr* scaled_by_row(const Expr* e) const {
    while (is_f32(e) && !exponential_of(e)) {
      const Expr* inside = nullptr;
      if (e->op == Op::Select && is_zero(e->args[1]) && !depends_on_key(e->args[0])) inside = e->args[2];
      if (e->op == Op::Div && !depends_on_key(e->args[1])) inside = e->args[0];
      for (size_t k = 0; e->op == Op::Mul && k < 2; ++k)
        if (!depends_on_key(e->args[1 - k])) inside = e->args[k];
      if (!inside) return nullptr;
      e = inside;
    }
    return is_f32(e) ? e : nullptr;
  }

  // Whatever else is had of the scores is the sum of all exponentials.
  bool find_all() {
    bool good = true;
    const auto look = [&](const Expr* root) {
      std::vector<const Expr*> stack{root};
      while (!stack.empty()) {
        const Expr* e = stack.back();
        stack.pop_back();
        if (e == mixed_ || e == part_) continue;
        good &= !values_.writer_of(e);
        if (e->op != Op::Fold) {
          stack.insert(stack.end(), e->args.begin(), e->args.end());
          continue;
        }
        good &= e == all_ || (!all_ && is_sum_of_parts(e));
        all_ = e;
      }
    };
    look(whole_.writes[0].value);
    look(weight_);
    return good;
  }

  bool is_sum_of_parts(const Expr* e) {
    if (e->fold->combiner->join != Join::Sum || e->fold->where || e->fold->dims.size() != 1) return false;
    const ir::Dim* d = e->fold->dims[0];
    return d->extent == key_->extent && along_key(e->args[0], d) == part_;
  }

  // Scores are what becomes of a product of queries and keys.
  bool find_product() {
    scored_ = values_.resolved(score_, 0);
    if (!scored_ || !is_f32(scored_)) return false;
    size_t folds = 0;
    ir::walk(scored_, [&](const Expr* e) { folds += e->op == Op::Fold; });
    return folds == 1;
  }

  // ---- with addresses ----

  Result<std::optional<Attention>> flat() {
    const std::optional<Attention> none;
    Params params(f_);
    for (size_t k = 0; k + 1 < group_.nests.size(); ++k) {
      const uint32_t array = group_.nests[k]->writes[0].array;
      params.locals.emplace(array, LocalRows{static_cast<uint32_t>(k), std::vector<const Expr*>(f_.arrays[array].shape.size(), ctx_.integer(0)), f_.arrays[array].shape});
    }
    const auto flattened = [&](const Expr* e) { return flatten(ctx_, f_, params, e); };
    Attention a;
    MLC_ASSIGN(a.nest, flatten(ctx_, f_, whole_, params));
    a.key = key_;
    a.mixed = flattened(mixed_);
    a.top = flattened(top_);
    a.score = flattened(scored_);
    a.part = flattened(ctx_.substitute(part_, {{score_, scored_}}));
    a.parted = flattened(part_);
    a.weight = flattened(weight_);
    if (all_) a.all = flattened(all_);
    a.rounding = rounding_;
    const auto within = [](const Expr* node, const Expr* e) { return ir::depends_on(e, node); };
    const bool found = within(a.score, a.part) && within(a.top, a.part) && within(a.parted, a.weight) && within(a.mixed, a.nest.writes[0].value);
    if (!found || (a.all && !within(a.all, a.weight) && !within(a.all, a.nest.writes[0].value))) return none;
    if (!check_scores(a) || may_fault(a.weight) || may_fault(a.nest.writes[0].value)) return none;
    a.values.factor = factor_;
    a.values.factor.factor = flattened(factor_.factor);
    a.values.factor.load = flattened(factor_.load);
    a.values.dims = columns_;
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : columns_) extents.push_back(d->extent);
    a.values.points = ctx_.product(extents);
    Facts facts;
    if (facts.needs_guard(a.values.factor.factor) || facts.has_fold(a.values.factor.factor)) return none;
    auto product = product_for_device(ctx_, scores(a, params));
    if (!product || product->sum() != DType::F32) return none;
    if (product->columns.dims != Dims{key_}) std::swap(product->rows, product->columns);
    Dims queries = queries_;
    std::erase_if(queries, [&](const ir::Dim* d) { return std::find(product->batch.begin(), product->batch.end(), d) != product->batch.end(); });  // of one query at most
    if (product->columns.dims != Dims{key_} || !std::is_permutation(product->rows.dims.begin(), product->rows.dims.end(), queries.begin(), queries.end())) return none;
    a.product = std::move(*product);
    a.nest.params = params.list;
    return std::optional(std::move(a));
  }

  static bool may_fault(const Expr* e) {
    bool found = false;
    ir::walk(e, [&](const Expr* x) { found |= x->op == Op::Load && x->access == Access::Checked && x->array < nest::kFirstLocal; });
    return found;
  }

  // Lanes that wait for each other go on after a fault: what may not be in range is read only where it is. False: a fault depends on more
  // than a query and a key.
  bool check_scores(Attention& a) {
    std::unordered_map<const Expr*, const Expr*> safe;
    std::set<std::pair<const Expr*, const Expr*>> seen;
    std::vector<std::pair<const Expr*, const Expr*>> stack{{a.score, nullptr}};  // a part, and when it is needed; null: always
    while (!stack.empty()) {
      const auto [e, when] = stack.back();
      stack.pop_back();
      if (!may_fault(e) || !seen.insert({e, when}).second) continue;
      if (e->op == Op::Fold || seen.size() > kMostParts) return false;
      const auto also = [&, when = when](const Expr* condition) { return ctx_.logical_and(when, condition); };
      if (e->op == Op::Load && e->access == Access::Checked) {
        if (may_fault(e->args[0])) return false;
        Expr load = *e;
        load.access = Access::Proved;
        const DType t = e->type.dtype;
        const Expr* none = is_float(t) ? ctx_.number(0, t) : t == DType::Bool ? ctx_.boolean(false) : ctx_.integer(0, t);
        safe.emplace(e, ctx_.select(e->args[1], ctx_.raw(load, {e->args[0]}), none));
        a.in_range.push_back(when ? ctx_.binary(Op::Or, ctx_.logical_not(when), e->args[1]) : e->args[1]);
        continue;
      }
      const bool has_arms = e->op == Op::Select || e->op == Op::And || e->op == Op::Or;
      stack.emplace_back(e->args[0], when);
      for (size_t k = 1; k < e->args.size(); ++k) {
        const bool if_true = e->op == Op::And || (e->op == Op::Select && k == 1);
        stack.emplace_back(e->args[k], has_arms ? also(if_true ? e->args[0] : ctx_.logical_not(e->args[0])) : when);
      }
    }
    for (const Expr* condition : a.in_range)
      if (may_fault(condition)) return false;
    if (safe.empty()) return true;
    const Expr* score = ctx_.substitute(a.score, safe);
    a.part = ctx_.substitute(a.part, {{a.score, score}});
    a.score = score;
    return true;
  }

  // The nest of the scores, as if they were written with their keys side by side.
  FlatNest scores(const Attention& a, const Params& params) {
    FlatNest n;
    n.dims = rows_;
    n.dims.push_back(key_);
    n.params = params.list;
    n.folds_anywhere = false;
    FlatWrite& w = n.writes.emplace_back();
    w.dtype = DType::F32;
    w.value = a.score;
    w.address = ctx_.integer(0);
    for (const ir::Dim* d : n.dims) w.address = ctx_.add(ctx_.mul(w.address, d->extent), ctx_.dim(d));
    return n;
  }

  ir::Context& ctx_;
  const nest::Function& f_;
  const nest::Group& group_;
  const Values values_;
  nest::Nest whole_;               // the last one
  const ir::Dim* key_ = nullptr;
  Dims rows_, queries_, columns_;  // of the last nest: that weights know, that values do not, and the others
  nest::Operand factor_;           // the values
  DType rounding_ = DType::None;   // of weights
  const Expr *mixed_ = nullptr, *weight_ = nullptr, *part_ = nullptr;
  const Expr *score_ = nullptr, *scored_ = nullptr, *top_ = nullptr, *all_ = nullptr;
};

}  // namespace

Result<std::optional<Attention>> attention_of(ir::Context& ctx, const nest::Function& f, const nest::Group& group) {
  return Finder(ctx, f, group).run();
}

}  // namespace mlc::lower
