// Values of small tensors while building: the statement just made is evaluated at each of its points, on constants and
// symbols. Shape -> Gather -> Concat -> Reshape chains fold this way without a rule of their own.
#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/lang/expand/expander.h"

namespace mlc::lang {
namespace {

constexpr size_t kMaxSteps = 20000;  // expressions evaluated per statement

// Evaluates a nest body at one point. Integers of arrays are i64 expressions; a cast to a narrower integer is kept only
// on constants, as symbols of shapes are assumed to fit.
class PointEvaluator {
 public:
  PointEvaluator(ir::Context& ctx, const nest::Function& function, const std::function<const std::vector<Ex>&(uint32_t)>& elements)
      : ctx_(ctx), function_(function), elements_(elements) {}

  std::unordered_map<const ir::Dim*, int64_t> point;
  std::unordered_map<Ex, Ex> vars;
  size_t steps = 0;

  // Null: not known.
  Ex eval(Ex e) {
    if (++steps > kMaxSteps) return nullptr;
    using O = ir::Op;
    switch (e->op) {
      case O::Const: return is_int(e->type.dtype) && e->type.dtype != DType::I64 ? ctx_.integer(e->i) : e;
      case O::Sym: return e;
      case O::Dim: {
        auto it = point.find(e->dim);
        return it == point.end() ? nullptr : ctx_.integer(it->second);
      }
      case O::Var: {
        auto it = vars.find(e);
        return it == vars.end() ? nullptr : it->second;
      }
      case O::Load: {
        const auto& known = elements_(e->array);
        if (known.empty()) return nullptr;
        const auto& shape = function_.arrays[e->array].shape;
        size_t at = 0;
        for (size_t k = 0; k < shape.size(); ++k) {
          Ex i = eval(e->args[k]);
          if (!i || !i->is_const() || !shape[k]->is_const() || i->i < 0 || i->i >= shape[k]->i) return nullptr;
          at = at * static_cast<size_t>(shape[k]->i) + static_cast<size_t>(i->i);
        }
        return at < known.size() ? known[at] : nullptr;
      }
      case O::Select: {
        Ex c = eval(e->args[0]);
        if (!c) return nullptr;
        if (c->is_const()) return eval(e->args[c->i ? 1 : 2]);
        if (ir::proves(ctx_, c)) return eval(e->args[1]);
        Ex a = eval(e->args[1]);
        Ex b = a ? eval(e->args[2]) : nullptr;
        return b ? ctx_.select(c, a, b) : nullptr;
      }
      case O::And:
      case O::Or: {
        Ex a = eval(e->args[0]);
        if (!a) return nullptr;
        if (a->is_const() && (a->i != 0) == (e->op == O::Or)) return a;
        Ex b = eval(e->args[1]);
        if (!b) return nullptr;
        return a->is_const() ? b : ctx_.binary(e->op, a, b);
      }
      case O::Cast: {
        Ex a = eval(e->args[0]);
        if (!a) return nullptr;
        const DType to = e->type.dtype, from = e->args[0]->type.dtype;
        if (is_int(to)) {
          if (a->is_const()) return ctx_.integer(ctx_.cast(to, typed(a, from))->i);
          if (is_int(from) || from == DType::Bool) return from == DType::Bool ? ctx_.cast(DType::I64, a) : a;
          return ctx_.cast(DType::I64, a);
        }
        return ctx_.cast(to, a->is_const() ? typed(a, from) : a);
      }
      case O::Fold: return fold(e);
      default: break;
    }
    if (e->args.empty() || e->args.size() > 3) return nullptr;
    std::vector<Ex> args;
    for (Ex arg : e->args) {
      Ex a = eval(arg);
      if (!a) return nullptr;
      args.push_back(a);
    }
    const DType t = e->args[0]->type.dtype;
    const bool constant = std::all_of(args.begin(), args.end(), [](Ex a) { return a->is_const(); });
    if (constant) {  // at the width of its type
      for (size_t k = 0; k < args.size(); ++k) args[k] = typed(args[k], e->args[k]->type.dtype);
      Ex r = args.size() == 1 ? (e->op == O::SatCast || e->op == O::Bitcast ? ctx_.convert(e->op, e->type, args[0]) : ctx_.unary(e->op, args[0]))
             : args.size() == 2 ? ctx_.binary(e->op, args[0], args[1])
                                : ctx_.fma(args[0], args[1], args[2]);
      if (!r->is_const()) return nullptr;
      return is_int(r->type.dtype) && r->type.dtype != DType::I64 ? ctx_.integer(r->i) : r;
    }
    if (e->op == O::SatCast || e->op == O::Bitcast) return nullptr;
    if (is_unsigned_int(t) && (e->op == O::Sub || e->op == O::BitNot)) return nullptr;
    if (args.size() == 1) return ctx_.unary(e->op, args[0]);
    if (args.size() == 2) return args[0]->type == args[1]->type ? ctx_.binary(e->op, args[0], args[1]) : nullptr;
    return nullptr;
  }

