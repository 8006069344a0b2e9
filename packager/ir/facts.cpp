// What is known of a node from its operands: the interval of its value, a number that divides it, and whether it is data, a
// running index, or an extent that can be worked out before the kernels run.
#include <algorithm>

#include "packager/ir/impl.h"
#include "packager/ir/numeric.h"

namespace mlc::ir {
namespace {

int64_t clamp128(__int128 v) {
  return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v);
}
constexpr Interval kAll;

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

}  // namespace

// Bounds at the ends of int64 stay there: they mean "unbounded".
Interval interval_add(Interval a, Interval b) {
  return {a.lo == INT64_MIN || b.lo == INT64_MIN ? INT64_MIN : clamp128(static_cast<__int128>(a.lo) + b.lo),
          a.hi == INT64_MAX || b.hi == INT64_MAX ? INT64_MAX : clamp128(static_cast<__int128>(a.hi) + b.hi)};
}

Interval multiply(Interval a, Interval b) {
  const auto times = [](int64_t x, int64_t y) {
    if (x == 0 || y == 0) return int64_t{0};  // of "unbounded", too
    const bool unbounded = x == INT64_MIN || x == INT64_MAX || y == INT64_MIN || y == INT64_MAX;
    int64_t p;
    if (!unbounded && !__builtin_mul_overflow(x, y, &p)) return p;
    return (x < 0) == (y < 0) ? INT64_MAX : INT64_MIN;
  };
  const auto [lo, hi] = std::minmax({times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)});
  return {lo, hi};
}

Interval scale(Interval a, int64_t k) { return multiply(a, {k, k}); }

Interval interval_of(const Monomial& m) {
  Interval v{1, 1};
  for (size_t i = 0; i < m.size();) {
    // An even power is not negative.
    size_t n = 1;
    while (i + n < m.size() && m[i + n] == m[i]) ++n;
    Interval f = node(m[i])->interval, p{1, 1};
    for (size_t j = 0; j < n; ++j) p = multiply(p, f);
    if (n % 2 == 0) p.lo = std::max<int64_t>(p.lo, 0);
    v = multiply(v, p);
    i += n;
  }
  return v;
}

Interval interval_of(const Poly& p) {
  Interval v{p.c, p.c};
  for (const Term& t : p.terms) v = interval_add(v, scale(interval_of(t.factors), t.k));
  return v;
}

