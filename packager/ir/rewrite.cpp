// Substitution: post-order over the graph with an explicit stack, each shared node once.
#include "packager/ir/impl.h"
#include "packager/ir/node_map.h"

namespace mlc::ir {

const Expr* Context::rebuild(const Expr* e, std::vector<const Expr*> args) {
  switch (e->op) {
    case Op::Const: case Op::Sym: case Op::Dim: case Op::Var: return e;
    case Op::Load: return load(e->array, e->type, std::move(args), e->access);
    case Op::Fold: return fold(*e->fold, std::move(args));
    case Op::Field: return field(args[0], static_cast<unsigned>(e->i));
    case Op::Neg: case Op::Abs: case Op::Not: case Op::BitNot: case Op::Floor: case Op::Ceil: case Op::Trunc:
    case Op::Rint: case Op::Sqrt: case Op::IsNan: case Op::IsInf: case Op::Exp: case Op::Log: case Op::Sin: case Op::Cos:
    case Op::Tan: case Op::Asin: case Op::Acos: case Op::Atan: case Op::Sinh: case Op::Cosh: case Op::Tanh:
    case Op::Asinh: case Op::Acosh: case Op::Atanh: case Op::Erf: case Op::Cast: case Op::SatCast: case Op::Bitcast:
    case Op::Tf32: case Op::Exp2: case Op::Splat:
      return convert(e->op, e->type, args[0]);
    case Op::Add: case Op::Sub: case Op::Mul: case Op::Div: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv:
    case Op::TruncMod: case Op::Min: case Op::Max: case Op::Pow: case Op::And: case Op::Or: case Op::BitAnd:
    case Op::BitOr: case Op::BitXor: case Op::Shl: case Op::Shr: case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne:
      return binary(e->op, args[0], args[1]);
    case Op::Select: return select(args[0], args[1], args[2]);
    case Op::Fma: return fma(args[0], args[1], args[2]);
    case Op::Ramp: case Op::Extract: case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes:
    case Op::Widen: case Op::Dot: {
      Expr copy = *e;
      copy.args = {};
      return raw(copy, std::move(args));
    }
  }
  return e;
}

const Expr* Context::rewrite(const Expr* root, const std::function<const Expr*(const Expr*)>& replace) {
  NodeMap<const Expr*> done;
  const auto of = [&](const Expr* e) { return *done.find(e); };  // arguments come before what is made of them
  std::vector<std::pair<const Expr*, bool>> stack{{root, false}};
  while (!stack.empty()) {
    auto [e, entered] = stack.back();
    if (done.contains(e)) {
      stack.pop_back();
      continue;
    }
    if (!entered) {
      if (const Expr* r = replace(e)) {
        done.insert(e, r);
        stack.pop_back();
        continue;
      }
      stack.back().second = true;
      for (const Expr* a : e->args)
        if (!done.contains(a)) stack.push_back({a, false});
      if (e->op == Op::Fold) {
        if (e->fold->where) stack.push_back({e->fold->where, false});
        for (const Dim* d : e->fold->dims) stack.push_back({dim(d), false});
      }
      continue;
    }
    stack.pop_back();
    std::vector<const Expr*> args;
    bool changed = false;
    for (const Expr* a : e->args) {
      args.push_back(of(a));
      changed |= args.back() != a;
    }
    if (e->op == Op::Fold) {
      Fold f = *e->fold;
      if (f.where) f.where = of(f.where);
      changed |= f.where != e->fold->where;
      for (const Dim*& d : f.dims) {
        const Expr* r = of(dim(d));
        if (r->op == Op::Dim && r->dim != d) {
          d = r->dim;
          changed = true;
        }
      }
      done.insert(e, changed ? fold(std::move(f), std::move(args)) : e);
      continue;
    }
    done.insert(e, changed ? rebuild(e, std::move(args)) : e);
  }
  impl_->rewritten += done.size();
  return of(root);
}

const Expr* Context::substitute(const Expr* e, const std::unordered_map<const Expr*, const Expr*>& map) {
  return rewrite(e, [&](const Expr* x) -> const Expr* {
    auto it = map.find(x);
    return it == map.end() ? nullptr : it->second;
  });
}

}  // namespace mlc::ir
