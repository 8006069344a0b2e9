// A dim that is taken apart by divisions becomes several dims. Reshape of free extents reads x[.., i // w % h, i % w] for i < c*h*w:
// as a nest over c, h and w it divides nothing, and what is contiguous is seen to. Only where a divisor is an extent that the run
// decides, or a number of which vectors along the dim would not stay within one quotient: other divisions are cheap. The array that is written keeps its axis, whose index becomes (c*h + h')*w + w'.
#include "packager/passes/simplify/split.h"

#include <algorithm>

#include "packager/nest/facts/positive.h"
#include "packager/passes/all.h"

namespace mlc::passes {

using ir::Op;

namespace {

constexpr int64_t kVector = 16, kLeastPiece = 8;  // elements

// What i is divided by in `e`.
std::vector<const Expr*> divisors_of(ir::Context& ctx, const std::vector<const Expr*>& roots, const Expr* i) {
  std::vector<const Expr*> found;
  const auto add = [&](const Expr* d) {
    if (!d->is_int(1) && std::find(found.begin(), found.end(), d) == found.end()) found.push_back(d);
  };
  for (const Expr* root : roots)
    ir::walk(root, [&](const Expr* e) {
      if ((e->op != Op::FloorDiv && e->op != Op::FloorMod) || e->type.dtype != DType::I64) return;
      const Expr* x = e->args[0];
      if (x == i) add(e->args[1]);
      else if (e->op == Op::FloorMod && x->op == Op::FloorDiv && x->args[0] == i) add(ctx.mul(x->args[1], e->args[1]));
    });
  return found;
}

// The extents of the dims that i < extent becomes, the innermost first; empty: the divisors do not divide each other.
std::vector<const Expr*> parts(ir::Context& ctx, std::vector<const Expr*> divisors, const Expr* extent) {
  std::erase(divisors, extent);
  divisors.push_back(extent);
  std::vector<const Expr*> found;
  const Expr* before = ctx.integer(1);
  while (!divisors.empty()) {
    const auto next = std::find_if(divisors.begin(), divisors.end(), [&](const Expr* d) {
      return std::all_of(divisors.begin(), divisors.end(), [&](const Expr* other) { return ctx.floormod(other, d)->is_int(0); });
    });
    if (next == divisors.end() || !ctx.floormod(*next, before)->is_int(0)) return {};
    found.push_back(ctx.floordiv(*next, before));
    before = *next;
    divisors.erase(next);
  }
  return found;
}

// Whether vectors along `i`, the last index of what is written, would hold numbers of several quotients, which are not contiguous in what is
// read, but those of one quotient are contiguous.
bool tears_vectors(ir::Context& ctx, const nest::Nest& nest, const Expr* i, const std::vector<const Expr*>& divisors) {
  if (nest.writes.size() != 1 || nest.scan_dim || nest.writes[0].index.empty() || nest.writes[0].index.back() != i) return false;
  for (const Expr* d : divisors) {
    if (!d->is_const() || d->i < kLeastPiece || d->i % kVector == 0) continue;
    const Expr* rest = ctx.floormod(i, d);
    bool found = false;
    ir::walk(nest.writes[0].value, [&](const Expr* e) { found |= e->op == Op::Load && !e->args.empty() && e->args.back() == rest; });
    if (found) return true;
  }
  return false;
}

void split_statement(ir::Context& ctx, const nest::Function& f, nest::Statement& s) {
  const nest::Positive positive(ctx, *s.nest, &f);
  std::vector<const Expr*> roots;
  for_roots(s, [&](const Expr* e) { roots.push_back(positive.there(e)); });
  std::vector<const ir::Dim*> dims;
  std::unordered_map<const Expr*, const Expr*> replaced;
  for (const ir::Dim* d : s.nest->dims) {
    const Expr* i = positive.there(ctx.dim(d));
    const std::vector<const Expr*> divisors = divisors_of(ctx, roots, i);
    const bool worth = std::any_of(divisors.begin(), divisors.end(), [](const Expr* e) { return !e->is_const(); }) || tears_vectors(ctx, *s.nest, ctx.dim(d), divisors);
    const std::vector<const Expr*> extents = worth && d != s.nest->scan_dim ? parts(ctx, divisors, i->dim->extent) : std::vector<const Expr*>{};
    if (extents.size() < 2) {
      dims.push_back(d);
      continue;
    }
    const Expr *place = ctx.integer(0), *weight = ctx.integer(1);
    std::vector<const ir::Dim*> inner_first;
    for (const Expr* extent : extents) {
      inner_first.push_back(ctx.declare_dim(d->name, positive.extent_back(extent)));
      place = ctx.add(place, ctx.mul(ctx.dim(inner_first.back()), positive.extent_back(weight)));
      weight = ctx.mul(weight, extent);
    }
    dims.insert(dims.end(), inner_first.rbegin(), inner_first.rend());
    replaced.emplace(ctx.dim(d), place);
  }
  if (replaced.empty()) return;
  s.nest->dims = std::move(dims);
  const nest::Positive of_parts(ctx, *s.nest, &f);
  map_roots(s, [&](const Expr* e) { return of_parts.back(of_parts.there(ctx.substitute(e, replaced))); });
}

bool divides(const nest::Statement& s) {
  bool found = false;
  for_roots(s, [&](const Expr* root) {
    ir::walk(root, [&](const Expr* e) { found |= (e->op == Op::FloorDiv || e->op == Op::FloorMod) && e->type.dtype == DType::I64; });
  });
  return found;
}

}  // namespace

bool divides_by_extents(const nest::Statement& s) {
  bool found = false;
  for_roots(s, [&](const Expr* root) {
    ir::walk(root, [&](const Expr* e) { found |= (e->op == Op::FloorDiv || e->op == Op::FloorMod) && e->type.dtype == DType::I64 && !e->args[1]->is_const(); });
  });
  return found;
}

Status split_dims(ir::Context& ctx, nest::Function& f) {
  for (nest::Statement& s : f.body)
    if (s.nest && divides(s) && std::none_of(s.nest->writes.begin(), s.nest->writes.end(), [](const nest::Write& w) { return w.push; }))
      split_statement(ctx, f, s);
  return ok();
}

}  // namespace mlc::passes
