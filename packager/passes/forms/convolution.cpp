#include "packager/passes/forms/convolution.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "packager/nest/facts/contraction.h"

namespace mlc::passes {
namespace {

using ir::Dim;
using ir::Op;

bool knows(ir::Context& ctx, const Expr* e, const Dim* d) { return ir::depends_on(e, ctx.dim(d)); }
bool knows_any(ir::Context& ctx, const Expr* e, const std::vector<const Dim*>& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim* d) { return knows(ctx, e, d); });
}

// e = (s*out + tap)*n + what no dim of `others` knows; the strides s and n, of which n is not 0.
struct Slide {
  int64_t stride = 0, times = 0;
};
std::optional<Slide> slide_of(ir::Context& ctx, const Expr* e, const Dim* out, const Dim* tap, const std::vector<const Dim*>& others) {
  const Expr* leaves[] = {ctx.dim(out), ctx.dim(tap)};
  const auto linear = ir::linear_in(ctx, e, leaves);
  if (!linear || !linear->coefficients[0]->is_const() || !linear->coefficients[1]->is_const() || knows_any(ctx, linear->rest, others)) return std::nullopt;
  const int64_t of_out = linear->coefficients[0]->i, of_tap = linear->coefficients[1]->i;
  if (of_out == 0 || of_tap == 0 || of_out % of_tap != 0) return std::nullopt;
  return Slide{of_out / of_tap, of_tap};
}

// The axis that is innermost in memory.
size_t innermost(const nest::Array& a) { return a.layout.pieces.empty() ? a.shape.size() - 1 : a.layout.pieces.back().axis; }

const Expr* only_fold(const Expr* value) {
  const Expr* fold = nullptr;
  size_t folds = 0;
  ir::walk(value, [&](const Expr* e) {
    if (e->op == Op::Fold) fold = e, ++folds;
  });
  return folds == 1 ? fold : nullptr;
}

class Recogniser {
 public:
  Recogniser(ir::Context& ctx, const nest::Function& f) : ctx_(ctx), f_(f) {}

  bool run(size_t statement, Convolution& out) {
    PlainMap map;
    if (!plain_map(f_.body[statement], map)) return false;
    c_ = {};
    c_.statement = statement;
    c_.nest = map.nest;
    c_.write = map.write;
    c_.fold = only_fold(map.write->value);
    if (!c_.fold || c_.fold->type.dtype != DType::F32 || !nest::contraction_of(ctx_, map.nest->dims, c_.fold)) return false;
    for (size_t side = 0; side < 2; ++side) {
      c_.x = c_.fold->args[0]->args[side];
      c_.w = c_.fold->args[0]->args[1 - side];
      if (!weights() || !input() || !conditions()) continue;
      out = c_;
      return true;
    }
    return false;
  }

 private:
  static bool is_weight(const nest::Array& a) { return a.kind == nest::Array::Kind::Const || a.kind == nest::Array::Kind::Derived; }
  static bool is_f32_load(const Expr* e) { return e->op == Op::Load && e->type.dtype == DType::F32 && e->access == ir::Access::Proved; }

  // w[m, c, u, v] in any order, numbers beside them: m a map dim, c, u and v those of the sum; c is the one that x knows as it is.
  bool weights() {
    if (!is_f32_load(c_.w) || !is_f32_load(c_.x) || !is_weight(f_.arrays[c_.w->array])) return false;
    if (f_.arrays[c_.w->array].dtype != DType::F32 || f_.arrays[c_.x->array].dtype != DType::F32) return false;
    c_.m = c_.c = nullptr;
    for (const Expr* e : c_.w->args) {
      if (e->is_const()) continue;
      if (e->op != Op::Dim) return false;
      const auto& folded = c_.fold->fold->dims;
      if (std::find(folded.begin(), folded.end(), e->dim) != folded.end()) continue;
      if (c_.m || std::find(c_.nest->dims.begin(), c_.nest->dims.end(), e->dim) == c_.nest->dims.end()) return false;
      c_.m = e->dim;
    }
    for (const Dim* d : c_.fold->fold->dims) {
      const bool is_plain = std::find(c_.x->args.begin(), c_.x->args.end(), ctx_.dim(d)) != c_.x->args.end();
      if (is_plain && !c_.c) c_.c = d;
    }
    return c_.m && c_.c && c_.m->extent->is_const() && c_.c->extent->is_const() && !knows_any(ctx_, c_.w, others_than(c_.m));
  }