 private:
  Ex typed(Ex a, DType t) {
    if (a->type.dtype == t) return a;
    return is_int(t) && a->type.dtype == DType::I64 ? ctx_.integer(a->i, t) : a;
  }

  Ex fold(Ex e) {
    const ir::Fold& f = *e->fold;
    if (e->args.size() != 1 || f.combiner->join == ir::Join::Custom) return nullptr;
    std::vector<int64_t> extents;
    for (const ir::Dim* d : f.dims) {
      if (!d->extent->is_const()) return nullptr;
      extents.push_back(d->extent->i);
    }
    std::vector<int64_t> at(extents.size(), 0);
    Ex sum = nullptr;
    if (std::any_of(extents.begin(), extents.end(), [](int64_t n) { return n <= 0; })) return nullptr;
    const DType t = e->type.dtype;
    while (true) {
      for (size_t k = 0; k < at.size(); ++k) point[f.dims[k]] = at[k];
      Ex keep = f.where ? eval(f.where) : ctx_.boolean(true);
      if (!keep || !keep->is_const()) return nullptr;
      if (keep->i) {
        Ex v = eval(e->args[0]);
        if (!v) return nullptr;
        if (!sum) {
          sum = v;
        } else {
          ir::Op op;
          switch (f.combiner->join) {
            case ir::Join::Sum: op = ir::Op::Add; break;
            case ir::Join::Prod: op = ir::Op::Mul; break;
            case ir::Join::Min: op = ir::Op::Min; break;
            case ir::Join::Max: op = ir::Op::Max; break;
            case ir::Join::Any: op = ir::Op::Or; break;
            case ir::Join::All: op = ir::Op::And; break;
            default: sum = v; op = ir::Op::Const; break;
          }
          if (op != ir::Op::Const) {
            if (sum->type != v->type) return nullptr;
            sum = ctx_.binary(op, sum, v);
            if (is_int(t) && sum->is_const()) sum = ctx_.integer(ctx_.integer(sum->i, t)->i);
          }
        }
      }
      size_t k = at.size();
      while (k > 0 && ++at[k - 1] == extents[k - 1]) at[--k] = 0;
      if (k == 0) break;
    }
    if (sum) return sum;
    switch (f.combiner->join) {  // no point at all
      case ir::Join::Sum: return is_float(t) ? ctx_.number(0, t) : ctx_.integer(0);
      case ir::Join::Prod: return is_float(t) ? ctx_.number(1, t) : ctx_.integer(1);
      case ir::Join::Any: return ctx_.boolean(false);
      case ir::Join::All: return ctx_.boolean(true);
      default: return nullptr;
    }
  }

