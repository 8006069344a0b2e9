// A transposed convolution gathers: y[o] = sum over k of x[(o + lo - k) / s] * w[k] where s divides o + lo - k. For one
// remainder of o the taps that divide are every s-th, so with o = s*o1 + p and k = s*k1 + r(p) the condition is gone
// and each phase p is a plain convolution over o1 and k1 (a contraction with p as an outer dim).
//
// Where s does not divide the number of results, the first phases have one result more than the others. They become a statement of
// their own: the points of each are a box again, and together they write what the one statement wrote.
#include <algorithm>
#include <optional>

#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {

using ir::Op;

namespace {

constexpr int64_t kMostPhases = 64;
constexpr int kMostAxes = 4;  // at which phases are looked for: sixteen statements at most

// A condition "s divides a*o + c*k + rest", where a is 1 or -1.
struct Condition {
  const Expr* term = nullptr;
  const ir::Dim *o = nullptr, *k = nullptr;
  const Expr* rest = nullptr;
  int64_t s = 0, along_o = 0, inverse = 0;  // along_k * inverse = 1 mod s
};

std::optional<int64_t> inverse(int64_t c, int64_t s) {
  c = ((c % s) + s) % s;
  for (int64_t k = 1; k < s; ++k)
    if (c * k % s == 1) return k;
  return std::nullopt;
}

bool mentions_dim(const Expr* e) {
  bool found = false;
  ir::walk(e, [&](const Expr* x) { found |= x->op == Op::Dim; });
  return found;
}

std::optional<Condition> condition_of(ir::Context& ctx, const nest::Nest& nest, const Expr* fold, const Expr* term) {
  if (term->op != Op::Eq) return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    const Expr *mod = term->args[side], *zero = term->args[1 - side];
    if (mod->op != Op::FloorMod || !zero->is_int(0) || !mod->args[1]->is_const() || mod->args[1]->i < 2 || mod->args[1]->i > kMostPhases) continue;
    const int64_t s = mod->args[1]->i;
    for (const ir::Dim* o : nest.dims)
      for (const ir::Dim* k : fold->fold->dims) {
        const Expr* leaves[] = {ctx.dim(o), ctx.dim(k)};
        const auto lin = ir::linear_in(ctx, mod->args[0], leaves);
        if (!lin || mentions_dim(lin->rest) || !lin->coefficients[0]->is_const() || !lin->coefficients[1]->is_const()) continue;
        const int64_t along_o = lin->coefficients[0]->i;
        const auto inv = inverse(lin->coefficients[1]->i, s);
        // How many results a phase has must be one number for all of them, or for all up to some phase.
        if ((along_o == 1 || along_o == -1) && inv && ctx.floormod(o->extent, ctx.integer(s))->is_const()) return Condition{term, o, k, lin->rest, s, along_o, *inv};
      }
  }
  return std::nullopt;
}

// `e` with its loads along `d` as ones that may only be made where the conditions around them hold.
const Expr* guarded(ir::Context& ctx, const Expr* e, const ir::Dim* d) {
  return ctx.rewrite(e, [&](const Expr* x) -> const Expr* {
    if (x->op != Op::Load || x->access != ir::Access::Clamped || !ir::depends_on(x, ctx.dim(d))) return nullptr;
    return ctx.load(x->array, x->type, {x->args.begin(), x->args.end()}, ir::Access::Proved);
  });
}