  std::vector<const Dim*> others_than(const Dim* m) const {
    std::vector<const Dim*> others;
    for (const Dim* d : c_.nest->dims)
      if (d != m) others.push_back(d);
    return others;
  }

  // x[.., c, s*p + u + .., t*q + v + ..]; its other axes and the dims of these know only batches.
  bool input() {
    std::vector<const Dim*> all = c_.nest->dims;
    all.insert(all.end(), c_.fold->fold->dims.begin(), c_.fold->fold->dims.end());
    c_.axes.clear();
    std::vector<const Expr*> others;
    for (size_t number = 0; number < c_.x->args.size(); ++number) {
      const Expr* e = c_.x->args[number];
      if (e == ctx_.dim(c_.c)) {
        if (innermost(f_.arrays[c_.x->array]) != number) return false;
        continue;
      }
      const Dim* tap = nullptr;
      for (const Dim* d : c_.fold->fold->dims)
        if (d != c_.c && knows(ctx_, e, d)) tap = d;
      if (!tap) {
        others.push_back(e);
        continue;
      }
      const Dim* out = nullptr;
      for (const Dim* d : c_.nest->dims)
        if (d != c_.m && knows(ctx_, e, d)) out = d;
      if (!out || !tap->extent->is_const()) return false;
      const auto slide = slide_of(ctx_, e, out, tap, without(all, out, tap));
      if (!slide || slide->stride < 1 || slide->times != 1) return false;
      c_.axes.push_back({out, tap, number, slide->stride});
    }
    if (c_.axes.empty() || c_.axes.size() > 2 || c_.axes.size() + 1 != c_.fold->fold->dims.size()) return false;
    const Convolution::Axis &first = c_.axes.front(), &last = c_.axes.back();
    if (c_.axes.size() > 1 && (first.out == last.out || first.tap == last.tap)) return false;
    c_.batch.clear();
    for (const Dim* d : c_.nest->dims)
      if (d != c_.m && std::none_of(c_.axes.begin(), c_.axes.end(), [&](const Convolution::Axis& axis) { return axis.out == d; })) c_.batch.push_back(d);
    const nest::Array& y = f_.arrays[c_.write->array];
    return std::none_of(others.begin(), others.end(), [&](const Expr* e) { return knows_any(ctx_, e, without(all, nullptr, nullptr, c_.batch)); }) &&
           c_.write->index[innermost(y)] == ctx_.dim(c_.m);
  }

  static std::vector<const Dim*> without(std::vector<const Dim*> dims, const Dim* a, const Dim* b, const std::vector<const Dim*>& more = {}) {
    std::erase_if(dims, [&](const Dim* d) { return d == a || d == b || std::find(more.begin(), more.end(), d) != more.end(); });
    return dims;
  }

  // Each is about the place along one axis.
  bool conditions() {
    c_.conditions.clear();
    add_conjuncts(c_.fold->fold->where, c_.conditions);
    std::vector<const Dim*> all = c_.nest->dims;
    all.insert(all.end(), c_.fold->fold->dims.begin(), c_.fold->fold->dims.end());
    return std::all_of(c_.conditions.begin(), c_.conditions.end(), [&](const Expr* term) {
      if ((term->op != Op::Lt && term->op != Op::Le) || term->args[0]->type.dtype != DType::I64) return false;
      const Expr* difference = ctx_.sub(term->args[1], term->args[0]);
      return std::any_of(c_.axes.begin(), c_.axes.end(), [&](const Convolution::Axis& axis) {
        const auto slide = slide_of(ctx_, difference, axis.out, axis.tap, without(all, axis.out, axis.tap));
        return slide && slide->stride == axis.stride;
      });
    });
  }

  ir::Context& ctx_;
  const nest::Function& f_;
  Convolution c_;
};

}  // namespace

bool find_convolution(ir::Context& ctx, const nest::Function& f, size_t statement, Convolution& out) {
  return Recogniser(ctx, f).run(statement, out);
}

}  // namespace mlc::passes
