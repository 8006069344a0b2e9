// Proofs of linear (and a little more) integer facts: lower bounds of polynomials.
//
// A dim in which the polynomial is monotone is replaced by the end of its range where the polynomial is least; symbols
// are shifted to start at zero, after which non-negative coefficients decide; quotients, remainders, minima and maxima
// are replaced by their bounds, one at a time. Conditions that hold are subtracted so that a term cancels. What is negative
// somewhere is not searched (points.cpp). All of it is sound and none of it complete; the fuel bounds the time of one proof, and steps that of all the proofs within it.
#include <algorithm>

#include "packager/ir/impl.h"

namespace mlc::ir {
namespace {

constexpr int kUnknown = 2;

int both(int a, int b) { return a == 0 ? b : b == 0 || a == b ? a : kUnknown; }
int flip(int a) { return a == kUnknown ? a : -a; }

// How e moves when the leaf d grows: 0 not at all, +1, -1, or unknown.
int direction(const Expr* e, const Expr* d, int depth, int& fuel) {
  if (e == d) return 1;
  if ((e->args.empty() && e->op != Op::Fold) || !node(e)->running) return 0;
  if (depth == 0 || --fuel < 0 || e->op == Op::Load || e->op == Op::Fold) return kUnknown;
  auto of = [&](size_t i) { return direction(e->args[i], d, depth - 1, fuel); };
  switch (e->op) {
    case Op::Add: case Op::Min: case Op::Max: return both(of(0), of(1));
    case Op::Sub: return both(of(0), flip(of(1)));
    case Op::Mul:
      for (size_t i = 0; i < 2; ++i) {
        if (of(i) != 0) continue;
        Interval v = node(e->args[i])->interval;
        int other = of(1 - i);
        return other == 0 || v.lo >= 0 ? other : v.hi <= 0 ? flip(other) : kUnknown;
      }
      return kUnknown;
    case Op::FloorDiv: {
      if (of(1) != 0) return kUnknown;
      int a = of(0);
      return a == 0 || node(e->args[1])->interval.lo > 0 ? a : kUnknown;
    }
    case Op::Select: return of(0) == 0 ? both(of(1), of(2)) : kUnknown;
    default: {
      int r = 0;
      for (size_t i = 0; i < e->args.size(); ++i) r |= of(i);
      return r == 0 ? 0 : kUnknown;
    }
  }
}

int direction(const Monomial& m, const Expr* d, int& fuel) {
  int r = 0;
  Interval rest{1, 1};
  bool moves = false;
  for (const Expr* f : m) {
    int k = direction(f, d, 24, fuel);
    if (k == 0) {
      rest = multiply(rest, node(f)->interval);
      continue;
    }
    if (moves) return kUnknown;  // d times d
    moves = true;
    r = k;
  }
  if (!moves || r == kUnknown) return r;
  return rest.lo >= 0 ? r : rest.hi <= 0 ? -r : kUnknown;
}

void collect_dims(const Expr* root, std::vector<const Expr*>& dims, int& fuel) {
  std::vector<const Expr*> stack{root};
  while (!stack.empty() && --fuel > 0) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (!node(e)->running) continue;
    if (e->op == Op::Dim && std::find(dims.begin(), dims.end(), e) == dims.end()) dims.push_back(e);
    stack.insert(stack.end(), e->args.begin(), e->args.end());
  }
}

// The truth of `condition` where `assumed` is `value`; nothing if that does not follow at once.
std::optional<bool> follows(const Expr* condition, const Expr* assumed, bool value) {
  if (condition == assumed) return value;
  const bool negation =
      (condition->op == Op::Not && condition->args[0] == assumed) ||
      (assumed->op == Op::Not && assumed->args[0] == condition) ||
      (((condition->op == Op::Eq && assumed->op == Op::Ne) || (condition->op == Op::Ne && assumed->op == Op::Eq)) &&
       condition->args[0] == assumed->args[0] && condition->args[1] == assumed->args[1]);
  if (negation) return !value;
  return std::nullopt;
}

// e where `assumed` is `value`: choices by it, or by its opposite, are taken; x == 3 puts 3 for x.
const Expr* under(Context& ctx, const Expr* e, const Expr* assumed, bool value) {
  const Op equal = value ? Op::Eq : Op::Ne;
  if (assumed->op == equal && assumed->args[1]->is_const() && is_index(assumed->args[0]))
    return ctx.substitute(e, {{assumed->args[0], assumed->args[1]}});
  for (int round = 0; round < 32; ++round) {  // a choice taken may hold another one
    const Expr* next = ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
      if (x->op != Op::Select) return nullptr;
      const auto taken = follows(x->args[0], assumed, value);
      return taken ? x->args[*taken ? 1 : 2] : nullptr;
    });
    if (next == e) break;
    e = next;
  }
  return e;
}

