#include "targets/spirv/ranges.h"

#include <algorithm>

#include "packager/ir/numeric.h"

namespace mlc::targets::spirv {

using ir::Expr;
using ir::Interval;
using ir::Op;

namespace {

using Wide = __int128;

constexpr Interval kAll{};

// Of all values between the least and the greatest of these; what leaves int64 wraps, so nothing is known of it.
Interval around(std::initializer_list<Wide> corners) {
  const Wide lo = std::min(corners), hi = std::max(corners);
  if (lo < INT64_MIN || hi > INT64_MAX) return kAll;
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

Wide floor_of(Wide a, Wide b) { return a / b - (a % b < 0); }  // b > 0

Interval of_type(DType t) {
  if (t == DType::Bool) return {0, 1};
  if (!is_int(t) || t == DType::U64) return kAll;
  return {ir::lowest_int(t), ir::highest_int(t)};
}

bool within(Interval inner, Interval outer) { return inner.lo >= outer.lo && inner.hi <= outer.hi; }

Interval binary(Op op, Interval a, Interval b) {
  const Wide al = a.lo, ah = a.hi, bl = b.lo, bh = b.hi;
  switch (op) {
    case Op::Add: return around({al + bl, ah + bh});
    case Op::Sub: return around({al - bh, ah - bl});
    case Op::Mul: return around({al * bl, al * bh, ah * bl, ah * bh});
    case Op::Min: return around({std::min(al, bl), std::min(ah, bh)});
    case Op::Max: return around({std::max(al, bl), std::max(ah, bh)});
    case Op::FloorDiv:
      if (bl <= 0) return kAll;
      return around({floor_of(al, bl), floor_of(al, bh), floor_of(ah, bl), floor_of(ah, bh)});
    case Op::TruncDiv:
      if (bl <= 0) return kAll;
      return around({al / bl, al / bh, ah / bl, ah / bh});
    case Op::FloorMod: return bl <= 0 ? kAll : around({0, bh - 1});
    case Op::TruncMod: return bl <= 0 ? kAll : around({al < 0 ? 1 - bh : 0, ah > 0 ? bh - 1 : 0});
    case Op::BitAnd: return al >= 0 && bl >= 0 ? around({0, std::min(ah, bh)}) : kAll;
    default: return kAll;
  }
}

}  // namespace

Interval Ranges::compute(const Expr* e) const {
  const DType t = e->type.dtype;
  const auto arg = [&](size_t k) { return known_.at(e->args[k]); };
  Interval r = kAll;
  switch (e->op) {
    case Op::Const: return is_float(t) ? kAll : Interval{e->i, e->i};
    case Op::Sym: return {e->sym->lo, e->sym->hi};
    case Op::Var: {
      const auto known = vars_.find(e->i);
      return known == vars_.end() ? of_type(t) : known->second;
    }
    case Op::Splat: case Op::Extract: r = arg(0); break;
    case Op::Ramp: {
      const Wide last = Wide{e->i} * (e->type.lanes - 1);
      r = around({arg(0).lo + std::min<Wide>(last, 0), arg(0).hi + std::max<Wide>(last, 0)});
      break;
    }
    case Op::Cast:
      if (is_int(e->args[0]->type.dtype) || e->args[0]->type.dtype == DType::Bool) r = arg(0);
      break;
    case Op::Select: r = {std::min(arg(1).lo, arg(2).lo), std::max(arg(1).hi, arg(2).hi)}; break;
    case Op::Neg: r = around({-Wide{arg(0).lo}, -Wide{arg(0).hi}}); break;
    case Op::Add: case Op::Sub: case Op::Mul: case Op::Min: case Op::Max: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod:
    case Op::BitAnd:
      if (is_int(t)) r = binary(e->op, arg(0), arg(1));
      break;
    default: break;
  }
  // What leaves its type wraps.
  return within(r, of_type(t)) ? r : of_type(t);
}

Interval Ranges::of(const Expr* root) {
  if (const auto known = known_.find(root); known != known_.end()) return known->second;
  ir::walk(root, [&](const Expr* e) {
    if (!known_.contains(e)) known_.emplace(e, compute(e));
  });
  return known_.at(root);
}

bool Ranges::fits(const Expr* e) { return e->type.dtype == DType::I64 && within(of(e), {INT32_MIN, INT32_MAX}); }

}  // namespace mlc::targets::spirv
