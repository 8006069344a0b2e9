// What is known of a node from its operands: the interval of its value, a number that divides it, and whether it is data, a
// running index, or an extent that can be worked out before the kernels run.
#include <algorithm>

#include "packager/ir/impl.h"

namespace mlc::ir {
namespace {

// Reals are those that a double holds together with what is rounded away.
bool is_extent_type(DType t) { return is_int(t) || t == DType::Bool || t == DType::F32 || t == DType::F64; }

// Whether the operation of n can be worked out before the kernels run, its operands being so (plan/symbols.cpp).
bool is_extent_operation(const Node& n) {
  if (!is_extent_type(n.type.dtype) || n.type.lanes != 1) return false;
  const bool real = !n.args.empty() && is_float(n.args.back()->type.dtype);
  switch (n.op) {
    case Op::Const: case Op::Sym: case Op::Neg: case Op::Abs: case Op::Add: case Op::Sub: case Op::Mul: case Op::Min: case Op::Max:
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: case Op::Select: case Op::Cast:
      return true;
    case Op::Not: case Op::And: case Op::Or: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod:
      return !real;
    case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: case Op::Sqrt: case Op::IsNan: case Op::Div:
      return real;
    default: return false;
  }
}

// What an integer operation is always a multiple of; 0 if it is 0.
int64_t divisor_of_operation(const Node& n) {
  const auto div = [&](size_t i) { return node(n.args[i])->divisor; };
  switch (n.op) {
    case Op::Const: return n.i == INT64_MIN ? 1 : std::abs(n.i);
    case Op::Sym: return n.sym->multiple;
    case Op::Add: case Op::Sub: case Op::Min: case Op::Max: return gcd(div(0), div(1));
    case Op::Select: return gcd(div(1), div(2));
    case Op::FloorMod: return node(n.args[1])->interval.lo > 0 ? gcd(div(0), div(1)) : 1;
    case Op::Neg: case Op::Abs: return div(0);
    case Op::Mul: {
      int64_t product;
      return __builtin_mul_overflow(div(0), div(1), &product) ? 1 : product;
    }
    case Op::FloorDiv: case Op::TruncDiv: {
      const Expr* by = n.args[1];
      return by->is_const() && by->i > 0 && div(0) % by->i == 0 ? div(0) / by->i : 1;
    }
    default: return 1;
  }
}

Interval interval_of_node(const Node& n) {
  if (n.op == Op::Sym) return {n.sym->lo, n.sym->hi};
  if (n.op == Op::Dim) {
    const int64_t end = node(n.dim->extent)->interval.hi;
    return {0, end == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, end - 1)};
  }
  Interval args[3];
  for (size_t k = 0; k < std::min(n.args.size(), std::size(args)); ++k) args[k] = node(n.args[k])->interval;
  return interval_of_operation(n, n.type.dtype == DType::I64 && !n.data ? Overflow::Never : Overflow::Wraps, args);
}

}  // namespace

Interval interval_of(const Monomial& m) {
  Interval v{1, 1};
  for (size_t i = 0; i < m.size();) {
    // An even power is not negative.
    size_t n = 1;
    while (i + n < m.size() && m[i + n] == m[i]) ++n;
    Interval p = node(m[i])->interval;
    for (size_t j = 1; j < n; ++j) p = multiply(p, node(m[i])->interval);
    if (n % 2 == 0) p.lo = std::max<int64_t>(p.lo, 0);
    v = i == 0 ? p : multiply(v, p);
    i += n;
  }
  return v;
}

Interval interval_of(const Poly& p) {
  Interval v{p.c, p.c};
  for (const Term& t : p.terms) v = interval_add(v, multiply(interval_of(t.factors), {t.k, t.k}));
  return v;
}

void Context::Impl::set_facts(Node& n) {
  // Variables and dims have numbers in the order in which they were made; what they are in is ordered by the last of them.
  if (n.op == Op::Var) n.latest = static_cast<uint64_t>(n.i + 1) << 32;
  if (n.op == Op::Dim) n.latest = uint64_t{n.dim->id} + 1;
  for (const Expr* a : n.args) n.latest = std::max(n.latest, node(a)->latest);
  if (n.fold && n.fold->where) n.latest = std::max(n.latest, node(n.fold->where)->latest);
  DType t = n.type.dtype;
  n.data = n.op == Op::Load || n.op == Op::Fold;
  n.running = n.op == Op::Dim;
  n.choice = n.op == Op::Select;
  n.extent = is_extent_operation(n);
  for (const Expr* a : n.args) {
    n.extent &= node(a)->extent;
    n.data |= node(a)->data;
    n.running |= node(a)->running;
    n.choice |= node(a)->choice;
  }
  if (n.op == Op::Fold) n.data = true;
  if (is_float(t) || t == DType::U64 || n.type.lanes != 1) return;
  const Interval v = n.interval = interval_of_node(n);
  // What is clamped to index arithmetic is index arithmetic: a clamped position that was loaded.
  auto index_arg = [&] { return !node(n.args[0])->data || !node(n.args[1])->data; };
  if (n.data && t == DType::I64 &&
      ((n.op == Op::Min && v.lo != INT64_MIN && index_arg()) || (n.op == Op::Max && v.hi != INT64_MAX && index_arg()) ||
       (n.op == Op::FloorMod && node(n.args[1])->interval.lo > 0 && !node(n.args[1])->data)))
    n.data = false;
  if (t == DType::I64 && (!n.data || bounded(v))) n.divisor = divisor_of_operation(n);
}

}  // namespace mlc::ir
