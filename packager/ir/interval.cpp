#include "packager/ir/interval.h"

#include <algorithm>
#include <vector>

#include "packager/ir/numeric.h"

namespace mlc::ir {
namespace {

using Wide = __int128;
constexpr Wide kFar = (Wide{1} << 126) - 1;  // no bound; the sum of two fits, and what int64 holds lies far below it

struct WideInterval {
  Wide lo = -kFar, hi = kFar;
};

WideInterval widened(Interval v, Overflow overflow) {
  if (overflow == Overflow::Wraps) return {v.lo, v.hi};
  return {v.lo == INT64_MIN ? -kFar : v.lo, v.hi == INT64_MAX ? kFar : v.hi};
}
int64_t narrowed(Wide v) { return static_cast<int64_t>(std::clamp<Wide>(v, INT64_MIN, INT64_MAX)); }
Interval narrowed(WideInterval v) { return {narrowed(v.lo), narrowed(v.hi)}; }

bool is_far(Wide v) { return v <= -kFar || v >= kFar; }
Wide times(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;  // of what has no bound, too
  return !is_far(a) && !is_far(b) ? a * b : (a < 0) == (b < 0) ? kFar : -kFar;
}
Wide over(Wide a, Wide b, bool rounds_down) {  // b > 0
  if (is_far(a)) return a;
  if (is_far(b)) return rounds_down && a < 0 ? -1 : 0;
  const int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);  // a division of 128 bits is a call
  return x / y - (rounds_down && x % y < 0);
}

template <class F>
WideInterval of_corners(WideInterval a, WideInterval b, const F& f) {
  const auto [lo, hi] = std::minmax({f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)});
  return {lo, hi};
}

WideInterval sum(WideInterval a, WideInterval b) { return {a.lo + b.lo, a.hi + b.hi}; }
WideInterval product(WideInterval a, WideInterval b) {
  if (a.lo >= 0 && b.lo >= 0) return {times(a.lo, b.lo), times(a.hi, b.hi)};
  return of_corners(a, b, times);
}
WideInterval negated(WideInterval a) { return {-a.hi, -a.lo}; }
WideInterval clamped(WideInterval a, WideInterval to) { return {std::clamp(a.lo, to.lo, to.hi), std::clamp(a.hi, to.lo, to.hi)}; }

WideInterval quotient(WideInterval a, WideInterval b, bool rounds_down) {
  if (b.lo == 0 && a.lo >= 0) return {0, a.hi};  // a division by zero gives 0
  if (b.lo <= 0) return {};
  return of_corners(a, b, [&](Wide x, Wide y) { return over(x, y, rounds_down); });
}

// It has the sign of the divisor, or that of the dividend, from which it does not lead away.
WideInterval remainder(WideInterval a, WideInterval b, bool rounds_down) {
  if (b.lo <= 0) return {};
  const Wide most = b.hi - 1;
  if (a.lo >= 0) return {0, std::min(a.hi, most)};
  if (rounds_down) return {0, most};
  return {std::max(a.lo, -most), std::clamp<Wide>(a.hi, 0, most)};
}

// Of what is not negative; the other operand takes bits away.
WideInterval common_bits(WideInterval a, WideInterval b) {
  if (a.lo < 0 && b.lo < 0) return {};
  return {0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : std::min(a.hi, b.hi)};
}

// By powers of two that are numbers of the type: simplification makes no others of shifts either.
WideInterval shifted(const Expr& e, WideInterval a) {
  const Expr& by = *e.args[1];
  if (!by.is_const() || by.i < 0 || by.i >= std::min<int64_t>(bits_of(e.type.dtype), 63)) return {};
  const Wide power = Wide{1} << by.i;
  return e.op == Op::Shl ? product(a, {power, power}) : quotient(a, {power, power}, true);
}

WideInterval of_operation(const Expr& e, WideInterval type, WideInterval a, WideInterval b, WideInterval c) {
  switch (e.op) {
    case Op::Const: return {e.i, e.i};
    case Op::Add: return sum(a, b);
    case Op::Sub: return sum(a, negated(b));
    case Op::Mul: {
      const WideInterval p = product(a, b);
      return e.args[0] == e.args[1] ? WideInterval{std::max<Wide>(p.lo, 0), p.hi} : p;
    }
    case Op::Neg: return negated(a);
    case Op::Abs: return {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, std::max(-a.lo, a.hi)};
    case Op::FloorDiv: case Op::TruncDiv: return quotient(a, b, e.op == Op::FloorDiv);
    case Op::FloorMod: case Op::TruncMod: return remainder(a, b, e.op == Op::FloorMod);
    case Op::Min: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Op::Max: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case Op::Select: return {std::min(b.lo, c.lo), std::max(b.hi, c.hi)};
    case Op::BitAnd: return common_bits(a, b);
    case Op::Shl: case Op::Shr: return shifted(e, a);
    case Op::SatCast: return clamped(a, type);
    case Op::Cast: case Op::Splat: case Op::Extract: return a;
    case Op::Ramp: {
      const Wide last = Wide{e.i} * (e.type.lanes - 1);
      return sum(a, {std::min<Wide>(last, 0), std::max<Wide>(last, 0)});
    }
    default: return {};
  }
}

}  // namespace

Interval interval_of_type(DType t) {
  if (t == DType::U64 || (!is_int(t) && t != DType::Bool)) return {};
  return {lowest_int(t), highest_int(t)};
}

Interval interval_of_operation(const Expr& e, Overflow overflow, const Interval* args) {
  const DType t = e.type.dtype;
  const Interval type = interval_of_type(t);
  if (is_float(t) || t == DType::U64) return type;
  const auto arg = [&](size_t k) { return k < e.args.size() ? widened(args[k], overflow) : WideInterval{}; };
  const WideInterval v = of_operation(e, {type.lo, type.hi}, arg(0), arg(1), arg(2));
  const bool fits = v.lo >= type.lo && v.hi <= type.hi;
  return fits || overflow == Overflow::Never ? narrowed(v) : type;
}

Interval interval_add(Interval a, Interval b) { return narrowed(sum(widened(a, Overflow::Never), widened(b, Overflow::Never))); }
Interval multiply(Interval a, Interval b) { return narrowed(product(widened(a, Overflow::Never), widened(b, Overflow::Never))); }

std::optional<bool> settled(Op op, Interval a, Interval b) {
  const bool below = a.hi < b.lo, above = a.lo > b.hi;
  if (op == Op::Lt && (below || a.lo >= b.hi)) return below;
  if (op == Op::Le && (above || a.hi <= b.lo)) return !above;
  if ((op == Op::Eq || op == Op::Ne) && (below || above)) return op == Op::Ne;
  return {};
}

Interval KernelIntervals::compute(const Expr& e) const {
  if (e.op == Op::Sym) {
    const auto assumed = syms_.find(e.sym);
    return assumed == syms_.end() ? Interval{e.sym->lo, e.sym->hi} : assumed->second;
  }
  Interval args[3];
  for (size_t k = 0; k < std::min(e.args.size(), std::size(args)); ++k) args[k] = known_.at(e.args[k]);
  return interval_of_operation(e, Overflow::Wraps, args);
}

// Operands first; what is known is not entered.
Interval KernelIntervals::of(const Expr* root) {
  std::vector<const Expr*> stack{root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    const size_t size = stack.size();
    if (!known_.contains(e)) {
      for (const Expr* a : e->args)
        if (!known_.contains(a)) stack.push_back(a);
      if (stack.size() > size) continue;
      known_.emplace(e, compute(*e));
    }
    stack.pop_back();
  }
  return known_.at(root);
}

}  // namespace mlc::ir
