#include "packager/ir/broadcast.h"

#include <algorithm>
#include <unordered_set>

#include "packager/ir/evaluate.h"

namespace mlc::ir {
namespace {

bool in_order(const Expr* a, const Expr* b) { return compare(a, b) < 0; }

bool contains(const std::vector<const Expr*>& sorted, const Expr* e) {
  return std::binary_search(sorted.begin(), sorted.end(), e, in_order);
}

constexpr int64_t kLargestTried = 1 << 20;

const Expr* is_one(Context& ctx, const Expr* extent) { return ctx.binary(Op::Eq, extent, ctx.integer(1)); }

// The alternatives of a disjunction.
std::vector<const Expr*> alternatives(const Expr* e) {
  std::vector<const Expr*> out, stack{e};
  while (!stack.empty()) {
    e = stack.back();
    stack.pop_back();
    if (e->op == Op::Or) stack.insert(stack.end(), e->args.begin(), e->args.end());
    else out.push_back(e);
  }
  return out;
}

}  // namespace

bool can_be_one(Context& ctx, const Expr* extent) {
  return divisor_of(extent) == 1 && !is_one(ctx, extent)->is_int(0);
}

bool may_differ_by_one(const Expr* a, const Expr* b) {
  std::vector<const Sym*> symbols[2];
  for (int side : {0, 1})
    walk(side ? b : a, [&](const Expr* e) {
      if (e->op == Op::Sym) symbols[side].push_back(e->sym);
    });
  const auto shared = [&](const Sym* s) { return std::find(symbols[1].begin(), symbols[1].end(), s) != symbols[1].end(); };
  if (!symbols[0].empty() && !symbols[1].empty() && std::none_of(symbols[0].begin(), symbols[0].end(), shared)) return true;
  std::vector<const Sym*> all = symbols[0];
  for (const Sym* s : symbols[1])
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
  std::unordered_map<const Sym*, int64_t> values;
  const SymValues value_of = [&](const Sym* s) { return std::optional(values.at(s)); };
  ExtentEvaluator of_a(a), of_b(b);
  const auto set = [&](const Sym* s, int64_t v) {
    v = std::clamp(v, std::max<int64_t>(s->lo, 0), s->hi);
    values[s] = s->multiple > 1 ? std::max(v / s->multiple * s->multiple, s->lo) : v;
  };
  // Ways to set all symbols by one number: all to it; one apart from the others.
  const size_t ways = all.size() > 1 ? 1 + 2 * all.size() : 1;
  const auto set_all = [&](size_t way, int64_t v) {
    for (size_t k = 0; k < all.size(); ++k) {
      const bool apart = way > 0 && k == (way - 1) / 2;
      set(all[k], way == 0 ? v : way % 2 ? (apart ? 1 : v) : (apart ? v : 2));
    }
  };
  const auto differ_at = [&](size_t way, int64_t v) {
    set_all(way, v);
    const auto x = of_a(value_of), y = of_b(value_of);
    return x && y && *x != *y && (*x == 1 || *y == 1);
  };
  for (size_t way = 0; way < ways; ++way) {
    for (int64_t v = 1; v < kLargestTried; v += v < 40 ? 1 : v / 4)
      if (differ_at(way, v)) return true;
    for (ExtentEvaluator* of : {&of_a, &of_b}) {  // behind windows and strides an extent is 1 for a few large values only
      int64_t below = 1, above = kLargestTried;
      while (above - below > 1) {
        const int64_t middle = below + (above - below) / 2;
        set_all(way, middle);
        const auto x = (*of)(value_of);
        if (x && *x == 1 && differ_at(way, middle)) return true;
        (x && *x > 1 ? above : below) = middle;
      }
    }
  }
  return false;
}

std::vector<const Expr*> broadcast_terms(Context& ctx, const Expr* extent) {
  std::vector<const Expr*> terms;
  while (extent->op == Op::Select && extent->args[0] == is_one(ctx, extent->args[2])) {
    terms.push_back(extent->args[2]);
    extent = extent->args[1];
  }
  terms.push_back(extent);
  std::sort(terms.begin(), terms.end(), in_order);
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
  return terms;
}

const Expr* broadcast_extent(Context& ctx, const Expr* a, const Expr* b) {
  if (a == b || b->is_int(1)) return a;
  if (a->is_int(1)) return b;
  std::vector<const Expr*> terms = broadcast_terms(ctx, a), others = broadcast_terms(ctx, b);
  terms.insert(terms.end(), others.begin(), others.end());
  std::sort(terms.begin(), terms.end(), in_order);
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
  const Expr* whole = nullptr;
  for (const Expr* t : terms)
    if (!can_be_one(ctx, t) && (!whole || t->is_const())) whole = t;
  if (whole) return whole;
  for (size_t k = terms.size(); k-- > 0;) whole = whole ? ctx.select(is_one(ctx, terms[k]), whole, terms[k]) : terms[k];
  return whole;
}

const Expr* broadcast_condition(Context& ctx, const Expr* a, const Expr* b) {
  const std::vector<const Expr*> x = broadcast_terms(ctx, a), y = broadcast_terms(ctx, b);
  if (std::includes(x.begin(), x.end(), y.begin(), y.end(), in_order) || std::includes(y.begin(), y.end(), x.begin(), x.end(), in_order))
    return ctx.boolean(true);
  const Expr* c = ctx.binary(Op::Eq, a, b);
  for (const Expr* e : {a, b})
    if (can_be_one(ctx, e)) c = ctx.binary(Op::Or, c, is_one(ctx, e));
  return c;
}

const Expr* broadcast_step(Context& ctx, const Expr* extent) {
  if (!can_be_one(ctx, extent)) return ctx.integer(1);
  return ctx.select(is_one(ctx, extent), ctx.integer(0), ctx.integer(1));
}

bool is_broadcast_step(const Expr* e) {
  if (e->op != Op::Select || e->args[0]->op != Op::Eq || !e->args[1]->is_int(0) || !e->args[2]->is_int(1)) return false;
  bool of_symbols = e->type == Type{DType::I64, 1};
  walk(e->args[0], [&](const Expr* x) { of_symbols &= x->op != Op::Dim && x->op != Op::Load && x->op != Op::Fold && x->op != Op::Var; });
  return of_symbols;
}

std::vector<const Expr*> steps_in(const Expr* e) {
  std::vector<const Expr*> steps;
  walk(e, [&](const Expr* x) {
    if (is_broadcast_step(x)) steps.push_back(x);
  });
  return steps;
}

const Expr* without_steps(Context& ctx, const Expr* e) {
  return ctx.rewrite(e, [&](const Expr* x) { return is_broadcast_step(x) ? ctx.integer(1) : nullptr; });
}

bool broadcast_in_range(Context& ctx, const Expr* index, const Expr* extent, std::span<const Expr* const> given) {
  const Expr* step = broadcast_step(ctx, extent);
  if (step->is_const()) return false;
  const Expr* leaf[] = {step};
  auto parts = linear_in(ctx, index, leaf);
  if (!parts || !parts->rest->is_int(0)) return false;
  // Where the step is 0 so is the index. Where it is not, the extent is not 1: what it was broadcast to is the extent
  // itself, and a check that it is 1 or something else says something else.
  const Expr* at = parts->coefficients[0];
  std::vector<const Expr*> facts(given.begin(), given.end());
  facts.push_back(ctx.binary(Op::Ne, extent, ctx.integer(1)));
  std::unordered_set<const Expr*> seen;
  walk(at, [&](const Expr* e) {
    if (e->op != Op::Dim) return;
    walk(e->dim->extent, [&](const Expr* x) {
      if (x->op == Op::Select && x != extent && seen.insert(x).second && contains(broadcast_terms(ctx, x), extent))
        facts.push_back(ctx.binary(Op::Eq, x, extent));
    });
  });
  for (const Expr* g : given) {
    if (!g || g->op != Op::Or) continue;
    std::vector<const Expr*> rest = alternatives(g);
    if (std::erase(rest, is_one(ctx, extent)) && rest.size() == 1) facts.push_back(rest[0]);
  }
  return proves(ctx, ctx.binary(Op::Le, ctx.integer(0), at), facts) && proves(ctx, ctx.binary(Op::Lt, at, extent), facts);
}

}  // namespace mlc::ir