// Does the condition of `choice` settle another choice in p?
bool decides_more(const Poly& p, const Expr* choice) {
  const Expr* condition = choice->args[0];
  std::vector<const Expr*> stack, seen;
  for (const Term& t : p.terms) stack.insert(stack.end(), t.factors.begin(), t.factors.end());
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (!node(e)->choice || std::find(seen.begin(), seen.end(), e) != seen.end()) continue;
    if (seen.size() > 256) return true;
    seen.push_back(e);
    if (e->op == Op::Select && e != choice) {
      const Expr* other = e->args[0];
      const bool equations = condition->op == Op::Eq && (other->op == Op::Eq || other->op == Op::Ne) &&
                             condition->args[0] == other->args[0];
      if (equations || follows(other, condition, true)) return true;
    }
    stack.insert(stack.end(), e->args.begin(), e->args.end());
  }
  return false;
}

// A lower bound of p of fewer terms.
Poly without_positive(Poly p) {
  std::erase_if(p.terms, [](const Term& t) { return t.k > 0 && interval_of(t.factors).lo >= 0; });
  return p;
}

// Atoms counted from their lower bounds.
bool counted_from_bounds(const Poly& p) {
  std::optional<Poly> sum = constant_poly(p.c);
  bool known = true;
  for (const Term& t : p.terms) {
    std::optional<Poly> term = constant_poly(t.k);
    for (const Expr* f : t.factors) {
      int64_t lo = node(f)->interval.lo;
      if (lo == INT64_MIN) known = false;
      auto shifted = poly_add(atom_poly(f), constant_poly(known ? lo : 0));
      term = term && shifted ? poly_mul(*term, *shifted) : std::nullopt;
    }
    sum = sum && term ? poly_add(*sum, *term) : std::nullopt;
    if (!sum || !known) break;
  }
  return sum && known && sum->c >= 0 && std::all_of(sum->terms.begin(), sum->terms.end(), [](const Term& t) { return t.k > 0; });
}

}  // namespace

bool Context::Impl::step() {
  const uint64_t nodes = std::min<uint64_t>((rewritten - charged) / kNodesOfStep, kStepsOfQuestion);
  charged = rewritten;
  if (steps_left >= 0) steps_left -= 1 + static_cast<int>(nodes);
  return steps_left >= 0;
}

bool Context::Impl::non_negative_poly(const Poly& p, int& fuel, int depth) {
  Interval v = interval_of(p);
  if (v.lo >= 0) return true;
  if (v.hi < 0 || is_negative_somewhere(p) || depth == 0 || --fuel < 0 || !step()) return false;
  if (const auto holds = non_negative_at_ends(p, fuel, depth)) return *holds;
  if (counted_from_bounds(p)) return true;
  if (const auto holds = non_negative_in_cases(p, fuel, depth)) return *holds;
  return non_negative_by_atoms(p, fuel, depth);
}

