// Convolutions of codes with few input channels: the taps along rows take the place of channels in groups of codes.
//
// Instructions on 8 bits multiply four codes along k at once. One, two or three channels fill no group, and taps that conditions cut
// short at the border may not be grouped. So what is read is copied with its border, the conditions go, and the weights get zeros
// behind the taps of a row until these are whole groups. The copy has a byte for each element, the product many operations.
//
//   sum(x[n, c, p + u - 1, q + v - 1] * w[m, c, u, v] for c, u, v < 3 where it exists)
//     becomes  t[n, c, i, j] = x[n, c, i - 1, j - 1] or the zero point;  sum(t[n, c, p + u, q + v] * w'[m, c, u, v] for c, u < 3, v < 4)
#include <algorithm>
#include <optional>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {

using ir::Op;

namespace {


// An axis of what is read: `offset` + sums of dims of the nest and of the fold, each times a positive number.
struct PaddedAxis {
  const Expr *index = nullptr, *offset = nullptr, *extent = nullptr;  // of the copy
  bool moves = false;
};

class PadCodes {
 public:
  PadCodes(ir::Context& ctx, nest::Function& f, const std::vector<bool>& constant, nest::Nest& nest) : ctx_(ctx), f_(f), constant_(constant), nest_(nest) {}

  // Statements that come before.
  std::vector<nest::Statement> run() {
    if (nest_.scan_dim) return {};
    for (nest::Write& w : nest_.writes) {
      std::vector<const Expr*> folds;
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op == Op::Fold) folds.push_back(e);
      });
      for (const Expr* fold : folds)
        if (find(fold)) replace(w, folds);
    }
    return std::move(before_);
  }

 private:
  bool is_const(const nest::Operand& o) const {
    const uint32_t a = o.load->array;
    return f_.arrays[a].kind == nest::Array::Kind::Const || (a < constant_.size() && constant_[a]);
  }

  bool find(const Expr* fold) {
    auto c = nest::contraction_of(ctx_, nest_.dims, fold);
    if (!c || c->acc() != DType::I32) return false;
    if (is_const(c->a)) c = c->swapped();
    if (is_const(c->a) || !is_const(c->b) || !c->is_plain_product() || !c->a.is_code() || c->b.code() != DType::I8) return false;
    if (c->a.load->args.empty() || c->a.load->access == ir::Access::Checked || estimate(c->n) < static_cast<double>(nest::kFewColumns)) return false;
    if (c->a.inside && (fold->fold->where || depends_on_points(c->a.outside))) return false;
    c_ = *c;
    return find_axes() && find_tap() && conditions_fit();
  }

  bool depends_on_points(const Expr* e) const {
    bool found = false;
    ir::walk(e, [&](const Expr* x) { found |= x->op == Op::Dim || x->op == Op::Fold || (x->op == Op::Load && x->access == ir::Access::Checked); });
    return found;
  }

  bool find_axes() {
    axes_.clear();
    const std::vector<const Expr*>& shape = f_.arrays[c_.a.load->array].shape;
    for (size_t k = 0; k < shape.size(); ++k) {
      PaddedAxis axis{c_.a.load->args[k], ctx_.integer(0), shape[k]};
      std::vector<const Expr*> leaves;
      bool has_row = false, has_tap = false, others = false;
      ir::walk(axis.index, [&](const Expr* e) {
        others |= e->op == Op::Load;
        if (e->op != Op::Dim) return;
        leaves.push_back(e);
        const bool is_tap = std::find(c_.fold->fold->dims.begin(), c_.fold->fold->dims.end(), e->dim) != c_.fold->fold->dims.end();
        const bool is_row = std::find(c_.m.begin(), c_.m.end(), e->dim) != c_.m.end();
        has_tap |= is_tap, has_row |= is_row, others |= !is_tap && !is_row;
      });
      if (has_tap && has_row && !others) {
        const auto linear = ir::linear_in(ctx_, axis.index, leaves);
        if (!linear || depends_on_points(linear->rest)) return false;
        axis.moves = true;
        axis.offset = linear->rest;
        axis.index = axis.extent = ctx_.integer(0);
        for (size_t d = 0; d < leaves.size(); ++d) {
          const Expr* by = linear->coefficients[d];
          if (!by->is_const() || by->i < 1) return false;
          axis.index = ctx_.add(axis.index, ctx_.mul(leaves[d], by));
          axis.extent = ctx_.add(axis.extent, ctx_.mul(leaves[d]->dim->extent, by));
        }
      }
      axes_.push_back(axis);
    }
    return axes_.back().moves;
  }

  // Of the dims along rows one whose elements are contiguous; what no axis moves along are channels.
  bool find_tap() {
    tap_ = nullptr;
    double channels = 1, others = 1;
    for (const ir::Dim* d : c_.fold->fold->dims) {
      const Expr* leaf[] = {ctx_.dim(d)};
      const auto moving = std::find_if(axes_.begin(), axes_.end(), [&](const PaddedAxis& a) { return a.moves && ir::depends_on(a.index, leaf[0]); });
      if (moving == axes_.end() || !d->extent->is_const()) {
        if (!d->extent->is_const()) return false;
        channels *= static_cast<double>(d->extent->i);
        continue;
      }
      const bool is_plain = std::count(c_.b.load->args.begin(), c_.b.load->args.end(), leaf[0]) == 1;
      const auto linear = ir::linear_in(ctx_, axes_.back().index, leaf);
      if (is_plain && d->extent->i > 1 && linear && linear->coefficients[0]->is_int(1) && (!tap_ || d->extent->i > tap_->extent->i)) tap_ = d;
      others *= static_cast<double>(d->extent->i);
    }
    if (!tap_ || channels >= static_cast<double>(nest::kGroup)) return false;
    others /= static_cast<double>(tap_->extent->i);
    if (channels > 1 && channels * static_cast<double>((tap_->extent->i + nest::kGroup - 1) / nest::kGroup) > targets::kAnyProcessor.padding_times * static_cast<double>(tap_->extent->i)) return false;
    return others >= 1;
  }

  // All that they say is that what is read exists, along axes that are copied with their border.
  bool conditions_fit() {
    std::vector<const Expr*> terms, known;
    add_conjuncts(c_.fold->fold->where, terms);
    add_conjuncts(c_.a.inside, terms);
    const nest::Array& x = f_.arrays[c_.a.load->array];
    for (size_t k = 0; k < axes_.size(); ++k)
      if (axes_[k].moves) add_conjuncts(inside(c_.a.load->args[k], x.shape[k]), known);
    if (terms.empty() && tap_->extent->i % nest::kGroup == 0) return false;  // it may be read as stored
    return std::all_of(terms.begin(), terms.end(), [&](const Expr* term) { return std::find(known.begin(), known.end(), term) != known.end(); });
  }
  const Expr* inside(const Expr* index, const Expr* extent) {
    return ctx_.binary(Op::And, ctx_.binary(Op::Le, ctx_.integer(0), index), ctx_.binary(Op::Lt, index, extent));
  }

  void replace(nest::Write& w, const std::vector<const Expr*>& folds) {
    const ir::Dim* tap = tap_;
    const int64_t rest = tap_->extent->i % nest::kGroup;
    if (rest > 0) tap = ctx_.declare_dim(tap_->name, ctx_.integer(tap_->extent->i + nest::kGroup - rest));
    const Expr* x = padded(tap);
    const Expr* product = ctx_.binary(Op::Mul, ctx_.cast(DType::I32, x), ctx_.cast(DType::I32, tap == tap_ ? c_.b.load : widened(tap)));
    ir::Fold fold{c_.fold->fold->combiner, c_.fold->fold->dims, nullptr};
    std::unordered_map<const Expr*, const Expr*> with;
    // A sum of the codes alone is taken apart from the product: beside it there are other codes behind the taps.
    for (const Expr* sum : folds)
      if (nest::is_sum_of_operand(sum, c_, c_.a)) with.emplace(sum, summed(ctx_.fold(fold, {ctx_.cast(DType::I32, x)})));
    std::replace(fold.dims.begin(), fold.dims.end(), tap_, tap);
    with.emplace(c_.fold, ctx_.fold(fold, {ctx_.substitute(product, {{ctx_.dim(tap_), ctx_.dim(tap)}})}));
    w.value = ctx_.substitute(w.value, with);
  }

  // The load from a copy with its border and so many taps.
  const Expr* padded(const ir::Dim* tap) {
    const nest::Array x = f_.arrays[c_.a.load->array];
    const Expr* outside = c_.a.outside ? ctx_.cast(x.dtype, c_.a.outside) : ctx_.number(0, x.dtype);
    nest::Array copy;
    copy.name = nest::unique_name(f_, x.name + ", with its border", "");
    copy.dtype = x.dtype;
    nest::Statement s;
    s.nest = std::make_unique<nest::Nest>();
    std::vector<const Expr*> to, from, index;
    const Expr* exists = ctx_.boolean(true);
    for (size_t k = 0; k < axes_.size(); ++k) {
      const PaddedAxis& axis = axes_[k];
      const Expr* extent = axis.extent;
      if (axis.moves && k + 1 == axes_.size()) extent = ctx_.add(extent, ctx_.sub(tap->extent, tap_->extent));
      if (ir::interval_of(extent).lo < 0) extent = ctx_.max(extent, ctx_.integer(0));
      copy.shape.push_back(extent);
      const bool is_one = extent->is_int(1);
      const ir::Dim* d = is_one ? nullptr : ctx_.declare_dim("i" + std::to_string(k), extent);
      if (d) s.nest->dims.push_back(d);
      to.push_back(d ? ctx_.dim(d) : ctx_.integer(0));
      from.push_back(ctx_.add(to.back(), axis.offset));
      index.push_back(axis.index);
      if (axis.moves) exists = ctx_.binary(Op::And, exists, inside(from.back(), x.shape[k]));
    }
    const auto array = static_cast<uint32_t>(f_.arrays.size());
    s.source = copy.name;
    const Expr* code = ctx_.load(c_.a.load->array, c_.a.load->type, from, ir::Access::Proved);
    s.nest->writes.push_back({array, to, ctx_.select(exists, code, outside)});
    f_.arrays.push_back(std::move(copy));
    before_.push_back(std::move(s));
    return ctx_.load(array, c_.a.load->type, index, ir::Access::Proved);
  }

  // The load from weights with zeros behind the taps.
  const Expr* widened(const ir::Dim* tap) {
    const nest::Array w = f_.arrays[c_.b.load->array];
    nest::Array wide = w;
    wide.kind = nest::Array::Kind::Temp;
    wide.data = nullptr;
    wide.layout = {};
    wide.name = nest::unique_name(f_, w.name + ", whole groups", "");
    nest::Statement s;
    s.nest = std::make_unique<nest::Nest>();
    std::vector<const Expr*> at;
    const Expr* exists = ctx_.boolean(true);
    for (size_t k = 0; k < w.shape.size(); ++k) {
      if (c_.b.load->args[k] == ctx_.dim(tap_)) wide.shape[k] = tap->extent;
      const ir::Dim* d = ctx_.declare_dim("w" + std::to_string(k), wide.shape[k]);
      s.nest->dims.push_back(d);
      at.push_back(ctx_.dim(d));
      if (wide.shape[k] == tap->extent && c_.b.load->args[k] == ctx_.dim(tap_)) exists = ctx_.binary(Op::Lt, at.back(), tap_->extent);
    }
    const auto array = static_cast<uint32_t>(f_.arrays.size());
    s.source = wide.name;
    s.nest->writes.push_back({array, at, ctx_.select(exists, ctx_.load(c_.b.load->array, c_.b.load->type, at, ir::Access::Proved), ctx_.number(0, w.dtype))});
    f_.arrays.push_back(std::move(wide));
    before_.push_back(std::move(s));
    return ctx_.load(array, c_.b.load->type, {c_.b.load->args.begin(), c_.b.load->args.end()}, c_.b.load->access);
  }

  // The load from an array of a sum that the columns share.
  const Expr* summed(const Expr* sum) {
    nest::Array a;
    a.name = nest::unique_name(f_, f_.arrays[c_.a.load->array].name + ", sums", "");
    a.dtype = DType::I32;
    nest::Statement s;
    s.source = a.name;
    s.nest = std::make_unique<nest::Nest>();
    std::vector<const Expr*> index, at;
    std::unordered_map<const Expr*, const Expr*> here;
    for (const ir::Dim* d : nest_.dims) {
      if (!ir::depends_on(sum, ctx_.dim(d))) continue;
      s.nest->dims.push_back(ctx_.declare_dim(d->name, d->extent));
      a.shape.push_back(d->extent);
      at.push_back(ctx_.dim(d));
      index.push_back(ctx_.dim(s.nest->dims.back()));
      here.emplace(at.back(), index.back());
    }
    const auto array = static_cast<uint32_t>(f_.arrays.size());
    s.nest->writes.push_back({array, index, ctx_.substitute(sum, here)});
    f_.arrays.push_back(std::move(a));
    before_.push_back(std::move(s));
    return ctx_.load(array, {DType::I32, 1}, at);
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const std::vector<bool>& constant_;
  nest::Nest& nest_;
  nest::Contraction c_;
  std::vector<PaddedAxis> axes_;
  const ir::Dim* tap_ = nullptr;
  std::vector<nest::Statement> before_;
};

}  // namespace

Status pad_codes(ir::Context& ctx, nest::Function& f) {
  const std::vector<bool> constant = constant_temporaries(f, uses_of(f));
  std::vector<nest::Statement> body;
  for (nest::Statement& s : f.body) {
    if (s.nest)
      for (nest::Statement& before : PadCodes(ctx, f, constant, *s.nest).run()) body.push_back(std::move(before));
    body.push_back(std::move(s));
  }
  f.body = std::move(body);
  return ok();
}

}  // namespace mlc::passes