// The statement for phases `first` up to `end` of c.
nest::Statement phases(ir::Context& ctx, const nest::Statement& whole, const Expr* fold, const Condition& c, int64_t first, int64_t end, const Expr* results) {
  const Expr* step = ctx.integer(c.s);
  const ir::Dim* o1 = ctx.declare_dim(c.o->name + "1", results);
  const ir::Dim* k1 = ctx.declare_dim(c.k->name + "1", ctx.ceildiv(c.k->extent, step));
  const ir::Dim* of_phases = end - first > 1 ? ctx.declare_dim(c.o->name + "0", ctx.integer(end - first)) : nullptr;
  const Expr* p = of_phases ? ctx.add(ctx.integer(first), ctx.dim(of_phases)) : ctx.integer(first);
  // along_o*p + rest + along_k*k = 0 mod s, hence k = -(along_o*p + rest) / along_k; factors reduced so that the
  // usual case, k = p + rest, reads so.
  const auto reduced = [&](int64_t factor) { return ctx.integer(((factor % c.s) + c.s) % c.s); };
  const Expr* shift = ctx.add(ctx.mul(reduced(-c.along_o * c.inverse), p), ctx.mul(reduced(-c.inverse), c.rest));
  const Expr* o = ctx.add(ctx.mul(step, ctx.dim(o1)), p);
  const Expr* k = ctx.add(ctx.mul(step, ctx.dim(k1)), ctx.floormod(shift, step));

  ir::Fold f = *fold->fold;
  std::replace(f.dims.begin(), f.dims.end(), c.k, k1);
  const std::unordered_map<const Expr*, const Expr*> outside{{ctx.dim(c.o), o}}, inside{{ctx.dim(c.o), o}, {ctx.dim(c.k), k}};
  // Where s does not divide k's extent the last k1 has taps beyond it: reads along k that needed no condition
  // (they were in range for every k) need one now.
  const bool exact = c.k->extent->is_const() && c.k->extent->i % c.s == 0;
  const auto moved = [&](const Expr* e) { return ctx.substitute(exact ? e : guarded(ctx, e, c.k), inside); };
  const Expr* where = exact ? ctx.boolean(true) : ctx.binary(Op::Lt, k, c.k->extent);
  std::vector<const Expr*> terms, bodies;
  add_conjuncts(fold->fold->where, terms);
  for (const Expr* t : terms)
    if (t != c.term) where = ctx.binary(Op::And, where, moved(t));
  f.where = where->is_const() && where->i ? nullptr : where;
  for (const Expr* body : fold->args) bodies.push_back(moved(body));
  const Expr* new_fold = ctx.fold(std::move(f), std::move(bodies));

  const nest::Write& w = whole.nest->writes[0];
  nest::Statement part;
  part.source = whole.source;
  part.part = whole.part;
  part.nest = std::make_unique<nest::Nest>();
  part.nest->dims = whole.nest->dims;
  std::replace(part.nest->dims.begin(), part.nest->dims.end(), c.o, o1);
  if (of_phases) part.nest->dims.insert(part.nest->dims.begin(), of_phases);
  nest::Write& to = part.nest->writes.emplace_back(w);
  to.value = ctx.substitute(ctx.rewrite(w.value, [&](const Expr* e) { return e == fold ? new_fold : nullptr; }), outside);
  for (const Expr*& i : to.index) i = ctx.substitute(i, outside);
  return part;
}

// The only fold of what is written, if its points may be taken in another order.
const Expr* the_fold(const nest::Statement& s) {
  if (!s.nest || s.nest->writes.size() != 1 || s.nest->writes[0].push || s.nest->scan_dim || s.nest->where) return nullptr;
  const Expr* fold = nullptr;
  size_t folds = 0;
  ir::walk(s.nest->writes[0].value, [&](const Expr* e) {
    if (e->op == Op::Fold) fold = e, ++folds;
  });
  return folds == 1 && fold->fold->where && fold->fold->combiner->commutative ? fold : nullptr;
}

// The statement by the phases of one of its conditions; nothing if it has none.
std::vector<nest::Statement> split(ir::Context& ctx, const nest::Statement& s) {
  std::vector<nest::Statement> parts;
  const Expr* fold = the_fold(s);
  if (!fold) return parts;
  std::vector<const Expr*> terms;
  add_conjuncts(fold->fold->where, terms);
  for (const Expr* term : terms) {
    const auto c = condition_of(ctx, *s.nest, fold, term);
    if (!c) continue;
    const Expr* results = ctx.floordiv(c->o->extent, ctx.integer(c->s));
    const int64_t longer = ctx.floormod(c->o->extent, ctx.integer(c->s))->i;
    if (longer) parts.push_back(phases(ctx, s, fold, *c, 0, longer, ctx.add(results, ctx.integer(1))));
    if (!results->is_int(0)) parts.push_back(phases(ctx, s, fold, *c, longer, c->s, results));
    return parts;
  }
  return parts;
}

}  // namespace

Status split_phases(ir::Context& ctx, nest::Function& f) {
  std::vector<nest::Statement> body;
  for (nest::Statement& whole : f.body) {
    std::vector<nest::Statement> parts;
    parts.push_back(std::move(whole));
    for (int axis = 0; axis < kMostAxes; ++axis) {
      std::vector<nest::Statement> finer;
      for (nest::Statement& s : parts) {
        std::vector<nest::Statement> split_here = split(ctx, s);
        if (split_here.empty()) split_here.push_back(std::move(s));
        std::move(split_here.begin(), split_here.end(), std::back_inserter(finer));
      }
      parts = std::move(finer);
    }
    std::move(parts.begin(), parts.end(), std::back_inserter(body));
  }
  f.body = std::move(body);
  return ok();
}

}  // namespace mlc::passes