// At the ends of a dim along which p rises, falls or is linear; nothing where there is none.
std::optional<bool> Context::Impl::non_negative_at_ends(const Poly& p, int& fuel, int depth) {
  std::vector<const Expr*> dims;
  int steps = 2000;
  for (const Term& t : p.terms)
    for (const Expr* f : t.factors) collect_dims(f, dims, steps);
  // Innermost dims first: their extents mention no dims, so one round each suffices.
  for (const Expr* d : dims) {
    int way = 0;
    bool linear = true;
    for (const Term& t : p.terms) {
      int k = direction(t.factors, d, steps);
      way = both(way, t.k < 0 ? flip(k) : k);
      auto rest = divide(t.factors, Monomial{d});
      if (!rest) rest = t.factors;
      for (const Expr* f : *rest) linear = linear && direction(f, d, 24, steps) == 0;
    }
    if (way == kUnknown && !linear) continue;
    const Expr* e = from_poly(p);
    const Expr* last = ctx.sub(d->dim->extent, ctx.integer(1));
    auto holds_at = [&](const Expr* value) {
      return non_negative_poly(poly_of(ctx.substitute(e, {{d, value}})), fuel, depth - 1);
    };
    if (way != kUnknown) return holds_at(way > 0 ? ctx.integer(0) : last);
    return holds_at(ctx.integer(0)) && holds_at(last);  // linear with a factor of unknown sign: least at an end
  }

  return std::nullopt;
}

// A choice: both cases, each everywhere at once; nothing where there is none.
std::optional<bool> Context::Impl::non_negative_in_cases(const Poly& p, int& fuel, int depth) {
  size_t choices = 0;
  for (const Term& t : p.terms)
    for (const Expr* f : t.factors) choices += node(f)->choice;
  for (const Term& t : p.terms)
    for (size_t f = 0; choices && f < t.factors.size(); ++f) {
      const Expr* a = t.factors[f];
      if (a->op != Op::Select || !exact(a) || !exact(a->args[1]) || !exact(a->args[2])) continue;
      if (choices == 1 || !decides_more(p, a)) {
        Monomial others = t.factors;
        others.erase(others.begin() + static_cast<ptrdiff_t>(f));
        const auto rest = poly_add(p, Poly{{{t.factors, t.k}}, 0}, -1);
        auto holds_with = [&](const Expr* arm) {
          const auto part = poly_mul(others.empty() ? constant_poly(t.k) : Poly{{{others, t.k}}, 0}, poly_of(arm));
          const auto sum = rest && part ? poly_add(*rest, *part) : std::nullopt;
          return sum && non_negative_poly(*sum, fuel, depth - 1);
        };
        return holds_with(a->args[1]) && holds_with(a->args[2]);
      }
      const Expr* whole = from_poly(p);
      auto holds_if = [&](bool value) {
        const Expr* e = under(ctx, whole, a->args[0], value);
        return e != whole && non_negative_poly(poly_of(e), fuel, depth - 1);
      };
      return holds_if(true) && holds_if(false);
    }
  return std::nullopt;
}

// Quotients, remainders, minima, maxima and long sums by their bounds.
bool Context::Impl::non_negative_by_atoms(const Poly& p, int& fuel, int depth) {
  for (const Term& t : p.terms) {
    for (size_t f = 0; f < t.factors.size(); ++f) {
      const Expr* a = t.factors[f];
      if (a->op != Op::FloorDiv && a->op != Op::FloorMod && a->op != Op::Min && a->op != Op::Max && a->op != Op::Add) continue;
      Monomial others = t.factors;
      others.erase(others.begin() + static_cast<ptrdiff_t>(f));
      if (interval_of(others).lo < 0) continue;
      Poly factor = others.empty() ? constant_poly(t.k) : Poly{{{others, t.k}}, 0};
      auto rest = poly_add(p, Poly{{{t.factors, t.k}}, 0}, -1);
      if (!rest) continue;
      // times * rest + factor * bound >= 0 ?
      auto holds = [&](const Poly& bound, const Poly& times = constant_poly(1)) {
        auto x = poly_mul(*rest, times);
        auto y = poly_mul(factor, bound);
        auto sum = x && y ? poly_add(*x, *y) : std::nullopt;
        return sum && non_negative_poly(*sum, fuel, depth - 1);
      };
      if (a->op == Op::FloorDiv || a->op == Op::FloorMod) {
        if (node(a->args[1])->interval.lo <= 0 || !exact(a->args[0])) continue;
        const Poly &x = poly_of(a->args[0]), &n = poly_of(a->args[1]);
        auto n1 = poly_add(n, constant_poly(-1));
        if (!n1) continue;
        if (a->op == Op::FloorMod) {
          if (t.k > 0) { if (holds(constant_poly(0))) return true; }
          else if (holds(*n1) || (node(a->args[0])->interval.lo >= 0 && holds(x))) return true;
        } else {
          // Alone, the quotient compares exactly: r + x // n >= 0 where r*n + x >= 0, r - x // n >= 0 where
          // r*n + n - 1 - x >= 0. Otherwise between x - n + 1 and x, over n.
          bool alone = others.empty() && (t.k == 1 || t.k == -1);
          auto low = alone ? std::optional(x) : poly_add(x, *n1, -1);
          auto high = alone ? poly_add(x, *n1, -1) : std::optional(x);
          auto& bound = t.k < 0 ? high : low;
          if (bound && holds(*bound, n)) return true;
        }
        continue;
      }
      if (!exact(a)) continue;
      const Poly &x = poly_of(a->args[0]), &y = poly_of(a->args[1]);
      if (a->op == Op::Add) {  // a sum of more terms than a polynomial has: either side, and the bound of the other
        const auto beside = [&](const Poly& side, Interval other) {
          const int64_t bound = t.k > 0 ? other.lo : other.hi;
          if (bound == INT64_MIN || bound == INT64_MAX) return false;
          const auto least = poly_add(side, constant_poly(bound));
          const auto part = least ? poly_mul(factor, *least) : std::nullopt;
          auto sum = part ? poly_add(*rest, *part) : std::nullopt;
          if (part && !sum) sum = poly_add(without_positive(*rest), *part);
          return sum && non_negative_poly(*sum, fuel, depth - 1);
        };
        if (beside(x, node(a->args[1])->interval) || beside(y, node(a->args[0])->interval)) return true;
        continue;
      }
      if ((a->op == Op::Min) == (t.k < 0) ? holds(x) || holds(y) : holds(x) && holds(y)) return true;
    }
  }
  return false;
}

