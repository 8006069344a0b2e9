// Polynomials with integer coefficients over atoms (i64 expressions that are not sums or products): the normal form in
// which i64 arithmetic is compared and simplified. Private to packager/ir. Sizes are bounded; an operation that would
// exceed them or overflow a coefficient returns nullopt and the caller keeps the operation as it stands.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "packager/ir/expr.h"

namespace mlc::ir {

using Monomial = std::vector<const Expr*>;  // factors by compare, repeated for powers; empty for the constant

struct Term {
  Monomial factors;
  int64_t k = 0;
};

struct Poly {
  std::vector<Term> terms;  // by monomial, no zero coefficients, no constant
  int64_t c = 0;

  bool is_constant() const { return terms.empty(); }
  friend bool operator==(const Poly& a, const Poly& b);
};

constexpr size_t kMaxTerms = 64, kMaxDegree = 12;

int compare(const Monomial& a, const Monomial& b);
std::optional<Monomial> divide(const Monomial& a, const Monomial& b);  // a / b if b's factors are all in a

Poly constant_poly(int64_t c);
Poly atom_poly(const Expr* atom);
std::optional<Poly> poly_add(const Poly& a, const Poly& b, int64_t scale = 1);  // a + scale * b
std::optional<Poly> poly_mul(const Poly& a, const Poly& b);
std::optional<Poly> scaled(const Poly& a, int64_t k);
// a = q * b + r by the leading monomial of b (highest degree first); b not constant.
struct Quotient {
  Poly q, r;
};
std::optional<Quotient> divide(const Poly& a, const Poly& b);

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
inline int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }
int64_t gcd(int64_t a, int64_t b);  // non-negative; of |a| and |b|

}  // namespace mlc::ir
