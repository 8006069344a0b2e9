#include "packager/ir/poly.h"

#include <algorithm>

#include "packager/ir/impl.h"

namespace mlc::ir {
namespace {

// Sizes of what is known before the kernels run, and of what moves with a dim, are bounded apart: an index into a long
// sum of extents keeps its dims.
bool too_large(const Poly& p) {
  if (p.terms.size() <= kMaxTerms) return false;
  const auto moves = [](const Term& t) { return std::any_of(t.factors.begin(), t.factors.end(), [](const Expr* f) { return node(f)->running; }); };
  const auto running = static_cast<size_t>(std::count_if(p.terms.begin(), p.terms.end(), moves));
  return running > kMaxTerms || p.terms.size() - running > kMaxTerms;
}

}  // namespace

int compare(const Monomial& a, const Monomial& b) {
  size_t n = std::min(a.size(), b.size());
  for (size_t i = 0; i < n; ++i)
    if (a[i] != b[i]) return compare(a[i], b[i]);
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

bool operator==(const Poly& a, const Poly& b) {
  return a.c == b.c && a.terms.size() == b.terms.size() &&
         std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(),
                    [](const Term& x, const Term& y) { return x.k == y.k && x.factors == y.factors; });
}

std::optional<Monomial> divide(const Monomial& a, const Monomial& b) {
  Monomial rest;
  size_t j = 0;
  for (const Expr* f : a) {
    if (j < b.size() && b[j] == f) ++j;
    else rest.push_back(f);
  }
  return j == b.size() ? std::optional(rest) : std::nullopt;
}

Poly constant_poly(int64_t c) { return {{}, c}; }
Poly atom_poly(const Expr* atom) { return {{{{atom}, 1}}, 0}; }

std::optional<Poly> poly_add(const Poly& a, const Poly& b, int64_t scale) {
  Poly r;
  int64_t t;
  if (__builtin_mul_overflow(b.c, scale, &t) || __builtin_add_overflow(a.c, t, &r.c)) return std::nullopt;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    int order = i == a.terms.size() ? 1 : j == b.terms.size() ? -1 : compare(a.terms[i].factors, b.terms[j].factors);
    int64_t k = 0;
    if (order >= 0 && __builtin_mul_overflow(b.terms[j].k, scale, &k)) return std::nullopt;
    if (order <= 0 && __builtin_add_overflow(k, a.terms[i].k, &k)) return std::nullopt;
    if (k != 0) r.terms.push_back({order <= 0 ? a.terms[i].factors : b.terms[j].factors, k});
    i += order <= 0;
    j += order >= 0;
  }
  if (too_large(r)) return std::nullopt;
  return r;
}

std::optional<Poly> scaled(const Poly& a, int64_t k) { return poly_add({}, a, k); }

std::optional<Poly> poly_mul(const Poly& a, const Poly& b) {
  if (a.is_constant()) return scaled(b, a.c);
  if (b.is_constant()) return scaled(a, b.c);
  if ((a.terms.size() + 1) * (b.terms.size() + 1) > 4 * kMaxTerms) return std::nullopt;
  std::optional<Poly> sum = scaled(a, b.c);
  for (const Term& t : b.terms) {
    if (!sum) return std::nullopt;
    Poly row;
    for (const Term& s : a.terms) {
      if (s.factors.size() + t.factors.size() > kMaxDegree) return std::nullopt;
      Term p;
      std::merge(s.factors.begin(), s.factors.end(), t.factors.begin(), t.factors.end(), std::back_inserter(p.factors),
                 [](const Expr* x, const Expr* y) { return compare(x, y) < 0; });
      if (__builtin_mul_overflow(s.k, t.k, &p.k)) return std::nullopt;
      row.terms.push_back(std::move(p));
    }
    if (a.c) {
      Term p{t.factors, 0};
      if (__builtin_mul_overflow(a.c, t.k, &p.k)) return std::nullopt;
      row.terms.push_back(std::move(p));
    }
    std::sort(row.terms.begin(), row.terms.end(),
              [](const Term& x, const Term& y) { return compare(x.factors, y.factors) < 0; });
    sum = poly_add(*sum, row);
  }
  return sum;
}

std::optional<Quotient> divide(const Poly& a, const Poly& b) {
  const Term* lead = nullptr;
  for (const Term& t : b.terms)
    if (!lead || t.factors.size() > lead->factors.size()) lead = &t;
  if (!lead) return std::nullopt;
  Quotient out;
  Poly rest = a;
  for (size_t round = 0; round < 4 * kMaxTerms; ++round) {
    // Highest degree first, so that a subtraction never brings back a monomial that was dealt with.
    const Term* best = nullptr;
    std::optional<Monomial> m;
    for (const Term& t : rest.terms) {
      if (t.k == INT64_MIN) return std::nullopt;
      if (t.k % lead->k != 0 || (best && t.factors.size() <= best->factors.size())) continue;
      if (auto d = divide(t.factors, lead->factors)) {
        best = &t;
        m = std::move(d);
      }
    }
    if (!best) {
      out.r = std::move(rest);
      return out;
    }
    Poly step;
    if (m->empty()) step.c = best->k / lead->k;
    else step.terms.push_back({*m, best->k / lead->k});
    auto product = poly_mul(step, b);
    if (!product) return std::nullopt;
    auto q = poly_add(out.q, step);
    auto r = poly_add(rest, *product, -1);
    if (!q || !r) return std::nullopt;
    out.q = std::move(*q);
    rest = std::move(*r);
  }
  return std::nullopt;
}

int64_t gcd(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t y = b < 0 ? 0 - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  while (y) {
    uint64_t t = x % y;
    x = y;
    y = t;
  }
  return x > static_cast<uint64_t>(INT64_MAX) ? 1 : static_cast<int64_t>(x);  // 2^63: no use as a divisor
}

}  // namespace mlc::ir
