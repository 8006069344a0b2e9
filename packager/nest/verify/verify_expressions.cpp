#include <unordered_set>

#include "packager/nest/proc.h"
#include "packager/nest/verify/verifier.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {
constexpr ir::Type kBool{DType::Bool, 1}, kIndex{DType::I64, 1};
}  // namespace

// Types and bound names below `roots`, and the order of arrays. A node is looked at once for all of them.
void Verifier::check(std::vector<const Expr*> roots, const Dims& bound) {
  std::unordered_set<const Expr*> seen;
  std::vector<const Expr*> stack = std::move(roots);
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (!seen.insert(e).second) continue;
    node(e, bound);
    if (e->op == Op::Fold) fold_dims(e, bound);
    else stack.insert(stack.end(), e->args.begin(), e->args.end());
  }
}

// Folds bind dims: what is below is looked at with more of them.
void Verifier::fold_dims(const Expr* e, const Dims& bound) {
  Dims inner = bound;
  for (const ir::Dim* d : e->fold->dims) {
    if (!inner.insert(d).second) say("dim '" + d->name + "' is bound twice");
    extent(d->extent, "extent of dim '" + d->name + "'");
  }
  if (fold_depth_ == kMaxDepth) return say("folds nested too deeply");
  ++fold_depth_;
  std::vector<const Expr*> below(e->args.begin(), e->args.end());
  if (e->fold->where) below.push_back(e->fold->where);
  check(std::move(below), inner);
  --fold_depth_;
}

void Verifier::misfit(const Expr* e) { say("types do not fit in " + ir::to_string(e).substr(0, 200)); }

void Verifier::load(const Expr* e) {
  DType dtype = DType::None;
  size_t rank = 0;
  std::string name;
  if (e->array >= kFirstLocal) {
    const size_t n = e->array - kFirstLocal;
    if (!locals_ || n >= locals_->size()) return say("no local array %" + std::to_string(e->array));
    const loop::LocalArray& a = (*locals_)[n];
    dtype = a.dtype, rank = a.shape.size(), name = a.name;
  } else {
    if (!known(e->array)) return;
    const Array& a = function_.arrays[e->array];
    dtype = a.dtype, rank = a.shape.size(), name = a.name;
    if (a.list_depth) say("the list '" + name + "' is read as an array");
    if (!state_[e->array].written && !own_results_.contains(e->array)) say("'" + name + "' is read before it is written");
    state_[e->array].read = true;
  }
  if (e->type.dtype != dtype) misfit(e);
  if (e->args.size() != rank) say("'" + name + "' is read with " + std::to_string(e->args.size()) + " indices, it has " + std::to_string(rank) + " axes");
  for (const Expr* index : e->args)
    if (index->type != kIndex) misfit(e);
}

void Verifier::fold(const Expr* e) {
  const ir::Combiner* c = e->fold->combiner;
  const size_t fields = c->join == ir::Join::Custom ? c->joins.size() : 1;
  if (e->args.size() != fields) return say("combiner '" + c->name + "' has another number of fields");
  if (e->type != e->args[0]->type || (e->fold->where && e->fold->where->type != kBool)) misfit(e);
  for (size_t i = 0; c->join == ir::Join::Custom && i < fields; ++i)
    if (e->args[i]->type != c->left[i]->type || e->args[i]->type != c->units[i]->type || e->args[i]->type != c->joins[i]->type) misfit(e);
  if ((c->join == ir::Join::Any || c->join == ir::Join::All) && e->args[0]->type != kBool) misfit(e);
}

void Verifier::node(const Expr* e, const Dims& bound) {
  auto type = [&](size_t i) { return e->args[i]->type; };
  auto like = [&](size_t i) { return e->type == type(i); };
  if (e->type.lanes != 1) return say("vector in a nest");
  const DType t = e->type.dtype;
  bool good = true;
  switch (e->op) {
    case Op::Const: case Op::Sym: case Op::Cast: break;
    case Op::Dim:
      if (!bound.contains(e->dim)) say("dim '" + e->dim->name + "' is not bound where it is used");
      break;
    case Op::Var:
      if (!locals_) say("variable outside of a proc");
      break;
    case Op::Load: return load(e);
    case Op::Fold: return fold(e);
    case Op::Field: {
      const size_t field = static_cast<size_t>(e->i);
      good = e->args[0]->op == Op::Fold && field < e->args[0]->args.size() && e->args[0]->args[field]->type == e->type;
      break;
    }
    case Op::Neg: case Op::Abs: case Op::BitNot: case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: good = like(0); break;
    case Op::Not: good = e->type == kBool && like(0); break;
    case Op::Sqrt: case Op::Exp: case Op::Log: case Op::Sin: case Op::Cos: case Op::Tan: case Op::Asin: case Op::Acos:
    case Op::Atan: case Op::Sinh: case Op::Cosh: case Op::Tanh: case Op::Asinh: case Op::Acosh: case Op::Atanh: case Op::Erf:
      good = like(0) && is_float(t);
      break;
    case Op::IsNan: case Op::IsInf: good = e->type == kBool && is_float(type(0).dtype); break;
    case Op::SatCast: good = is_int(t); break;
    case Op::Bitcast: good = bits_of(t) == bits_of(type(0).dtype); break;
    case Op::Tf32: good = like(0) && t == DType::F32; break;
    case Op::Div: good = like(0) && like(1) && is_float(t); break;
    case Op::Add: case Op::Sub: case Op::Mul: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod:
    case Op::Min: case Op::Max: case Op::Pow:
      good = like(0) && like(1);
      break;
    case Op::BitAnd: case Op::BitOr: case Op::BitXor: good = like(0) && like(1) && !is_float(t); break;
    case Op::Shl: case Op::Shr: good = like(0) && like(1) && is_int(t); break;
    case Op::And: case Op::Or: good = e->type == kBool && like(0) && like(1); break;
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: good = e->type == kBool && type(0) == type(1); break;
    case Op::Select: good = type(0) == kBool && like(1) && like(2); break;
    case Op::Fma: good = like(0) && like(1) && like(2) && is_float(t); break;
    case Op::Splat: case Op::Ramp: case Op::Extract: case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes:
    case Op::MaxLanes: case Op::Widen: case Op::Dot:
      return say("vector operation in a nest");
    case Op::Exp2: return say("exp2, which kernels alone have, in a nest");
  }
  if (!good) misfit(e);
}

}  // namespace mlc::nest