namespace {

// Where the value of an integer operation lies before it is cut to the width of its type, and what it is a multiple of.
Interval interval_of_operation(Node& n, Interval range) {
  auto arg = [&](size_t i) { return node(n.args[i])->interval; };
  bool int_args = !n.args.empty() && !is_float(n.args[0]->type.dtype) && n.args[0]->type.dtype != DType::U64;
  Interval v = range;
  n.divisor = 1;
  auto div = [&](size_t i) { return node(n.args[i])->divisor; };
  switch (n.op) {
    case Op::Const:
      v = {n.i, n.i};
      n.divisor = n.i == INT64_MIN ? 1 : n.i < 0 ? -n.i : n.i;
      break;
    case Op::Sym:
      v = {n.sym->lo, n.sym->hi};
      n.divisor = n.sym->multiple;
      break;
    case Op::Dim: {
      Interval e = node(n.dim->extent)->interval;
      v = {0, e.hi == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, e.hi - 1)};
      break;
    }
    case Op::Add:
      v = interval_add(arg(0), arg(1));
      n.divisor = gcd(div(0), div(1));
      break;
    case Op::Sub:
      v = interval_add(arg(0), scale(arg(1), -1));
      n.divisor = gcd(div(0), div(1));
      break;
    case Op::Neg: v = scale(arg(0), -1); n.divisor = div(0); break;
    case Op::Mul: {
      v = multiply(arg(0), arg(1));
      if (n.args[0] == n.args[1]) v.lo = std::max<int64_t>(v.lo, 0);
      if (__builtin_mul_overflow(div(0), div(1), &n.divisor)) n.divisor = 1;
      break;
    }
    case Op::Abs: {
      Interval a = arg(0);
      bool wide = a.lo == INT64_MIN;
      v = {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, wide ? INT64_MAX : std::max(-a.lo, a.hi)};
      n.divisor = div(0);
      break;
    }
    case Op::FloorDiv: case Op::TruncDiv: {
      Interval a = arg(0), b = arg(1);
      if (b.lo <= 0) {
        if (a.lo >= 0 && b.lo >= 0) v = {0, a.hi};  // and a division by zero gives 0
        break;
      }
      bool floor = n.op == Op::FloorDiv;
      auto q = [&](int64_t x, int64_t y) { return floor ? floor_div(x, y) : x / y; };
      v.lo = a.lo == INT64_MIN ? INT64_MIN : std::min(q(a.lo, b.lo), b.hi == INT64_MAX ? (a.lo < 0 && floor ? -1 : 0) : q(a.lo, b.hi));
      v.hi = a.hi == INT64_MAX ? INT64_MAX : std::max(q(a.hi, b.lo), b.hi == INT64_MAX ? (a.hi < 0 && floor ? -1 : 0) : q(a.hi, b.hi));
      if (n.args[1]->is_const() && div(0) % n.args[1]->i == 0) n.divisor = div(0) / n.args[1]->i;
      break;
    }
    case Op::FloorMod: {
      Interval a = arg(0), b = arg(1);
      if (b.lo <= 0) break;
      v = {0, b.hi == INT64_MAX ? INT64_MAX : b.hi - 1};
      if (a.lo >= 0) v.hi = std::min(v.hi, a.hi);
      n.divisor = gcd(div(0), div(1));
      break;
    }
    case Op::TruncMod: {
      Interval a = arg(0), b = arg(1);
      if (b.lo <= 0) break;
      if (a.lo >= 0) v = {0, std::min(a.hi, b.hi == INT64_MAX ? INT64_MAX : b.hi - 1)};
      break;
    }
    case Op::Min:
      v = {std::min(arg(0).lo, arg(1).lo), std::min(arg(0).hi, arg(1).hi)};
      n.divisor = gcd(div(0), div(1));
      break;
    case Op::Max:
      v = {std::max(arg(0).lo, arg(1).lo), std::max(arg(0).hi, arg(1).hi)};
      n.divisor = gcd(div(0), div(1));
      break;
    case Op::Select:
      v = {std::min(arg(1).lo, arg(2).lo), std::max(arg(1).hi, arg(2).hi)};
      n.divisor = gcd(div(1), div(2));
      break;
    case Op::BitAnd:
      if (n.args[1]->is_const() && n.args[1]->i >= 0) v = {0, n.args[1]->i};
      break;
    case Op::Cast:
      if (int_args && arg(0).lo >= range.lo && arg(0).hi <= range.hi) {
        v = arg(0);
        n.divisor = div(0);
      }
      break;
    case Op::SatCast:
      if (int_args) v = {std::clamp(arg(0).lo, range.lo, range.hi), std::clamp(arg(0).hi, range.lo, range.hi)};
      break;
    default: break;
  }
  return v;
}

}  // namespace

void Context::Impl::set_facts(Node& n) {
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
  Interval range = t == DType::I64 || t == DType::None ? kAll : Interval{lowest_int(t), highest_int(t)};
  Interval v = interval_of_operation(n, range);
  // Arithmetic that may wrap at the width of its type keeps only the range of the type.
  bool wraps = t != DType::I64 || n.data;
  if (wraps && (v.lo < range.lo || v.hi > range.hi || (t == DType::I64 && !bounded(v)))) {
    bool min_max = n.op == Op::Min || n.op == Op::Max || n.op == Op::Select || n.op == Op::FloorMod || n.op == Op::Cast;
    if (!min_max) v = range;
  }
  n.interval = v;
  // What is clamped to index arithmetic is index arithmetic: a clamped position that was loaded.
  auto index_arg = [&] { return !node(n.args[0])->data || !node(n.args[1])->data; };
  if (n.data && t == DType::I64 &&
      ((n.op == Op::Min && v.lo != INT64_MIN && index_arg()) || (n.op == Op::Max && v.hi != INT64_MAX && index_arg()) ||
       (n.op == Op::FloorMod && node(n.args[1])->interval.lo > 0 && !node(n.args[1])->data)))
    n.data = false;
  if (t != DType::I64 || (n.data && !bounded(v))) n.divisor = 1;
}

}  // namespace mlc::ir
