// Quotients and remainders, rounded down, of polynomials.
//
// Division by a constant splits off what is divisible:
//   (8*a + b) // 8        = a + b // 8                          terms with divisible coefficients
//   (6*a + 4) // 8        = (3*a + 2) // 4                      common factor
//   (8*a + 4*b + c) // 8  = a + b // 2         if 0 <= c < 4    part that cannot reach the next multiple
//   ((x + 1) // 2 + 1) // 2 = (x + 3) // 4                      nested divisions
// and the remainder likewise. By a symbolic divisor known to be positive: long division by its leading monomial, then the
// remainder is proved to lie in 0..divisor-1; else
//   (2*n*a + b) // (8*n)  = a // 4             if 0 <= b < 2*n
#include <algorithm>

#include "packager/ir/impl.h"
#include "packager/ir/numeric.h"

namespace mlc::ir {
namespace {

int64_t divisor_of_monomial(const Monomial& m) {
  int64_t d = 1;
  for (const Expr* f : m) {
    int64_t k = node(f)->divisor;
    if (k == 0) return 0;
    if (__builtin_mul_overflow(d, k, &d)) return 1;
  }
  return d;
}

}  // namespace

const Expr* Context::Impl::floor_divide(const Expr* a, const Expr* b) {
  Type i64{DType::I64, 1};
  if (b->is_const()) {
    int64_t c = b->i;
    if (c == 1) return a;
    if (c == 0 || c == INT64_MIN) return make_binary(Op::FloorDiv, i64, a, b);
    if (a->is_const()) {
      if (c == -1 && a->i == INT64_MIN) return make_binary(Op::FloorDiv, i64, a, b);
      return ctx.integer(floor_div(a->i, c));
    }
    if (!exact(a)) return make_binary(Op::FloorDiv, i64, a, b);
    if (c < 0) {
      auto p = scaled(poly_of(a), -1);
      return p ? divide_constant(std::move(*p), -c, false) : make_binary(Op::FloorDiv, i64, a, b);
    }
    return divide_constant(poly_of(a), c, false);
  }
  if (a->is_int(0)) return a;
  if (exact(a) && exact(b)) return divide_symbolic(a, b, false);
  return make_binary(Op::FloorDiv, i64, a, b);
}

const Expr* Context::Impl::floor_modulo(const Expr* a, const Expr* b) {
  Type i64{DType::I64, 1};
  if (b->is_const()) {
    int64_t c = b->i;
    if (c == 1 || c == -1) return ctx.integer(0);
    if (c == 0) return make_binary(Op::FloorMod, i64, a, b);
    if (a->is_const()) return ctx.integer(floor_mod(a->i, c));
    if (c < 0 || !exact(a)) return make_binary(Op::FloorMod, i64, a, b);
    return divide_constant(poly_of(a), c, true);
  }
  if (a->is_int(0)) return a;
  if (exact(a) && exact(b)) return divide_symbolic(a, b, true);
  return make_binary(Op::FloorMod, i64, a, b);
}

const Expr* Context::Impl::divide_constant(Poly p, int64_t c, bool modulo) {
  Type i64{DType::I64, 1};
  // p = c*q + r.
  const Expr* q = ctx.integer(0);
  Poly r{{}, floor_mod(p.c, c)};
  Poly whole{{}, floor_div(p.c, c)};
  for (const Term& t : p.terms) {
    int64_t quotient = t.k / c, rest = t.k - quotient * c, known;
    if (quotient) whole.terms.push_back({t.factors, quotient});
    if (!rest) continue;
    // A term that is a multiple of c by its own nature; alone, it is the atom that such a term becomes.
    bool divisible = !__builtin_mul_overflow(divisor_of_monomial(t.factors), rest, &known) && known % c == 0;
    if (divisible && modulo) continue;
    if (divisible && (p.terms.size() > 1 || r.c != 0)) {
      q = ctx.add(q, divide_constant(Poly{{{t.factors, rest}}, 0}, c, false));
      continue;
    }
    // (x % m) where m times the coefficient is a multiple of c: the x itself does as well.
    if (modulo && t.factors.size() == 1 && t.factors[0]->op == Op::FloorMod && t.factors[0]->args[1]->is_const() &&
        !__builtin_mul_overflow(t.factors[0]->args[1]->i, rest, &known) && known % c == 0 && exact(t.factors[0]->args[0])) {
      auto longer = scaled(poly_of(t.factors[0]->args[0]), rest);
      Poly others = p;
      std::erase_if(others.terms, [&](const Term& o) { return o.factors == t.factors; });
      auto sum = longer ? poly_add(others, *longer) : std::nullopt;
      if (sum) return divide_constant(std::move(*sum), c, true);
    }
    r.terms.push_back({t.factors, rest});
  }
  q = ctx.add(q, from_poly(whole));
  auto done = [&](const Expr* quotient_of_r, const Expr* remainder) {
    return modulo ? remainder : ctx.add(q, quotient_of_r);
  };
  if (r.terms.empty()) return done(ctx.integer(0), ctx.integer(r.c));
  Interval v = interval_of(r);
  if (bounded(v) && floor_div(v.lo, c) == floor_div(v.hi, c)) {
    int64_t k = floor_div(v.lo, c);
    auto shifted = poly_add(r, constant_poly(k * c), -1);
    if (shifted) return done(ctx.integer(k), modulo ? from_poly(*shifted) : nullptr);
  }
  // r = g*u + low with 0 <= low < g, g a divisor of c: divide u by c/g.
  std::vector<int64_t> candidates;
  for (const Term& t : r.terms) {
    int64_t g = gcd(t.k, c);
    if (g > 1 && g < c) candidates.push_back(g);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (int64_t g : candidates) {
    Poly u{{}, floor_div(r.c, g)}, low{{}, floor_mod(r.c, g)};
    for (const Term& t : r.terms) {
      if (t.k % g == 0) u.terms.push_back({t.factors, t.k / g});
      else low.terms.push_back(t);
    }
    Interval range = interval_of(low);
    if (range.lo < 0 || range.hi >= g) continue;
    const Expr* inner = divide_constant(u, c / g, modulo);
    if (!modulo) return ctx.add(q, inner);
    auto sum = scaled(poly_of(inner), g);
    if (sum) sum = poly_add(*sum, low);
    if (sum) return from_poly(std::move(*sum));
  }
  if (!modulo && r.terms.size() == 1 && r.terms[0].k == 1 && r.terms[0].factors.size() == 1) {
    const Expr* inner = r.terms[0].factors[0];
    int64_t product, shift;
    if (inner->op == Op::FloorDiv && inner->args[1]->is_const() && inner->args[1]->i > 0 && exact(inner->args[0]) &&
        !__builtin_mul_overflow(inner->args[1]->i, c, &product) &&
        !__builtin_mul_overflow(inner->args[1]->i, r.c, &shift)) {
      auto x = poly_add(poly_of(inner->args[0]), constant_poly(shift));
      if (x) return ctx.add(q, divide_constant(std::move(*x), product, false));
    }
    if (inner->op == Op::FloorDiv && r.c == 0 && !inner->args[1]->is_const() && node(inner->args[1])->interval.lo > 0)
      return ctx.add(q, ctx.floordiv(inner->args[0], ctx.mul(inner->args[1], ctx.integer(c))));
  }
  const Expr* atom = make_binary(modulo ? Op::FloorMod : Op::FloorDiv, i64, from_poly(r), ctx.integer(c));
  return done(atom, atom);
}

const Expr* Context::Impl::divide_symbolic(const Expr* a, const Expr* b, bool modulo) {
  Type i64{DType::I64, 1};
  Op op = modulo ? Op::FloorMod : Op::FloorDiv;
  Poly n = poly_of(b), p = poly_of(a);
  auto n1 = poly_add(n, constant_poly(-1));
  if (n.is_constant() || !n1 || !is_non_negative(*n1)) return make_binary(op, i64, a, b);
  if (a == b) return ctx.integer(modulo ? 0 : 1);
  // What divides every term of both goes; an integer constant may be left over below it.
  if (n.terms.size() == 1 && n.c == 0) {
    for (size_t f = 0; f < n.terms[0].factors.size();) {
      Monomial one{n.terms[0].factors[f]};
      bool all = p.c == 0 && node(one[0])->interval.lo > 0 && (n.terms[0].factors.size() > 1 || n.terms[0].k > 1);
      for (const Term& t : p.terms) all = all && divide(t.factors, one);
      if (!all) { ++f; continue; }
      Poly shorter{{}, 0};
      for (const Term& t : p.terms) {
        Monomial m = *divide(t.factors, one);
        if (m.empty()) shorter.c += t.k;
        else shorter.terms.push_back({std::move(m), t.k});
      }
      Monomial m = *divide(n.terms[0].factors, one);
      Poly divisor = m.empty() ? constant_poly(n.terms[0].k) : Poly{{{m, n.terms[0].k}}, 0};
      const Expr* x = ctx.binary(op, from_poly(shorter), from_poly(divisor));
      return modulo ? ctx.mul(x, one[0]) : x;
    }
    int64_t g = n.terms[0].k;
    for (const Term& t : p.terms) g = gcd(g, t.k);
    if (g > 1) {
      Poly x = p, y = n;
      for (Term& t : x.terms) t.k /= g;
      for (Term& t : y.terms) t.k /= g;
      x.c = floor_div(p.c, g);
      const Expr* inner = ctx.binary(op, from_poly(x), from_poly(y));
      return modulo ? ctx.add(ctx.mul(inner, ctx.integer(g)), ctx.integer(floor_mod(p.c, g))) : inner;
    }
  }
  auto d = divide(p, n);
  if (!d) return make_binary(op, i64, a, b);
  auto room = poly_add(*n1, d->r, -1);
  if (is_non_negative(d->r) && room && is_non_negative(*room)) return from_poly(modulo ? d->r : d->q);
  if (!(d->q == Poly{})) {
    const Expr* rest = ctx.binary(op, from_poly(d->r), b);
    return modulo ? rest : ctx.add(from_poly(d->q), rest);
  }
  if (const Expr* shorter = divide_by_part(p, n, modulo)) return shorter;
  if (!modulo && p.terms.size() == 1 && p.c == 0 && p.terms[0].k == 1 && p.terms[0].factors.size() == 1) {
    const Expr* inner = p.terms[0].factors[0];
    if (inner->op == Op::FloorDiv && node(inner->args[1])->interval.lo > 0 && exact(inner->args[0]))
      return ctx.floordiv(inner->args[0], ctx.mul(inner->args[1], b));
  }
  return make_binary(op, i64, from_poly(p), b);
}

// p = g*m*u + low with 0 <= low < g*m, where n = k*m is positive and g divides k: u is divided by the number k/g. Null: it is not so.
const Expr* Context::Impl::divide_by_part(const Poly& p, const Poly& n, bool modulo) {
  if (n.terms.size() != 1 || n.c != 0) return nullptr;
  const Monomial& m = n.terms[0].factors;
  const int64_t k = n.terms[0].k;
  int64_t g = k;
  Poly u{{}, 0}, low{{}, p.c};
  for (const Term& t : p.terms) {
    const auto rest = divide(t.factors, m);
    if (!rest) {
      low.terms.push_back(t);
      continue;
    }
    g = gcd(g, t.k);
    if (rest->empty()) u.c = t.k;
    else u.terms.push_back({*rest, t.k});
  }
  if (g == k || (u.terms.empty() && u.c == 0)) return nullptr;
  const Poly part{{{m, g}}, -1};  // the largest that low may be
  const auto room = poly_add(part, low, -1);
  if (!room || !is_non_negative(low) || !is_non_negative(*room)) return nullptr;
  for (Term& t : u.terms) t.k /= g;
  u.c /= g;
  std::sort(u.terms.begin(), u.terms.end(), [](const Term& x, const Term& y) { return ir::compare(x.factors, y.factors) < 0; });
  const Expr* inner = ctx.binary(modulo ? Op::FloorMod : Op::FloorDiv, from_poly(u), ctx.integer(k / g));
  if (!modulo) return inner;
  return ctx.add(ctx.mul(inner, from_poly(Poly{{{m, g}}, 0})), from_poly(low));
}

}  // namespace mlc::ir
