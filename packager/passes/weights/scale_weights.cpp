// A * sum(x * w) + B, with A and B known for every output channel, is sum(x * (A * w)) + B: BatchNormalization after a
// convolution costs nothing. A and B may contain constants only, indexed by dims that index w as well. The new weights
// and the new bias are written as statements over constants; fold-constants computes them.
//
// The products are rounded in another order; that is all that changes.
#include <algorithm>
#include <optional>

#include "packager/nest/facts/contraction.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

// e = a * fold + b. Null a: e is free of the fold and made of constants; null b: no addend. Not `linear`: anything else.
struct Form {
  bool linear = false, constant = false;
  const Expr *a = nullptr, *b = nullptr;
};

class Scaler {
 public:
  Scaler(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)) {}

  void run() {
    for (size_t i = 0; i < f_.body.size(); ++i)
      if (f_.body[i].nest && !f_.body[i].nest->scan_dim && f_.body[i].nest->writes.size() == 1) statement(i);
    // New statements read constants only: they go in front.
    for (nest::Statement& s : added_) f_.body.push_back(std::move(s));
    std::rotate(f_.body.begin(), f_.body.end() - static_cast<ptrdiff_t>(added_.size()), f_.body.end());
  }

 private:
  void statement(size_t i) {
    const Expr*& value = f_.body[i].nest->writes[0].value;
    const Expr *fold = nullptr, *w = nullptr;
    ir::walk(value, [&](const Expr* e) {
      const auto c = nest::contraction_of(ctx_, f_.body[i].nest->dims, e);
      if (c && c->acc() == DType::F32 && c->is_plain()) fold = fold ? nullptr : e;
    });
    if (!fold) return;
    for (const Expr* l : fold->args[0]->args)
      if (l->op == Op::Load && f_.arrays[l->array].kind == nest::Array::Kind::Const && l->access == ir::Access::Proved) w = w ? nullptr : l;
    if (!w || uses_.readers[w->array].size() != 1 || uses_.output[w->array]) return;
    // Axes of w that are a plain map dim of the nest: what A and B may depend on.
    channels_.clear();
    for (const Expr* e : w->args)
      if (e->op == Op::Dim && std::find(fold->fold->dims.begin(), fold->fold->dims.end(), e->dim) == fold->fold->dims.end())
        channels_.push_back(e);
    std::unordered_map<const Expr*, Form> forms;
    const Expr* best = nullptr;
    std::vector<const Expr*> candidates;
    size_t loads_of_w = 0;
    ir::walk(value, [&](const Expr* e) {
      loads_of_w += e->op == Op::Load && e->array == w->array;
      forms[e] = form(e, fold, forms);
      if (forms[e].linear && e != fold) candidates.push_back(e);
    });
    // The outermost node through which all uses of the fold go. (Arguments were visited first.)
    for (size_t k = candidates.size(); !best && k-- > 0;) {
      const Expr* rest = ctx_.substitute(value, {{candidates[k], ctx_.number(0, DType::F32)}});
      if (!ir::depends_on(rest, fold)) best = candidates[k];
    }
    if (!best || loads_of_w != 1) return;
    Form total = forms[best];
    bool scaled = !is_one(total.a), shifted = total.b && !plain_bias(total.b);
    if (!scaled && !shifted) return;
    if (!ir::depends_on(best, fold)) return;
    const Expr* product = fold;
    if (scaled) product = scale(fold, w, total.a, f_.body[i].source);
    if (!product) return;
    const Expr* bias = total.b && shifted ? shift(total.b, f_.body[i].source) : total.b;
    const Expr* replacement = bias ? ctx_.binary(Op::Add, product, bias) : product;
    const Expr* changed = ctx_.substitute(value, {{best, replacement}});
    // The fold must not stay behind in a part of the value that is not linear in it.
    if (scaled && ir::depends_on(changed, fold)) return;
    value = changed;
  }

  Form form(const Expr* e, const Expr* fold, const std::unordered_map<const Expr*, Form>& forms) {
    Form r;
    if (e == fold) {
      r.linear = true;
      r.a = ctx_.number(1, DType::F32);
      return r;
    }
    auto arg = [&](size_t k) -> const Form& { return forms.at(e->args[k]); };
    auto constants = [&] {
      for (size_t k = 0; k < e->args.size(); ++k)
        if (!arg(k).constant) return false;
      return true;
    };
    switch (e->op) {
      case Op::Const: r.constant = true; return r;
      case Op::Dim: r.constant = std::find(channels_.begin(), channels_.end(), e) != channels_.end(); return r;
      case Op::Load: r.constant = f_.arrays[e->array].kind == nest::Array::Kind::Const && constants(); return r;
      case Op::Sym: case Op::Var: case Op::Fold: case Op::Field: return r;
      default: break;
    }
    if (constants()) {
      r.constant = true;
      return r;
    }
    if (e->type.dtype != DType::F32) return r;
    auto sum = [&](const Expr* x, const Expr* y, Op op) { return ctx_.binary(op, x, y); };
    if (e->op == Op::Neg && arg(0).linear) {
      r = {true, false, ctx_.unary(Op::Neg, arg(0).a), arg(0).b ? ctx_.unary(Op::Neg, arg(0).b) : nullptr};
    } else if (e->op == Op::Add || e->op == Op::Sub) {
      for (size_t k = 0; k < 2; ++k) {
        if (!arg(k).linear || !arg(1 - k).constant) continue;
        const Form& l = arg(k);
        const Expr* c = e->args[1 - k];
        bool minus = e->op == Op::Sub;
        r.linear = true;
        r.a = minus && k == 1 ? ctx_.unary(Op::Neg, l.a) : l.a;
        if (!l.b) r.b = minus && k == 0 ? ctx_.unary(Op::Neg, c) : c;
        else r.b = k == 0 ? sum(l.b, c, e->op) : sum(c, l.b, e->op);
      }
    } else if (e->op == Op::Mul || e->op == Op::Div) {
      for (size_t k = 0; k < (e->op == Op::Mul ? 2u : 1u); ++k) {
        if (!arg(k).linear || !arg(1 - k).constant) continue;
        r = {true, false, sum(arg(k).a, e->args[1 - k], e->op), arg(k).b ? sum(arg(k).b, e->args[1 - k], e->op) : nullptr};
      }
    }
    return r;
  }

  static bool is_one(const Expr* e) { return e->is_const() && e->f == 1; }
  static bool plain_bias(const Expr* e) { return e->is_const() || e->op == Op::Load; }

  uint32_t new_array(const std::string& name, std::vector<const Expr*> shape) {
    nest::Array a;
    a.name = name;
    for (int n = 2; std::any_of(f_.arrays.begin(), f_.arrays.end(), [&](const nest::Array& o) { return o.name == a.name; }); ++n)
      a.name = name + "." + std::to_string(n);
    a.dtype = DType::F32;
    a.shape = std::move(shape);
    f_.arrays.push_back(std::move(a));
    return static_cast<uint32_t>(f_.arrays.size()) - 1;
  }
  void add(const std::string& source, std::vector<const ir::Dim*> dims, uint32_t array, std::vector<const Expr*> index, const Expr* value) {
    nest::Statement s;
    s.source = source;
    s.nest = std::make_unique<nest::Nest>();
    s.nest->dims = std::move(dims);
    s.nest->writes.push_back({array, std::move(index), value});
    added_.push_back(std::move(s));
  }

  // The fold over new weights a * w.
  const Expr* scale(const Expr* fold, const Expr* w, const Expr* a, const std::string& source) {
    const nest::Array weights = f_.arrays[w->array];
    std::vector<const ir::Dim*> dims;
    std::vector<const Expr*> index;
    std::unordered_map<const Expr*, const Expr*> here;
    for (size_t k = 0; k < w->args.size(); ++k) {
      dims.push_back(ctx_.declare_dim("w" + std::to_string(k), weights.shape[k]));
      index.push_back(ctx_.dim(dims.back()));
      if (std::find(channels_.begin(), channels_.end(), w->args[k]) != channels_.end()) here.emplace(w->args[k], index.back());
    }
    uint32_t scaled = new_array(weights.name + "*scale", weights.shape);
    const Expr* element = ctx_.load(w->array, w->type, index);
    add(source + ", weights", dims, scaled, index, ctx_.binary(Op::Mul, element, ctx_.substitute(a, here)));
    const Expr* other = fold->args[0]->args[fold->args[0]->args[0] == w ? 1 : 0];
    std::vector<const Expr*> at(w->args.begin(), w->args.end());
    return ctx_.fold(*fold->fold, {ctx_.binary(Op::Mul, other, ctx_.load(scaled, w->type, at))});
  }

  // b as an array over the dims it depends on.
  const Expr* shift(const Expr* b, const std::string& source) {
    std::vector<const ir::Dim*> dims;
    std::vector<const Expr*> shape, index, at;
    std::unordered_map<const Expr*, const Expr*> here;
    for (const Expr* c : channels_) {
      if (!ir::depends_on(b, c) || here.contains(c)) continue;
      dims.push_back(ctx_.declare_dim(c->dim->name, c->dim->extent));
      shape.push_back(c->dim->extent);
      index.push_back(ctx_.dim(dims.back()));
      here.emplace(c, index.back());
      at.push_back(c);
    }
    uint32_t bias = new_array(source + ", bias", std::move(shape));
    add(source + ", bias", dims, bias, index, ctx_.substitute(b, here));
    return ctx_.load(bias, {DType::F32, 1}, std::move(at));
  }

  ir::Context& ctx_;
  nest::Function& f_;
  Uses uses_;
  std::vector<const Expr*> channels_;
  std::vector<nest::Statement> added_;
};

}  // namespace

Status scale_weights(ir::Context& ctx, nest::Function& f) {
  Scaler(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