std::optional<Poly> Context::Impl::at_ends(Poly p) {
  bool changed = false;
  int steps = 4000;
  for (size_t round = 0; round < 16; ++round) {
    std::vector<const Expr*> dims;
    for (const Term& t : p.terms)
      for (const Expr* f : t.factors) collect_dims(f, dims, steps);
    const Expr *found = nullptr, *end = nullptr;
    for (const Expr* d : dims) {
      int way = 0;
      for (const Term& t : p.terms) {
        const int k = direction(t.factors, d, steps);
        way = both(way, t.k < 0 ? flip(k) : k);
      }
      if (way == kUnknown) continue;
      found = d;
      end = way > 0 ? ctx.integer(0) : ctx.sub(d->dim->extent, ctx.integer(1));
      break;
    }
    if (!found) break;
    p = poly_of(ctx.substitute(from_poly(p), {{found, end}}));
    changed = true;
  }
  return changed ? std::optional(std::move(p)) : std::nullopt;
}

bool Context::Impl::is_non_negative(const Poly& p) {
  Interval v = interval_of(p);
  if (v.lo >= 0) return true;
  if (v.hi < 0 || is_negative_somewhere(p)) return false;
  const Expr* key = from_poly(p);
  auto [it, fresh] = non_negative.try_emplace(key, false);
  if (!fresh) return it->second;
  int fuel = 60;
  const Question question(*this);
  const bool yes = non_negative_poly(poly_of(key), fuel, 10);
  if (yes || questions == 1 || !cut_short()) non_negative[key] = yes;
  else non_negative.erase(key);
  return yes;
}

namespace {

struct Facts {
  std::vector<const Expr*> conditions;
  std::vector<Poly> non_negative;
};

struct Prover {
  Context::Impl& impl;
  Facts facts;
  int fuel = 400;

  void assume(const Expr* root) {
    std::vector<const Expr*> stack{root};
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (e->op == Op::And) {
        stack.insert(stack.end(), e->args.begin(), e->args.end());
        continue;
      }
      facts.conditions.push_back(e);
      if (e->args.size() != 2 || !is_index(e->args[0]) || !exact(e->args[0]) || !exact(e->args[1])) continue;
      auto note = [&](std::optional<Poly> p) {
        if (p) facts.non_negative.push_back(std::move(*p));
      };
      if (e->op == Op::Lt) note(impl.difference(e->args[1], e->args[0], -1));
      if (e->op == Op::Le || e->op == Op::Eq) note(impl.difference(e->args[1], e->args[0], 0));
      if (e->op == Op::Eq) note(impl.difference(e->args[0], e->args[1], 0));
    }
  }

