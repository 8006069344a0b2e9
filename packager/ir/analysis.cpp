// Questions about expressions that need no new ones.
#include <algorithm>
#include <bit>
#include <cctype>

#include "packager/ir/evaluate.h"
#include "packager/ir/impl.h"
#include "packager/ir/node_map.h"
#include "packager/ir/typical.h"

namespace mlc::ir {

Interval interval_of(const Expr* e) { return node(e)->interval; }
int64_t divisor_of(const Expr* e) { return node(e)->divisor; }
bool is_extent(const Expr* e) { return node(e)->extent; }

namespace {

template <class T>
int by_value(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Numbers in names by their value: "s9" before "s10".
int by_name(const std::string& a, const std::string& b) {
  const auto digits = [](const std::string& s, size_t at) {
    const size_t from = at;
    while (at < s.size() && std::isdigit(static_cast<unsigned char>(s[at]))) ++at;
    return at - from;
  };
  const size_t at = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  if (const size_t x = digits(a, at), y = digits(b, at); x > 0 && y > 0 && x != y) return by_value(x, y);
  return a.compare(b);
}

int by_fold(const Fold& a, const Fold& b) {
  if (const int c = by_value(a.combiner->join, b.combiner->join)) return c;
  if (const int c = by_name(a.combiner->name, b.combiner->name)) return c;
  if (const int c = by_value(a.dims.size(), b.dims.size())) return c;
  for (size_t k = 0; k < a.dims.size(); ++k)
    if (const int c = by_value(a.dims[k]->id, b.dims[k]->id)) return c;
  return by_value(a.where != nullptr, b.where != nullptr);
}

// All but operands, conditions of folds, and arrays. What moves with an inner loop stands behind what moves with outer ones, so that
// the sum of the latter is worked out outside.
int by_node(const Node& a, const Node& b) {
  if (const int c = by_value(a.latest, b.latest)) return c;
  if (const int c = by_value(a.op, b.op)) return c;
  if (const int c = by_value(a.type.dtype, b.type.dtype)) return c;
  if (const int c = by_value(a.type.lanes, b.type.lanes)) return c;
  if (const int c = by_value(a.access, b.access)) return c;
  if (const int c = by_value(a.i, b.i)) return c;
  if (const int c = by_value(std::bit_cast<uint64_t>(a.f), std::bit_cast<uint64_t>(b.f))) return c;
  if (a.sym && a.sym != b.sym) return by_name(a.sym->name, b.sym->name);
  if (a.fold && a.fold != b.fold)
    if (const int c = by_fold(*a.fold, *b.fold)) return c;
  return by_value(a.args.size(), b.args.size());
}

}  // namespace

int compare(const Expr* a, const Expr* b) {
  while (a != b) {
    if (const int c = by_node(*node(a), *node(b))) return c;
    const Expr *x = nullptr, *y = nullptr;  // the first operands in which they differ
    if (a->fold && a->fold->where != b->fold->where) x = a->fold->where, y = b->fold->where;
    for (size_t k = 0; !x && k < a->args.size(); ++k)
      if (a->args[k] != b->args[k]) x = a->args[k], y = b->args[k];
    // Alike but for the array, which comes last as blocks of a network are alike but for their arrays; or for a combiner of the same name.
    if (!x) return a->array != b->array ? by_value(a->array, b->array) : by_value(a->id, b->id);
    a = x, b = y;
  }
  return 0;
}

bool may_fail(const Expr* e) {
  const bool divides = e->op == Op::FloorDiv || e->op == Op::FloorMod || e->op == Op::TruncDiv || e->op == Op::TruncMod;
  return is_float(e->type.dtype) || (divides && interval_of(e->args[1]).lo <= 0);
}

bool always_has_value(const Expr* root) {
  bool sure = true;
  walk(root, [&](const Expr* e) { sure = sure && !may_fail(e); });
  return sure;
}

namespace {

void walk_from(const Expr* root, bool extents, const std::function<void(const Expr*)>& visit) {
  NodeSet seen;
  std::vector<std::pair<const Expr*, bool>> stack{{root, false}};
  while (!stack.empty()) {
    auto [e, entered] = stack.back();
    if (entered) {
      stack.pop_back();
      visit(e);
      continue;
    }
    if ((!extents && node(e)->extent) || !seen.insert(e, {})) {
      stack.pop_back();
      continue;
    }
    stack.back().second = true;
    if (e->op == Op::Fold && e->fold->where) stack.push_back({e->fold->where, false});
    for (size_t i = e->args.size(); i-- > 0;) stack.push_back({e->args[i], false});
  }
}

}  // namespace

void walk(const Expr* e, const std::function<void(const Expr*)>& visit) { walk_from(e, true, visit); }
void walk_past_extents(const Expr* e, const std::function<void(const Expr*)>& visit) { walk_from(e, false, visit); }

bool depends_on(const Expr* root, const Expr* leaf) {
  const bool in_extents = is_extent(leaf);
  NodeSet seen;
  std::vector<const Expr*> stack{root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (e == leaf) return true;
    if ((!in_extents && is_extent(e)) || !seen.insert(e, {})) continue;
    stack.insert(stack.end(), e->args.begin(), e->args.end());
    if (e->op == Op::Fold && e->fold->where) stack.push_back(e->fold->where);
  }
  return false;
}

std::optional<Linear> linear_in(Context& ctx, const Expr* e, std::span<const Expr* const> leaves) {
  Context::Impl& impl = ctx.impl();
  if (e->type != Type{DType::I64, 1}) return std::nullopt;
  const Poly p = impl.poly_of(e);
  Poly rest = constant_poly(p.c);
  std::vector<Poly> coefficients(leaves.size());
  for (const Term& t : p.terms) {
    size_t which = leaves.size();
    Monomial others;
    for (const Expr* f : t.factors) {
      auto it = std::find(leaves.begin(), leaves.end(), f);
      if (it == leaves.end()) {
        others.push_back(f);
        continue;
      }
      if (which != leaves.size()) return std::nullopt;
      which = static_cast<size_t>(it - leaves.begin());
    }
    for (const Expr* f : others)
      if (!f->args.empty() || f->op == Op::Fold)
        for (const Expr* l : leaves)
          if (depends_on(f, l)) return std::nullopt;
    Poly& into = which == leaves.size() ? rest : coefficients[which];
    auto sum = poly_add(into, others.empty() ? constant_poly(t.k) : Poly{{{others, t.k}}, 0});
    if (!sum) return std::nullopt;
    into = std::move(*sum);
  }
  Linear out;
  for (Poly& c : coefficients) out.coefficients.push_back(impl.from_poly(std::move(c)));
  out.rest = impl.from_poly(std::move(rest));
  return out;
}

namespace {

// i64 with overflow and division by zero as no value.
std::optional<Scalar> checked_binary(Op op, DType t, Scalar a, Scalar b) {
  if (t != DType::I64) return apply_binary(op, t, a, b);
  int64_t r;
  switch (op) {
    case Op::Add: return __builtin_add_overflow(a.i, b.i, &r) ? std::nullopt : std::optional(Scalar{r, 0});
    case Op::Sub: return __builtin_sub_overflow(a.i, b.i, &r) ? std::nullopt : std::optional(Scalar{r, 0});
    case Op::Mul: return __builtin_mul_overflow(a.i, b.i, &r) ? std::nullopt : std::optional(Scalar{r, 0});
    case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod:
      if (b.i == 0 || (a.i == INT64_MIN && b.i == -1)) return std::nullopt;
      break;
    default: break;
  }
  return apply_binary(op, t, a, b);
}

}  // namespace

ExtentEvaluator::ExtentEvaluator(const Expr* root) {
  std::unordered_map<const Expr*, uint32_t> places;
  walk(root, [&](const Expr* e) {
    Step step{e, {}};
    for (size_t k = 0; k < std::min(e->args.size(), std::size(step.args)); ++k) step.args[k] = places.at(e->args[k]);
    places.emplace(e, static_cast<uint32_t>(steps_.size()));
    steps_.push_back(step);
  });
  values_.resize(steps_.size());
}

std::optional<Scalar> ExtentEvaluator::value_of_step(const Step& step, const SymValues& value_of, bool larger_arms) const {
  const Expr* e = step.expr;
  const auto arg = [&](size_t i) -> const std::optional<Scalar>& { return values_[step.args[i]]; };
  switch (e->op) {
    case Op::Const: return Scalar{e->i, e->f};
    case Op::Sym:
      if (const auto x = value_of(e->sym)) return Scalar{*x, 0};
      return std::nullopt;
    case Op::Select:
      if (larger_arms && e->type.dtype == DType::I64 && arg(1) && arg(2)) return arg(1)->i < arg(2)->i ? arg(2) : arg(1);
      return arg(0) ? arg(arg(0)->i ? 1 : 2) : std::nullopt;
    case Op::And: case Op::Or:
      if (!arg(0)) return std::nullopt;
      return (arg(0)->i != 0) == (e->op == Op::Or) ? arg(0) : arg(1);
    case Op::Fma: {
      if (!arg(0) || !arg(1) || !arg(2)) return std::nullopt;
      const auto product = checked_binary(Op::Mul, e->type.dtype, *arg(0), *arg(1));
      return product ? checked_binary(Op::Add, e->type.dtype, *product, *arg(2)) : std::nullopt;
    }
    case Op::Load: case Op::Fold: case Op::Field: case Op::Dim: case Op::Var: return std::nullopt;
    default: break;
  }
  if (e->type.lanes != 1 || !arg(0)) return std::nullopt;
  if (e->args.size() == 2 && arg(1)) return checked_binary(e->op, e->args[0]->type.dtype, *arg(0), *arg(1));
  if (e->args.size() != 1) return std::nullopt;
  const Scalar v = apply_unary(e->op, e->args[0]->type.dtype, e->type.dtype, *arg(0));
  return e->op == Op::Neg && e->type.dtype == DType::I64 && v.i == INT64_MIN ? std::nullopt : std::optional(v);
}

std::optional<int64_t> ExtentEvaluator::operator()(const SymValues& value_of, bool larger_arms) {
  for (size_t k = 0; k < steps_.size(); ++k) values_[k] = value_of_step(steps_[k], value_of, larger_arms);
  const std::optional<Scalar>& result = values_.back();
  return result ? std::optional(result->i) : std::nullopt;
}

std::optional<int64_t> evaluate_extent(const Expr* root, const SymValues& value_of) { return ExtentEvaluator(root)(value_of); }

namespace {
int64_t near(const Sym* s, int64_t guess) {
  const int64_t unit = std::max<int64_t>(s->multiple, 1), n = std::clamp<int64_t>(guess, s->lo, std::max(s->lo, s->hi));
  return std::clamp(std::max(n / unit, int64_t{1}) * unit, std::min(s->lo, s->hi), std::max(s->lo, s->hi));
}
}  // namespace

int64_t typical(const Sym* sym, Guess guess) { return near(sym, static_cast<int64_t>(guess)); }

std::optional<int64_t> typical(const Expr* root, Guess guess) {
  ExtentEvaluator evaluate(root);
  const auto with = [&](int64_t n, bool larger_arms) {
    return evaluate([n](const Sym* s) -> std::optional<int64_t> { return near(s, n); }, larger_arms);
  };
  const auto first = static_cast<int64_t>(guess);
  for (const int64_t n : {first, first * 64, first * 64 * 64})
    if (const auto v = with(n, false); v && *v > 0) return v;
  const auto most = root->type.dtype == DType::I64 ? with(first, true) : std::nullopt;
  return most && *most > 0 ? most : with(first, false);
}

double estimate(const Expr* extent) {
  return static_cast<double>(std::max<int64_t>(typical(extent).value_or(static_cast<int64_t>(Guess::Any)), 1));
}

}  // namespace mlc::ir