  ir::Context& ctx_;
  const nest::Function& function_;
  const std::function<const std::vector<Ex>&(uint32_t)>& elements_;
};

}  // namespace

void Expander::fold_elements(const nest::Nest& n) {
  const std::function<const std::vector<Ex>&(uint32_t)> lookup = [this](uint32_t array) -> const std::vector<Ex>& { return known_elements(array); };
  // What has been known about these arrays so far holds no longer; parts may be filled in by several statements.
  std::vector<std::vector<Ex>> before;
  bool possible = true;
  size_t points = 1;
  for (const ir::Dim* d : n.dims) {
    auto e = const_extent(d->extent);
    if (!e || *e == 0 || points > kMaxElements) { possible = false; break; }
    points *= *e;
  }
  for (const nest::Write& w : n.writes) {
    size_t count = 1;
    for (Ex e : function_.arrays[w.array].shape) {
      auto c = const_extent(e);
      if (!c || *c == 0 || count > kMaxElements) { possible = false; break; }
      count *= *c;
    }
    if (auto it = elements_.find(w.array); it != elements_.end()) before.push_back(it->second);
    else if (auto part = partial_.find(w.array); part != partial_.end()) before.push_back(part->second);
    else before.emplace_back(possible && count <= kMaxElements ? count : 0, nullptr);
    if (count > kMaxElements) possible = false;
    // A read of something unknown that is not behind a choice settles it at once.
    if (possible) {
      bool unknown = false, choice = false;
      ir::walk(w.value, [&](Ex e) {
        unknown = unknown || (e->op == ir::Op::Load && known_elements(e->array).empty());
        choice = choice || e->op == ir::Op::Select;
      });
      if (unknown && !choice) possible = false;
    }
  }
  for (const nest::Write& w : n.writes) {
    elements_.erase(w.array);
    partial_.erase(w.array);
  }
  if (!possible || points > 4 * kMaxElements || n.scan_combiner || n.where) return;
  PointEvaluator evaluator(ctx_, function_, lookup);
  std::vector<int64_t> at(n.dims.size(), 0);
  while (true) {
    for (size_t k = 0; k < at.size(); ++k) evaluator.point[n.dims[k]] = at[k];
    for (size_t k = 0; k < n.writes.size(); ++k) {
      const nest::Write& w = n.writes[k];
      const auto& shape = function_.arrays[w.array].shape;
      size_t place = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        Ex i = evaluator.eval(w.index[axis]);
        if (!i || !i->is_const() || i->i < 0 || i->i >= shape[axis]->i) return;
        place = place * static_cast<size_t>(shape[axis]->i) + static_cast<size_t>(i->i);
      }
      Ex v = evaluator.eval(w.value);
      if (!v || place >= before[k].size()) return;
      if (!v->is_const() && !ir::is_extent(v)) return;  // the run computes it
      const DType t = function_.arrays[w.array].dtype;
      if (!is_int(t) && v->type.dtype != t) return;
      if (w.push && w.join != ir::Join::Last) {
        Ex old = before[k][place];
        if (!old || !old->is_const() || !v->is_const() || !is_int(t)) return;
        const ir::Op op = w.join == ir::Join::Sum ? ir::Op::Add : w.join == ir::Join::Prod ? ir::Op::Mul : w.join == ir::Join::Min ? ir::Op::Min : ir::Op::Max;
        if (w.join == ir::Join::Any || w.join == ir::Join::All) return;
        v = ctx_.integer(ctx_.binary(op, ctx_.integer(old->i, t), ctx_.integer(v->i, t))->i);
      }
      before[k][place] = v;
    }
    size_t k = at.size();
    while (k > 0 && ++at[k - 1] == n.dims[k - 1]->extent->i) at[--k] = 0;
    if (k == 0) break;
  }
  for (size_t k = 0; k < n.writes.size(); ++k) {
    const bool complete = std::none_of(before[k].begin(), before[k].end(), [](Ex e) { return !e; });
    if (complete) elements_[n.writes[k].array] = before[k];
    else partial_[n.writes[k].array] = before[k];
  }
}

}  // namespace mlc::lang