  bool on_its_own(const Poly& p) {
    int own = 60;
    const Context::Impl::Question question(impl);
    return impl.non_negative_poly(p, own, 10);
  }

  // p >= 0 if p times m minus a fact times k is, k and m positive.
  bool holds(const Poly& p, int depth) {
    if (on_its_own(p)) return true;
    if (depth == 0) return false;
    // A quotient that stands alone is multiplied out, so that conditions on its dividend apply.
    for (const Term& t : p.terms) {
      if (t.factors.size() != 1 || t.factors[0]->op != Op::FloorDiv || (t.k != 1 && t.k != -1)) continue;
      const Expr *x = t.factors[0]->args[0], *n = t.factors[0]->args[1];
      if (node(n)->interval.lo <= 0 || !exact(x) || --fuel < 0) continue;
      auto rest = poly_add(p, Poly{{t}, 0}, -1);
      auto whole = rest ? poly_mul(*rest, impl.poly_of(n)) : std::nullopt;
      if (whole) whole = poly_add(*whole, impl.poly_of(x), t.k);
      if (whole && t.k < 0) {
        whole = poly_add(*whole, impl.poly_of(n));
        if (whole) whole = poly_add(*whole, constant_poly(-1));
      }
      if (whole && holds(*whole, depth - 1)) return true;
    }
    for (const Poly& g : facts.non_negative) {
      for (const Term& t : p.terms) {
        auto it = std::find_if(g.terms.begin(), g.terms.end(), [&](const Term& o) { return o.factors == t.factors; });
        if (it == g.terms.end() || (it->k < 0) != (t.k < 0)) continue;
        if (--fuel < 0) return false;
        int64_t d = gcd(it->k, t.k);
        auto left = scaled(p, std::abs(it->k / d));
        auto rest = left ? poly_add(*left, g, -std::abs(t.k / d)) : std::nullopt;
        if (rest && holds(*rest, depth - 1)) return true;
      }
    }
    // Facts about products, of extents as a rule, where the dims of p are gone.
    const bool products = std::any_of(facts.non_negative.begin(), facts.non_negative.end(), [](const Poly& g) {
      return std::any_of(g.terms.begin(), g.terms.end(), [](const Term& t) { return t.factors.size() > 1; });
    });
    if (!products || --fuel < 0) return false;
    const auto least = impl.at_ends(p);
    return least && holds(*least, depth - 1);
  }

  bool proves(const Expr* e, int depth) {
    if (e->is_const()) return e->i != 0;
    if (std::find(facts.conditions.begin(), facts.conditions.end(), e) != facts.conditions.end()) return true;
    if (depth == 0) return false;
    if (e->op == Op::And) {
      // The chain leans to the left.
      for (; e->op == Op::And; e = e->args[0])
        if (!proves(e->args[1], depth - 1)) return false;
      return proves(e, depth - 1);
    }
    if (e->op == Op::Or) {
      for (; e->op == Op::Or; e = e->args[0])
        if (proves(e->args[1], depth - 1)) return true;
      return proves(e, depth - 1);
    }
    if (e->args.size() != 2 || !is_index(e->args[0]) || !exact(e->args[0]) || !exact(e->args[1])) return false;
    auto non_negative = [&](const Expr* a, const Expr* b, int64_t plus) {  // a - b + plus
      auto d = impl.difference(a, b, plus);
      return d && holds(*d, 3);
    };
    const Expr *a = e->args[0], *b = e->args[1];
    switch (e->op) {
      case Op::Lt: return non_negative(b, a, -1);
      case Op::Le: return non_negative(b, a, 0);
      case Op::Eq: return non_negative(b, a, 0) && non_negative(a, b, 0);
      case Op::Ne: return non_negative(b, a, -1) || non_negative(a, b, -1);
      default: return false;
    }
  }
};

}  // namespace

bool proves(Context& ctx, const Expr* condition, std::span<const Expr* const> given) {
  Prover p{ctx.impl(), {}};
  for (const Expr* g : given)
    if (g) p.assume(g);
  return p.proves(condition, 32);
}

}  // namespace mlc::ir
