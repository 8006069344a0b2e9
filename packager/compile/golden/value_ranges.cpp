#include "packager/compile/golden/value_ranges.h"

#include <algorithm>
#include <cmath>

namespace mlc::compile {
namespace {

using ir::Expr;
using ir::Op;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kMaxDepth = 200;      // of an expression that is followed backwards
constexpr int kMaxVisits = 10'000;  // for one demand: what is shared is followed from each of its users
constexpr Range kTruth = {0, 1};

// Products of ends, of which 0 * inf is 0.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

// Of ends of which infinite ones may have met their opposite.
Range ends(double lo, double hi) { return {std::isnan(lo) ? -kInf : lo, std::isnan(hi) ? kInf : hi}; }
Range sum(Range a, Range b) { return ends(a.lo + b.lo, a.hi + b.hi); }
Range negated(Range a) { return {-a.hi, -a.lo}; }
Range product(Range a, Range b) {
  const double corners[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}
// By a divisor that is not 0.
Range quotient(Range a, Range b) {
  if (b.lo <= 0 && b.hi >= 0) return {};
  const auto over = [](double x, double y) { return std::isinf(x) && std::isinf(y) ? 0 : x / y; };
  const double corners[] = {over(a.lo, b.lo), over(a.lo, b.hi), over(a.hi, b.lo), over(a.hi, b.hi)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}
template <class F>
Range mapped(Range a, F f) {
  return {f(a.lo), f(a.hi)};
}
Range floored(Range a) { return mapped(a, [](double v) { return std::floor(v); }); }
Range truncated(Range a) { return mapped(a, [](double v) { return std::trunc(v); }); }

Range remainder(Range a, Range b) {
  if (!(b.lo > 0)) return {};
  if (a.lo >= 0 && a.hi < b.lo) return a;
  return {0, b.hi - 1};
}

bool is_point(Range r) { return r.lo == r.hi; }

std::optional<bool> decided(Op op, Range a, Range b) {
  if (op == Op::Lt) return a.hi < b.lo ? std::optional(true) : a.lo >= b.hi ? std::optional(false) : std::nullopt;
  if (op == Op::Le) return a.hi <= b.lo ? std::optional(true) : a.lo > b.hi ? std::optional(false) : std::nullopt;
  const bool differ = a.hi < b.lo || b.hi < a.lo, same = is_point(a) && a == b;
  if (!differ && !same) return std::nullopt;
  return (op == Op::Eq) == same;
}

Range of_binary(Op op, bool is_integer, Range a, Range b) {
  switch (op) {
    case Op::Add: return sum(a, b);
    case Op::Sub: return sum(a, negated(b));
    case Op::Mul: return product(a, b);
    case Op::Div: return quotient(a, b);
    case Op::FloorDiv: return floored(quotient(a, b));
    case Op::TruncDiv: return is_integer ? truncated(quotient(a, b)) : Range{};
    case Op::FloorMod: return is_integer ? remainder(a, b) : Range{};
    case Op::TruncMod: return is_integer && a.lo >= 0 ? remainder(a, b) : Range{};
    case Op::Min: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Op::Max: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: {
      const auto answer = decided(op, a, b);
      return answer ? Range{*answer ? 1.0 : 0.0, *answer ? 1.0 : 0.0} : kTruth;
    }
    case Op::And: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Op::Or: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    default: return {};
  }
}

Range of_unary(Op op, DType to, Range a) {
  switch (op) {
    case Op::Neg: return negated(a);
    case Op::Abs: return a.lo >= 0 ? a : a.hi <= 0 ? negated(a) : Range{0, std::max(-a.lo, a.hi)};
    case Op::Not: return {1 - a.hi, 1 - a.lo};
    case Op::Floor: return floored(a);
    case Op::Ceil: return mapped(a, [](double v) { return std::ceil(v); });
    case Op::Trunc: return truncated(a);
    case Op::Rint: return mapped(a, [](double v) { return std::nearbyint(v); });
    case Op::Sqrt: return a.lo >= 0 ? mapped(a, [](double v) { return std::sqrt(v); }) : Range{0, kInf};
    case Op::Exp: return {0, kInf};
    case Op::Sin: case Op::Cos: case Op::Tanh: case Op::Erf: return {-1, 1};
    case Op::IsNan: case Op::IsInf: return kTruth;
    case Op::Cast: case Op::SatCast:
      if (to == DType::Bool) return a.lo > 0 || a.hi < 0 ? Range{1, 1} : is_point(a) ? Range{0, 0} : kTruth;
      return is_float(to) ? a : truncated(a).within(range_of_type(to));
    default: return {};
  }
}

}  // namespace

Range range_of_type(DType dtype) {
  const ir::Interval v = ir::interval_of_type(dtype);
  return v == ir::Interval{} ? Range{} : Range{static_cast<double>(v.lo), static_cast<double>(v.hi)};
}

Range range_of_join(ir::Join join, Range body, double points) {
  switch (join) {
    case ir::Join::Sum: return {std::min(0.0, times(body.lo, points)), std::max(0.0, times(body.hi, points))};
    case ir::Join::Min: case ir::Join::Max: case ir::Join::Last: case ir::Join::Custom: return body;
    case ir::Join::Any: case ir::Join::All: return kTruth;
    case ir::Join::Prod: return {};
  }
  return {};
}

const ValueRange* Ranges::known(const Expr* e) const {
  const auto& of = ir::is_extent(e) ? outside_.extents : known_;
  const auto found = of.find(e);
  return found == of.end() ? nullptr : &found->second;
}

// Operands first; what is known is not entered.
ValueRange Ranges::of(const Expr* root) {
  std::vector<std::pair<const Expr*, bool>> stack{{root, false}};
  while (!stack.empty()) {
    const auto [e, entered] = stack.back();
    if (entered || known(e)) {
      stack.pop_back();
      if (!known(e)) (ir::is_extent(e) ? outside_.extents : known_).emplace(e, compute(e));
      continue;
    }
    stack.back().second = true;
    for (const Expr* a : e->args) stack.push_back({a, false});
  }
  return at(root);
}

ValueRange Ranges::compute(const Expr* e) {
  switch (e->op) {
    case Op::Const: {
      const double v = is_float(e->type.dtype) ? e->f : static_cast<double>(e->i);
      return {std::isnan(v) ? Range{} : Range{v, v}, false};
    }
    case Op::Sym: return outside_.of_sym(e->sym);
    case Op::Dim: return {{0, std::max(0.0, of(e->dim->extent).range.hi - 1)}, false};
    case Op::Var: return {{}, true};
    case Op::Load: return outside_.of_place(outside_.place(e));
    case Op::Select: return select(e);
    default: break;
  }
  ValueRange out;
  for (const Expr* a : e->args) out.is_free = out.is_free || at(a).is_free;
  const auto range = [&](size_t k) { return at(e->args[k]).range; };
  if (e->op == Op::Fold) out.range = fold(e, range(0));
  else if (e->op == Op::Field) out.range = static_cast<size_t>(e->i) < e->args[0]->args.size() ? of(e->args[0]->args[static_cast<size_t>(e->i)]).range : Range{};
  else if (e->op == Op::Fma) out.range = sum(product(range(0), range(1)), range(2));
  else if (e->args.size() == 1) out.range = of_unary(e->op, e->type.dtype, range(0));
  else if (e->args.size() == 2) out.range = of_binary(e->op, !is_float(e->type.dtype), range(0), range(1));
  return out;
}

Range Ranges::fold(const Expr* e, Range body) {
  double points = 1;
  for (const ir::Dim* dim : e->fold->dims) points = times(points, std::max(0.0, of(dim->extent).range.hi));
  return range_of_join(e->fold->combiner->join, body, points);
}

// An index that counts from the end if it is negative is `select(x < 0, x + n, x)`: each arm sees half of x.
ValueRange Ranges::select(const Expr* e) {
  const ValueRange condition = at(e->args[0]);
  ValueRange yes = at(e->args[1]), no = at(e->args[2]);
  if (is_point(condition.range)) return condition.range.lo != 0 ? yes : no;
  const Expr* c = e->args[0];
  if (c->op == Op::Lt && c->args[1]->is_const() && !is_float(c->args[1]->type.dtype)) {
    const double limit = static_cast<double>(c->args[1]->i);
    const Range x = at(c->args[0]).range;
    if (e->args[2] == c->args[0]) no.range = no.range.within({limit, kInf});
    if (e->args[1]->op == Op::Add)
      for (const size_t k : {0, 1})
        if (e->args[1]->args[k] == c->args[0]) yes.range = sum(x.within({-kInf, limit - 1}), at(e->args[1]->args[1 - k]).range);
  }
  return {yes.range.joined(no.range), condition.is_free || yes.is_free || no.is_free};
}

bool Ranges::demand(const Expr* e, Range wanted, Demands& demands, bool is_summed, int depth) {
  const ValueRange now = of(e);
  if (wanted.contains(now.range)) return true;
  if (wanted.is_empty() || now.range.within(wanted).is_empty()) return false;
  if (!now.is_free) return false;
  if (depth == 0) visits_ = 0;
  if (depth > kMaxDepth || ++visits_ > kMaxVisits) return true;
  const auto same = [&](const Expr* a) { return demand(a, wanted, demands, is_summed, depth + 1); };
  switch (e->op) {
    case Op::Load: {
      InputBounds& bounds = demands[outside_.place(e)];
      bounds.range = bounds.range.within(wanted);
      bounds.is_summed = bounds.is_summed || is_summed;
      return !bounds.range.is_empty();
    }
    case Op::Add: return demand_sum(e->args[0], e->args[1], wanted, demands, is_summed, depth);
    case Op::Sub: return demand_difference(e->args[0], e->args[1], wanted, demands, is_summed, depth);
    case Op::Mul: return demand_product(e->args[0], e->args[1], wanted, demands, is_summed, depth);
    case Op::Neg: return demand(e->args[0], negated(wanted), demands, is_summed, depth + 1);
    case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: return same(e->args[0]);
    case Op::Cast: case Op::SatCast: return e->type.dtype == DType::Bool || same(e->args[0]);
    case Op::Div: case Op::FloorDiv: case Op::TruncDiv: {
      const Range by = of(e->args[1]).range;
      if (!is_point(by) || !(by.lo > 0)) return true;
      return demand(e->args[0], {times(wanted.lo, by.lo), times(wanted.hi, by.lo) + (e->op == Op::Div ? 0 : by.lo - 1)}, demands, is_summed, depth + 1);
    }
    case Op::FloorMod: case Op::TruncMod: return same(e->args[0]);
    case Op::Min: case Op::Max: return demand_bound(e, wanted, demands, is_summed, depth);
    case Op::Select: return demand_select(e, wanted, demands, is_summed, depth);
    case Op::Fold: return demand_fold(e, wanted, demands, is_summed, depth);
    default: return true;
  }
}

bool Ranges::demand_sum(const Expr* a, const Expr* b, Range wanted, Demands& demands, bool is_summed, int depth) {
  const ValueRange left = of(a), right = of(b);
  if (left.is_free && right.is_free && !left.range.is_bounded() && !right.range.is_bounded()) {
    // Half of what there is for each.
    const Range half = {std::ceil(wanted.lo / 2), std::floor(wanted.hi / 2)};
    return demand(a, half, demands, is_summed, depth + 1) && demand(b, half, demands, is_summed, depth + 1);
  }
  const bool first = left.is_free && (!right.is_free || right.range.is_bounded());
  const Range other = first ? right.range : left.range;
  return demand(first ? a : b, ends(wanted.lo - other.lo, wanted.hi - other.hi), demands, is_summed, depth + 1);
}

bool Ranges::demand_difference(const Expr* a, const Expr* b, Range wanted, Demands& demands, bool is_summed, int depth) {
  const ValueRange left = of(a), right = of(b);
  if (left.is_free && (!right.is_free || right.range.is_bounded()))
    return demand(a, ends(wanted.lo + right.range.hi, wanted.hi + right.range.lo), demands, is_summed, depth + 1);
  if (!left.is_free || left.range.is_bounded())
    return demand(b, ends(left.range.hi - wanted.hi, left.range.lo - wanted.lo), demands, is_summed, depth + 1);
  return true;
}

bool Ranges::demand_product(const Expr* a, const Expr* b, Range wanted, Demands& demands, bool is_summed, int depth) {
  for (const auto& [one, other] : {std::pair{a, b}, {b, a}}) {
    const Range by = of(other).range;
    if (!of(one).is_free || !(by.lo >= 0) || !(by.hi > 0) || by.hi == kInf) continue;
    if (is_point(by)) return demand(one, {std::ceil(wanted.lo / by.lo), std::floor(wanted.hi / by.lo)}, demands, is_summed, depth + 1);
    if (wanted.lo <= 0 && wanted.hi >= 0) return demand(one, {std::ceil(wanted.lo / by.hi), std::floor(wanted.hi / by.hi)}, demands, is_summed, depth + 1);
  }
  return true;
}

// min(a, b) and max(a, b): the operand that is given already settles one end.
bool Ranges::demand_bound(const Expr* e, Range wanted, Demands& demands, bool is_summed, int depth) {
  for (const size_t k : {0, 1}) {
    Range left = wanted;
    const Range other = of(e->args[1 - k]).range;
    if (e->op == Op::Min && other.hi <= wanted.hi) left.hi = kInf;
    if (e->op == Op::Max && other.lo >= wanted.lo) left.lo = -kInf;
    if (of(e->args[k]).is_free && !demand(e->args[k], left, demands, is_summed, depth + 1)) return false;
  }
  return true;
}

// Both arms if they can agree, else the second: indices that need not count from the end.
bool Ranges::demand_select(const Expr* e, Range wanted, Demands& demands, bool is_summed, int depth) {
  const Range condition = of(e->args[0]).range;
  if (is_point(condition)) return demand(e->args[condition.lo != 0 ? 1 : 2], wanted, demands, is_summed, depth + 1);
  bool any = false;
  for (const size_t arm : {2, 1}) {
    Demands tried = demands;
    if (!demand(e->args[arm], wanted, tried, is_summed, depth + 1)) continue;
    demands = std::move(tried);
    any = true;
  }
  return any;
}

bool Ranges::demand_fold(const Expr* e, Range wanted, Demands& demands, bool is_summed, int depth) {
  if (e->args.size() != 1) return true;
  switch (e->fold->combiner->join) {
    case ir::Join::Min: case ir::Join::Max: case ir::Join::Last: return demand(e->args[0], wanted, demands, is_summed, depth + 1);
    case ir::Join::Sum: {
      double points = 1;
      for (const ir::Dim* dim : e->fold->dims) points = times(points, std::max(0.0, of(dim->extent).range.hi));
      if (!(points > 0)) return true;
      return demand(e->args[0], {wanted.lo / points, wanted.hi / points}, demands, /*is_summed=*/true, depth + 1);
    }
    default: return true;
  }
}

}  // namespace mlc::compile
