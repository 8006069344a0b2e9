// The normal form of i64 arithmetic.
//
// Sums and products are polynomials over atoms (poly.h) and are written back as one chain: positive terms, negative
// terms, the constant. A quotient and a remainder of the same division (division.cpp) meet again in a sum.
#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/ir/impl.h"
#include "packager/ir/numeric.h"

namespace mlc::ir {
namespace {

bool is_arithmetic(const Expr* e) {
  return is_index(e) && (e->op == Op::Add || e->op == Op::Sub || e->op == Op::Mul || e->op == Op::Neg);
}

}  // namespace

const Poly& Context::Impl::poly_of(const Expr* root) {
  std::vector<const Expr*> stack{root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    if (node(e)->poly) {
      stack.pop_back();
      continue;
    }
    std::optional<Poly> p;
    if (e->op == Op::Const) {
      p = constant_poly(e->i);
    } else if (is_arithmetic(e)) {
      size_t before = stack.size();
      for (const Expr* a : e->args)
        if (!node(a)->poly) stack.push_back(a);
      if (stack.size() != before) continue;
      const Poly& a = *node(e->args[0])->poly;
      if (e->op == Op::Neg) p = scaled(a, -1);
      else if (e->op == Op::Mul) p = poly_mul(a, *node(e->args[1])->poly);
      else p = poly_add(a, *node(e->args[1])->poly, e->op == Op::Sub ? -1 : 1);
    }
    polys.push_back(p ? std::move(*p) : atom_poly(e));
    node(e)->poly = &polys.back();
    stack.pop_back();
  }
  return *node(root)->poly;
}

const Expr* Context::Impl::monomial(const Monomial& m) {
  const Expr* e = m[0];
  for (size_t i = 1; i < m.size(); ++i) e = make_binary(Op::Mul, e->type, e, m[i]);
  return e;
}

// Steps of broadcasts in a product (broadcast.h): step * step = step; the step of an extent that broadcasts to another
// decides that of the other; and an index along the extent itself needs none, as it is 0 where the extent is 1.
bool Context::Impl::drop_steps(Monomial& m) {
  const size_t before = m.size();
  for (size_t i = 0; i < m.size();) {
    const Expr* step = m[i];
    bool implied = step->op == Op::Select && is_broadcast_step(step);
    if (implied) {
      const std::vector<const Expr*> terms = broadcast_terms(ctx, step->args[0]->args[0]);
      auto implies = [&](size_t j) {
        const Expr* other = m[j];
        if (j == i) return false;
        if (other == step) return true;
        if (other->op == Op::Dim) return broadcast_step(ctx, other->dim->extent) == step;
        return other->op == Op::Select && terms.size() > 1 &&
               std::any_of(terms.begin(), terms.end(), [&](const Expr* t) { return broadcast_step(ctx, t) == other; });
      };
      size_t j = 0;
      while (j < m.size() && !implies(j)) ++j;
      implied = j < m.size();
    }
    if (implied) m.erase(m.begin() + static_cast<ptrdiff_t>(i));
    else ++i;
  }
  return m.size() != before;
}

// Joins c*(x // c) + x % c to x, drops superfluous steps, and writes exact quotients (x // c with x a multiple of c) in lowest terms.
void Context::Impl::normalise(Poly& p) {
  for (size_t rounds = 0; rounds < kMaxTerms; ++rounds) {
    bool changed = false;
    for (size_t i = 0; i < p.terms.size() && !changed; ++i) {
      const Monomial m = p.terms[i].factors;  // p changes below
      int64_t k = p.terms[i].k;
      const bool steps = m.size() > 1 && std::any_of(m.begin(), m.end(), [](const Expr* e) { return e->op == Op::Select; });
      if (Monomial fewer = steps ? m : Monomial{}; steps && drop_steps(fewer)) {
        auto without = poly_add(p, Poly{{{m, k}}, 0}, -1);
        auto sum = without ? poly_add(*without, Poly{{{fewer, 1}}, 0}, k) : std::nullopt;
        if (!sum) continue;
        p = std::move(*sum);
        changed = true;
      }
      for (size_t f = 0; f < m.size() && !changed; ++f) {
        const Expr* a = m[f];
        if (a->op != Op::FloorMod && a->op != Op::FloorDiv) continue;
        Poly rest{{}, 1};
        Monomial others = m;
        others.erase(others.begin() + static_cast<ptrdiff_t>(f));
        if (!others.empty()) rest = {{{others, 1}}, 0};
        if (a->op == Op::FloorDiv) {
          const Expr* c = a->args[1];
          if (!c->is_const() || c->i < 2 || node(a->args[0])->divisor % c->i != 0) continue;
          int64_t g = gcd(k, c->i);
          if (g == 1) continue;
          auto q = poly_mul(rest, poly_of(floor_divide(a->args[0], ctx.integer(c->i / g))));
          auto without = poly_add(p, Poly{{{m, k}}, 0}, -1);
          auto sum = q && without ? poly_add(*without, *q, k / g) : std::nullopt;
          if (!sum) continue;
          p = std::move(*sum);
          changed = true;
          continue;
        }
        if (p.terms.size() < 2) continue;
        // k*rest*(x % n) + k*rest*n*(x // n) = k*rest*x: worth it if there are fewer terms then.
        const Expr* q = floor_divide(a->args[0], a->args[1]);
        auto multiple = poly_mul(poly_of(q), poly_of(a->args[1]));
        auto whole = multiple ? poly_add(poly_of(a->args[0]), *multiple, -1) : std::nullopt;
        auto change = whole ? poly_mul(*whole, rest) : std::nullopt;
        auto without = poly_add(p, Poly{{{m, k}}, 0}, -1);
        auto sum = change && without ? poly_add(*without, *change, k) : std::nullopt;
        if (!sum || sum->terms.size() >= p.terms.size()) continue;
        p = std::move(*sum);
        changed = true;
      }
    }
    if (!changed) return;
  }
}

const Expr* Context::Impl::from_poly(Poly p) {
  normalise(p);
  const Expr* e = nullptr;
  Type type{DType::I64, 1};
  auto times = [&](const Term& t, int64_t k) {
    const Expr* m = monomial(t.factors);
    return k == 1 ? m : make_binary(Op::Mul, type, m, ctx.integer(k));
  };
  auto append = [&](Op op, const Expr* x) { e = make_binary(op, type, e, x); };
  for (const Term& t : p.terms) {
    if (t.k <= 0) continue;
    const Expr* x = times(t, t.k);
    if (e) append(Op::Add, x);
    else e = x;
  }
  bool constant_done = p.c == 0;
  if (!e && p.c > 0) {
    e = ctx.integer(p.c);
    constant_done = true;
  }
  for (const Term& t : p.terms) {
    if (t.k >= 0) continue;
    if (!e) e = times(t, t.k);
    else if (t.k == INT64_MIN) append(Op::Add, times(t, t.k));
    else append(Op::Sub, times(t, -t.k));
  }
  if (!e) return ctx.integer(p.c);
  if (!constant_done) {
    if (p.c > 0 || p.c == INT64_MIN) append(Op::Add, ctx.integer(p.c));
    else append(Op::Sub, ctx.integer(-p.c));
  }
  return e;
}

std::optional<Poly> Context::Impl::difference(const Expr* a, const Expr* b, int64_t plus) {
  auto d = poly_add(poly_of(a), poly_of(b), -1);
  return d ? poly_add(*d, constant_poly(plus)) : std::nullopt;
}

const Expr* Context::Impl::index_binary(Op op, const Expr* a, const Expr* b) {
  auto [it, fresh] = simplified.try_emplace(Key{op, a, b}, nullptr);
  if (!fresh && it->second) return it->second;
  Type i64{DType::I64, 1};
  const Expr* r = nullptr;
  bool constants = a->is_const() && b->is_const();
  switch (op) {
    case Op::Add: case Op::Sub: case Op::Mul: {
      const Poly &x = poly_of(a), &y = poly_of(b);
      auto p = op == Op::Mul ? poly_mul(x, y) : poly_add(x, y, op == Op::Sub ? -1 : 1);
      r = p ? from_poly(std::move(*p)) : make_binary(op, i64, a, b);  // an overflow stays visible
      break;
    }
    case Op::FloorDiv: r = floor_divide(a, b); break;
    case Op::FloorMod: r = floor_modulo(a, b); break;
    case Op::TruncDiv: case Op::TruncMod:
      if (constants && b->i != 0 && !(a->i == INT64_MIN && b->i == -1))
        r = ctx.integer(op == Op::TruncDiv ? a->i / b->i : a->i % b->i);
      else if (exact(a) && node(a)->interval.lo >= 0 && node(b)->interval.lo > 0)
        r = op == Op::TruncDiv ? floor_divide(a, b) : floor_modulo(a, b);
      else if (b->is_int(1)) r = op == Op::TruncDiv ? a : ctx.integer(0);
      // Above -b the quotient of a negative number is 0.
      else if (op == Op::TruncDiv && b->is_const() && b->i > 0 && exact(a) && node(a)->interval.lo > -b->i)
        r = floor_divide(ctx.max(a, ctx.integer(0)), b);
      break;
    case Op::Min: case Op::Max: r = min_max(op, a, b); break;
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: r = compare(op, a, b); break;
    default:
      if (constants) r = ctx.integer(apply_binary(op, DType::I64, {a->i, 0}, {b->i, 0}).i);
      else if (const Expr* plain = node(a)->extent && b->is_const() ? without_bits(op, a, b->i) : nullptr) r = plain;
      else if (op == Op::Pow && b->is_int(1)) r = a;
      else if (op == Op::Pow && b->is_int(0)) r = ctx.integer(1);
      else if ((op == Op::BitAnd || op == Op::BitOr) && a == b) r = a;
      break;
  }
  if (!r) r = make_binary(op, i64, a, b);
  if (!cut_short()) simplified[Key{op, a, b}] = r;
  return r;
}

// Shifts, masks and small powers of extents as the arithmetic that proofs and plans know; null for others.
const Expr* Context::Impl::without_bits(Op op, const Expr* a, int64_t b) {
  constexpr int64_t kLargestShift = 62, kLargestPower = 6;
  const auto power_of_two = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  switch (op) {
    case Op::Shl: return 0 <= b && b <= kLargestShift ? ctx.mul(a, ctx.integer(int64_t{1} << b)) : nullptr;
    case Op::Shr: return 0 <= b && b <= kLargestShift ? ctx.floordiv(a, ctx.integer(int64_t{1} << b)) : nullptr;
    case Op::BitAnd:
      if (b >= 0 && b < INT64_MAX && power_of_two(b + 1)) return ctx.floormod(a, ctx.integer(b + 1));
      if (b < 0 && b > INT64_MIN && power_of_two(-b)) return ctx.sub(a, ctx.floormod(a, ctx.integer(-b)));
      return nullptr;
    case Op::Pow: {
      if (b < 2 || b > kLargestPower) return nullptr;
      const Expr* product = a;
      for (int64_t k = 1; k < b; ++k) product = ctx.mul(product, a);
      return product;
    }
    default: return nullptr;
  }
}
const Expr* Context::Impl::compare(Op op, const Expr* a, const Expr* b) {
  Type boolean{DType::Bool, 1};
  if (a == b) return ctx.boolean(op == Op::Le || op == Op::Eq);
  if (const auto truth = settled(op, node(a)->interval, node(b)->interval)) return ctx.boolean(*truth);  // of data as well
  if (a->is_const() && b->is_const()) return ctx.boolean(apply_binary(op, DType::I64, {a->i, 0}, {b->i, 0}).i);
  if (!exact(a) || !exact(b)) {
    if ((op == Op::Eq || op == Op::Ne) && (a->is_const() || (!b->is_const() && ir::compare(b, a) < 0))) std::swap(a, b);
    return make_binary(op, boolean, a, b);
  }
  if (op == Op::Ne) {
    const Expr* equal = compare(Op::Eq, a, b);
    if (equal->is_const()) return ctx.boolean(!equal->i);
    return make_binary(Op::Ne, boolean, equal->args[0], equal->args[1]);
  }
  // 0 <= d, or 0 == d.
  auto d = op == Op::Eq ? difference(a, b, 0) : difference(b, a, op == Op::Lt ? -1 : 0);
  if (!d) return make_binary(op, boolean, a, b);
  normalise(*d);
  int64_t g = 0;
  for (const Term& t : d->terms) g = gcd(g, t.k);
  if (op == Op::Eq) {
    if (d->is_constant()) return ctx.boolean(d->c == 0);
    Interval v = interval_of(*d);
    if (v.lo > 0 || v.hi < 0) return ctx.boolean(false);
    if (g > 1 && floor_mod(d->c, g) != 0) return ctx.boolean(false);
    auto minus = scaled(*d, -1);
    auto above = poly_add(*d, constant_poly(-1));
    auto below = minus ? poly_add(*minus, constant_poly(-1)) : std::nullopt;
    if ((above && is_non_negative(*above)) || (below && is_non_negative(*below))) return ctx.boolean(false);
  } else {
    if (d->is_constant()) return ctx.boolean(d->c >= 0);
    if (is_non_negative(*d)) return ctx.boolean(true);
    auto minus = scaled(*d, -1);
    auto below = minus ? poly_add(*minus, constant_poly(-1)) : std::nullopt;
    if (below && is_non_negative(*below)) return ctx.boolean(false);
  }
  if (g > 1) {
    for (Term& t : d->terms) t.k /= g;
    d->c = floor_div(d->c, g);
  }
  // Positive terms to the right, negative ones to the left; an equation starts with a positive term.
  if (op == Op::Eq && d->terms[0].k < 0) {
    auto minus = scaled(*d, -1);
    if (!minus) return make_binary(op, boolean, a, b);
    d = minus;
  }
  Poly left, right;
  for (const Term& t : d->terms) {
    if (t.k == INT64_MIN) return make_binary(op, boolean, a, b);
    if (t.k > 0) right.terms.push_back(t);
    else left.terms.push_back({t.factors, -t.k});
  }
  if (d->c == INT64_MIN || d->c == INT64_MAX) return make_binary(op, boolean, a, b);
  if (op == Op::Eq) {
    (d->c > 0 && !left.terms.empty() ? right.c : left.c) = d->c > 0 && !left.terms.empty() ? d->c : -d->c;
    return make_binary(Op::Eq, boolean, from_poly(right), from_poly(left));
  }
  bool strict = d->c < 0 || right.terms.empty();
  if (right.terms.empty()) right.c = d->c + 1;  // left < c + 1
  else if (strict) left.c = -d->c - 1;
  else right.c = d->c;
  return make_binary(strict ? Op::Lt : Op::Le, boolean, from_poly(left), from_poly(right));
}

const Expr* Context::Impl::min_max(Op op, const Expr* a, const Expr* b) {
  if (a == b) return a;
  bool is_min = op == Op::Min;
  Interval x = node(a)->interval, y = node(b)->interval;
  if (x.hi <= y.lo) return is_min ? a : b;
  if (y.hi <= x.lo) return is_min ? b : a;
  if (exact(a) && exact(b)) {
    auto d = difference(b, a, 0);
    auto e = difference(a, b, 0);
    if (d && is_non_negative(*d)) return is_min ? a : b;
    if (e && is_non_negative(*e)) return is_min ? b : a;
  }
  if (a->is_const() || (!b->is_const() && ir::compare(b, a) < 0)) std::swap(a, b);
  if (b->is_const() && a->op == op && a->args[1]->is_const())
    return ctx.binary(op, a->args[0], ctx.binary(op, a->args[1], b));
  if (a->op == op && (a->args[0] == b || a->args[1] == b)) return a;
  if (b->op == op && (b->args[0] == a || b->args[1] == a)) return b;
  return make_binary(op, {DType::I64, 1}, a, b);
}

}  // namespace mlc::ir
