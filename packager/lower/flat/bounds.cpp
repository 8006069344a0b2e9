// Conditions that become loop bounds, so that padding costs nothing; and the algebra of combiners.
#include <limits>
#include <unordered_set>

#include "packager/ir/numeric.h"
#include "packager/lower/flat/body.h"

namespace mlc::lower {

using ir::Expr;
using ir::Join;
using ir::Op;

std::vector<const Expr*> conjuncts(ir::Context& ctx, const Expr* condition) {
  std::vector<const Expr*> terms, stack;
  std::unordered_set<const Expr*> seen;  // there may be 2^n ways to a term in n nodes
  if (condition) stack.push_back(condition);
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (!seen.insert(e).second) continue;
    if (e->op == Op::And) {
      stack.push_back(e->args[1]);
      stack.push_back(e->args[0]);
    } else if (e->op == Op::Not && e->args[0]->op == Op::Lt) {  // not (a < b) = b <= a; integers only
      const Expr* lt = e->args[0];
      terms.push_back(lt->args[0]->type.dtype == DType::I64 ? ctx.binary(Op::Le, lt->args[1], lt->args[0]) : e);
    } else if (e->op == Op::Not && e->args[0]->op == Op::Le && e->args[0]->args[0]->type.dtype == DType::I64) {
      terms.push_back(ctx.binary(Op::Lt, e->args[0]->args[1], e->args[0]->args[0]));
    } else if (!(e->is_const() && e->i)) {
      terms.push_back(e);
    }
  }
  return terms;
}

std::optional<DimBound> bound_of(ir::Context& ctx, const Expr* term, const ir::Dim* d) {
  if (term->op != Op::Lt && term->op != Op::Le && term->op != Op::Eq) return std::nullopt;
  if (term->args[0]->type.dtype != DType::I64) return std::nullopt;
  const Expr* leaf[] = {ctx.dim(d)};
  auto lin = ir::linear_in(ctx, ctx.sub(term->args[1], term->args[0]), leaf);
  if (!lin || !lin->coefficients[0]->is_const() || lin->coefficients[0]->i == 0) return std::nullopt;
  int64_t c = lin->coefficients[0]->i;
  if (c == INT64_MIN) return std::nullopt;
  const Expr* rest = lin->rest;
  DimBound r;
  if (term->op == Op::Eq) {  // c*d + rest == 0
    const Expr* n = c > 0 ? ctx.sub(ctx.integer(0), rest) : rest;
    int64_t k = c > 0 ? c : -c;
    r.begin = ctx.ceildiv(n, ctx.integer(k));
    r.end = ctx.add(ctx.floordiv(n, ctx.integer(k)), ctx.integer(1));  // empty where k does not divide n
    return r;
  }
  const Expr* t = ctx.integer(term->op == Op::Lt ? 1 : 0);  // c*d + rest >= t
  if (c > 0) r.begin = ctx.ceildiv(ctx.sub(t, rest), ctx.integer(c));
  else r.end = ctx.add(ctx.floordiv(ctx.sub(rest, t), ctx.integer(-c)), ctx.integer(1));
  return r;
}

PointsOf points_under(ir::Context& ctx, const ir::Dim* d, const std::vector<const Expr*>& terms,
                      const std::function<bool(const Expr*, const DimBound&)>& is_bound) {
  PointsOf points{ctx.integer(0), d->extent, {}};
  for (const Expr* term : terms) {
    const auto bound = bound_of(ctx, term, d);
    if (!bound || (is_bound && !is_bound(term, *bound))) {
      points.tests.push_back(term);
      continue;
    }
    if (bound->begin) points.begin = ctx.max(points.begin, bound->begin);
    if (bound->end) points.end = ctx.min(points.end, bound->end);
  }
  return points;
}

void for_each_tap(ir::Context& ctx, const std::vector<const ir::Dim*>& dims,
                  const std::function<void(const std::unordered_map<const Expr*, const Expr*>&)>& body) {
  std::unordered_map<const Expr*, const Expr*> at;
  const std::function<void(size_t)> level = [&](size_t k) {
    if (k == dims.size()) return body(at);
    for (int64_t value = 0; value < dims[k]->extent->i; ++value) {
      at[ctx.dim(dims[k])] = ctx.integer(value);
      level(k + 1);
    }
  };
  level(0);
}

const Expr* unit_of(ir::Context& ctx, const ir::Combiner& c, unsigned field, DType t) {
  auto number = [&](double f, int64_t i) {
    return is_float(t) ? ctx.number(f, t) : t == DType::Bool ? ctx.boolean(i != 0) : ctx.integer(i, t);
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  switch (c.join) {
    case Join::Sum: case Join::Last: return number(0, 0);
    case Join::Prod: return number(1, 1);
    case Join::Min: return number(inf, t == DType::Bool ? 1 : ir::highest_int(t));
    case Join::Max: return number(-inf, t == DType::Bool ? 0 : ir::lowest_int(t));
    case Join::Any: return number(0, 0);
    case Join::All: return number(1, 1);
    case Join::Custom: return c.units[field];
  }
  return nullptr;
}

std::vector<const Expr*> builtin_join(ir::Context& ctx, const ir::Combiner& c, const std::vector<const Expr*>& left,
                                      const std::vector<const Expr*>& right) {
  auto one = [&](Op op) { return std::vector<const Expr*>{loop::vec_binary(ctx, op, left[0], right[0])}; };
  switch (c.join) {
    case Join::Sum: return one(Op::Add);
    case Join::Prod: return one(Op::Mul);
    case Join::Min: return one(Op::Min);
    case Join::Max: return one(Op::Max);
    case Join::Any: return one(Op::Or);
    case Join::All: return one(Op::And);
    case Join::Last: return right;
    case Join::Custom: break;
  }
  return {};  // custom joins are expressions over variables: Body binds those
}

}  // namespace mlc::lower
