#include <set>

#include "packager/ir/broadcast.h"
#include "packager/nest/verify/verifier.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

std::vector<const Expr*> Verifier::conditions(int path) {
  std::vector<const Expr*> all = around_;  // what was checked before the first statement holds everywhere
  for (const Function::Check& c : function_.checks) all.push_back(c.condition);
  for (const Function::Definition& d : function_.definitions) all.push_back(ctx_.binary(Op::Eq, ctx_.sym(d.sym), d.value));
  for (; path >= 0; path = paths_[static_cast<size_t>(path)].parent) all.push_back(paths_[static_cast<size_t>(path)].condition);
  return all;
}

int Verifier::under(int path, const Expr* condition) {
  auto [it, fresh] = path_of_.try_emplace({path, condition}, static_cast<int>(paths_.size()));
  if (fresh) paths_.push_back({path, condition});
  return it->second;
}

void Verifier::ranges(const Expr* root, int path) {
  std::set<std::pair<const Expr*, int>> seen;
  std::vector<std::pair<const Expr*, int>> stack{{root, path}};
  while (!stack.empty() && seen.size() < 100000) {
    auto [e, at] = stack.back();
    stack.pop_back();
    if (!seen.insert({e, at}).second) continue;
    if (e->op == Op::Load && e->access == ir::Access::Proved && e->array < function_.arrays.size())
      in_range({e->args.begin(), e->args.end()}, function_.arrays[e->array], at, "index");
    if (e->op == Op::Select) {
      stack.push_back({e->args[0], at});
      stack.push_back({e->args[1], under(at, e->args[0])});
      stack.push_back({e->args[2], under(at, ctx_.logical_not(e->args[0]))});
    } else if (e->op == Op::And || e->op == Op::Or) {
      stack.push_back({e->args[0], at});
      stack.push_back({e->args[1], under(at, e->op == Op::And ? e->args[0] : ctx_.logical_not(e->args[0]))});
    } else {
      int inner = e->op == Op::Fold && e->fold->where ? under(at, e->fold->where) : at;
      for (const Expr* a : e->args) stack.push_back({a, inner});
      if (inner != at) stack.push_back({e->fold->where, at});
    }
  }
}

void Verifier::in_range(const std::vector<const Expr*>& index, const Array& a, int path, const std::string& what) {
  for (size_t i = 0; i < index.size() && i < a.shape.size(); ++i) {
    if (index[i]->op == Op::Dim && index[i]->dim->extent == a.shape[i]) continue;  // an empty dim has no points
    const auto given = conditions(path);
    const Expr* low = ctx_.binary(Op::Le, ctx_.integer(0), index[i]);
    const Expr* high = ctx_.binary(Op::Lt, index[i], a.shape[i]);
    // A loaded value in an index is not index arithmetic: nothing is proved about it.
    if (ir::proves(ctx_, low, given) && ir::proves(ctx_, high, given)) continue;
    // The condition of a run may be on the dim's extent, which is not in the index: that it is the axis' constant, say.
    if (index[i]->op == Op::Dim && ir::proves(ctx_, ctx_.binary(Op::Le, index[i]->dim->extent, a.shape[i]), given)) continue;
    if (ir::broadcast_in_range(ctx_, index[i], a.shape[i], given)) continue;
    if (place_in_range(index, a, i, given)) continue;
    say(what + " " + ir::to_string(index[i]).substr(0, 200) + " is not known to lie in axis " + std::to_string(i) + " of '" + a.name +
        "', which has " + ir::to_string(a.shape[i]).substr(0, 100));
  }
}

// Axes first..last hold one place taken apart: place // e % e, ..., place % e. If it lies in the product of their
// extents, none of which is negative, none is zero either, and each part lies in its axis.
bool Verifier::place_in_range(const std::vector<const Expr*>& index, const Array& a, size_t axis,
                    const std::vector<const Expr*>& given) {
  for (size_t last = axis; last < index.size(); ++last) {
    if (index[last]->op != Op::FloorMod || index[last]->args[1] != a.shape[last]) continue;
    const Expr *place = index[last]->args[0], *rest = place, *all = ctx_.integer(1);
    for (size_t first = last + 1; first-- > 0;) {
      if (ir::interval_of(a.shape[first]).lo < 0) break;
      all = ctx_.mul(all, a.shape[first]);
      const bool whole = index[first] == rest;
      if (whole && first <= axis)
        return ir::proves(ctx_, ctx_.binary(Op::Le, ctx_.integer(0), place), given) &&
               ir::proves(ctx_, ctx_.binary(Op::Lt, place, all), given);
      if (a.shape[first]->is_int(1) && index[first]->is_int(0)) continue;
      if (index[first] != ctx_.floormod(rest, a.shape[first])) break;
      rest = ctx_.floordiv(rest, a.shape[first]);
    }
  }
  return false;
}

}  // namespace mlc::nest
