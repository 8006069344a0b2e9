// The normal form of i64 arithmetic.
//
// Sums and products are polynomials over atoms (poly.h) and are written back as one chain: positive terms, negative
// terms, the constant. Division by a constant splits off what is divisible:
//   (8*a + b) // 8        = a + b // 8                          terms with divisible coefficients
//   (6*a + 4) // 8        = (3*a + 2) // 4                      common factor
//   (8*a + 4*b + c) // 8  = a + b // 2         if 0 <= c < 4    part that cannot reach the next multiple
//   ((x + 1) // 2 + 1) // 2 = (x + 3) // 4                      nested divisions
// and the remainder likewise; a quotient and a remainder of the same division meet again in a sum. By a symbolic divisor
// known to be positive: long division by its leading monomial, then the remainder is proved to lie in 0..divisor-1; else
//   (2*n*a + b) // (8*n)  = a // 4             if 0 <= b < 2*n
#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/ir/impl.h"
#include "packager/ir/numeric.h"

namespace mlc::ir {
namespace {

int64_t clamp128(__int128 v) {
  return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v);
}
constexpr Interval kAll;

bool is_arithmetic(const Expr* e) {
  return is_index(e) && (e->op == Op::Add || e->op == Op::Sub || e->op == Op::Mul || e->op == Op::Neg);
}

int64_t divisor_of_monomial(const Monomial& m) {
  int64_t d = 1;
  for (const Expr* f : m) {
    int64_t k = node(f)->divisor;
    if (k == 0) return 0;
    if (__builtin_mul_overflow(d, k, &d)) return 1;
  }
  return d;
}

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
       (n.op == Op::FloorMod && arg(1).lo > 0 && !node(n.args[1])->data)))
    n.data = false;
  if (t != DType::I64 || (n.data && !bounded(v))) n.divisor = 1;
}

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

const Expr* Context::Impl::compare(Op op, const Expr* a, const Expr* b) {
  Type boolean{DType::Bool, 1};
  if (a == b) return ctx.boolean(op == Op::Le || op == Op::Eq);
  Interval x = node(a)->interval, y = node(b)->interval;
  // Ranges settle data as well.
  if (op == Op::Lt && (x.hi < y.lo || x.lo >= y.hi)) return ctx.boolean(x.hi < y.lo);
  if (op == Op::Le && (x.hi <= y.lo || x.lo > y.hi)) return ctx.boolean(x.hi <= y.lo);
  if ((op == Op::Eq || op == Op::Ne) && (x.hi < y.lo || x.lo > y.hi)) return ctx.boolean(op == Op::Ne);
  if (a->is_const() && b->is_const()) return ctx.boolean(apply_binary(op, DType::I64, {a->i, 0}, {b->i, 0}).i);
  if (!exact(a) || !exact(b)) {
    if ((op == Op::Eq || op == Op::Ne) && (a->is_const() || (!b->is_const() && b->id < a->id))) std::swap(a, b);
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
  if (a->is_const() || (!b->is_const() && b->id < a->id)) std::swap(a, b);
  if (b->is_const() && a->op == op && a->args[1]->is_const())
    return ctx.binary(op, a->args[0], ctx.binary(op, a->args[1], b));
  if (a->op == op && (a->args[0] == b || a->args[1] == b)) return a;
  if (b->op == op && (b->args[0] == a || b->args[1] == a)) return b;
  return make_binary(op, {DType::I64, 1}, a, b);
}

}  // namespace mlc::ir
