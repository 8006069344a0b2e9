#include "targets/gpu/ranges.h"

#include <algorithm>
#include <unordered_set>

#include "packager/ir/numeric.h"

namespace mlc::targets::gpu {

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
    case Op::Sym: {
      const auto known = syms_.find(e->sym);
      return known == syms_.end() ? Interval{e->sym->lo, e->sym->hi} : known->second;
    }
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

namespace {

constexpr int64_t kMostLanes = int64_t{1} << 31;  // of all blocks of a launch: their numbers fit in 32 bits
constexpr size_t kMostNarrow = 64;                // scalars that an entry can say it of

// A symbol, or the larger one of it and a number: of others, a part may be anything.
void add_symbol(const Expr* e, std::unordered_set<const ir::Sym*>& out) {
  if (e->op == Op::Max) e = e->args[0]->is_const() ? e->args[1] : e->args[1]->is_const() ? e->args[0] : e;
  if (e->op == Op::Sym) out.insert(e->sym);
}

void add_divisors(const Expr* e, std::unordered_set<const ir::Sym*>& out) {
  if (e)
    ir::walk(e, [&](const Expr* x) {
      if ((x->op == Op::FloorDiv || x->op == Op::FloorMod) && x->type.dtype == DType::I64) add_symbol(x->args[1], out);
    });
}

void add_bounds(const std::vector<loop::StmtPtr>& block, std::unordered_set<const ir::Sym*>& out) {
  for (const loop::StmtPtr& s : block) {
    if (s->kind == loop::StmtKind::For) add_symbol(s->end, out);
    for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) add_divisors(e, out);
    for (const Expr* e : s->index) add_divisors(e, out);
    add_bounds(s->body, out);
    add_bounds(s->orelse, out);
  }
}

}  // namespace

Demands demands_of(const loop::Kernel& kernel) {
  Demands d;
  std::unordered_set<const ir::Sym*> bounds;
  add_bounds(kernel.body, bounds);
  for (size_t k = 0; k < std::min(kMostNarrow, kernel.scalars.size()); ++k) {
    const ir::Sym* s = kernel.scalars[k];
    if (bounds.contains(s) && !within({s->lo, s->hi}, {INT32_MIN, INT32_MAX})) d.narrow |= uint64_t{1} << k;
  }
  Ranges ranges;
  const int64_t most = kernel.lanes ? kMostLanes / kernel.lanes : 0;
  d.has_few_lanes = kernel.tiles && !kernel.tiles->is_const() && ranges.of(kernel.tiles).hi > most;
  return d;
}

Ranges ranges_under(const loop::Kernel& kernel, const Demands& demands) {
  Ranges ranges;
  for (size_t k = 0; k < std::min(kMostNarrow, kernel.scalars.size()); ++k) {
    const ir::Sym* s = kernel.scalars[k];
    if (demands.narrow >> k & 1) ranges.assume(s, {std::max<int64_t>(s->lo, INT32_MIN), std::min<int64_t>(s->hi, INT32_MAX)});
  }
  const int64_t tiles = kernel.tiles ? ranges.of(kernel.tiles).hi : INT64_MAX;
  const int64_t most = demands.has_few_lanes ? kMostLanes / kernel.lanes : int64_t{1} << 32;
  ranges.bind(kernel.tile_begin, {0, std::clamp<int64_t>(tiles, 1, most) - 1});
  return ranges;
}

}  // namespace mlc::targets::gpu
