// Axes that broadcast, numpy's way: what they broadcast to, and whether they fit.
#include <algorithm>
#include <set>

#include "packager/ir/broadcast.h"
#include "packager/lang/expand/expander.h"

namespace mlc::lang {

// Parameters with ~: a run of broadcasting dims between ordinary ones. Extents meet from the right.
void Expander::bind_broadcasts() {
  std::vector<Group> groups;
  for (size_t p = 0; p < op_.params.size(); ++p) {
    const Param& param = op_.params[p];
    const auto& specs = param.type.dims;
    if (std::none_of(specs.begin(), specs.end(), [](const auto& d) { return d.broadcast; })) continue;
    for (size_t item = 0; item < inputs_[p].size(); ++item)
      if (inputs_[p][item].present) groups.push_back(broadcast_group(param, item, function_.arrays[inputs_[p][item].array].shape));
  }
  // A pack that only broadcasting parameters mention is as long as the longest of them.
  std::set<std::string> ordinary = clause_dims_;
  for (const auto& p : op_.params)
    for (const auto& d : p.type.dims)
      if (!d.broadcast) ordinary.insert(d.name);
  for (const Group& g : groups)
    if (g.dims.size() == 1 && g.dims[0]->kind == DimSpec::Kind::Pack && !ordinary.count(g.dims[0]->name)) widen_pack(g);
  for (const Group& g : groups) check_broadcast(g);
}

// The axes of an input that broadcast; the ordinary dims around them are bound. Packs among those must be known by now.
Expander::Group Expander::broadcast_group(const Param& param, size_t item, const std::vector<Ex>& shape) {
  const auto& specs = param.type.dims;
  size_t begin = 0;
  while (!specs[begin].broadcast) ++begin;
  size_t end = begin;
  while (end < specs.size() && specs[end].broadcast) ++end;
  auto width = [&](size_t from, size_t to) {
    size_t w = 0;
    for (size_t k = from; k < to; ++k) {
      if (specs[k].kind != DimSpec::Kind::Pack) { ++w; continue; }
      auto r = rank_of_pack(specs[k].name);
      if (!r) fail_call(specs[k].pos, "the rank of " + specs[k].name + " does not follow from this call");
      w += *r;
    }
    return w;
  };
  const size_t left = width(0, begin), right = width(end, specs.size());
  const std::string name = item_name(param, item);
  if (left + right > shape.size()) wrong_rank("input " + name, shape.size(), left + right, true);
  bind_axes(param, shape, item, 0, begin, 0);
  bind_axes(param, shape, item, end, specs.size(), shape.size() - right);
  Group g{name, {}, {shape.begin() + static_cast<long>(left), shape.end() - static_cast<long>(right)}, left};
  for (size_t k = begin; k < end; ++k) g.dims.push_back(&specs[k]);
  return g;
}

void Expander::widen_pack(const Group& g) {
  const std::string& name = g.dims[0]->name;
  DimInfo& info = dim_info(name);
  info.pack = info.known = true;
  if (g.actual.size() > info.extents.size()) {
    const size_t grow = g.actual.size() - info.extents.size();
    info.extents.insert(info.extents.begin(), grow, ctx_.integer(1));
    info.origins.insert(info.origins.begin(), grow, g.name);
  }
  pack_ranks_[name] = info.extents.size();
  for (size_t k = 0; k < g.actual.size(); ++k) {
    const size_t at = info.extents.size() - g.actual.size() + k;
    const std::string origin = axis_of(g.first + k, g.name);
    const Ex both = broadcast(info.extents[at], g.actual[k], "broadcast of " + name, info.origins[at], origin);
    if (both == g.actual[k] && both != info.extents[at]) info.origins[at] = origin;
    info.extents[at] = both;
  }
}

// Where the dims were known before, against them; those that a clause sets are checked when arrays are made.
void Expander::check_broadcast(const Group& g) {
  std::vector<Ex> full;
  for (const DimSpec* d : g.dims) {
    if (clause_dims_.count(d->name)) return;
    if (!dim_info(d->name).known) {
      if (d->kind != DimSpec::Kind::Dim || g.dims.size() != 1 || g.actual.size() > 1)
        fail_call(d->pos, "the extent of " + d->name + " does not follow from this call");
      bind_extent(d->name, 0, g.actual.empty() ? ctx_.integer(1) : g.actual[0], axis_of(g.first, g.name));
    }
    for (Ex e : dim_info(d->name).extents) full.push_back(e);
  }
  if (g.actual.size() > full.size())
    mismatch("input " + g.name + " has " + std::to_string(g.actual.size()) + " axes that broadcast, at most " +
             std::to_string(full.size()) + " are possible");
  const size_t shift = full.size() - g.actual.size();
  for (size_t k = 0; k < g.actual.size(); ++k)
    broadcast_to(full[shift + k], g.actual[k], "input " + g.name + " does not broadcast", "extent of the result", axis_of(g.first + k, g.name));
}

Ex Expander::known_equal(Ex a, Ex b) const {
  if (a == b) return a;
  const Ex equal = ctx_.binary(ir::Op::Eq, a, b);
  for (const auto& c : function_.checks)
    if (c.condition == equal) return a->is_const() || (!b->is_const() && ir::compare(a, b) < 0) ? a : b;
  return nullptr;
}

Ex Expander::broadcast(Ex a, Ex b, const std::string& what, const std::string& origin_a, const std::string& origin_b) {
  if (a == b || b->is_int(1)) return a;
  if (a->is_int(1)) return b;
  if (Ex one = known_equal(a, b)) return one;
  if ((!ir::can_be_one(ctx_, a) && !ir::can_be_one(ctx_, b)) || !ir::may_differ_by_one(a, b)) return unify(a, b, what, origin_a, origin_b);
  require(ir::broadcast_condition(ctx_, a, b),
          what + ": " + shown(a) + " (" + origin_a + ") and " + shown(b) + " (" + origin_b + ") differ and neither is 1");
  const Ex both = ir::broadcast_extent(ctx_, a, b);
  for (Ex e : {a, b})
    if (known_equal(both, e)) return e;
  return both;
}

Ex Expander::broadcast_to(Ex full, Ex actual, const std::string& what, const std::string& origin_full, const std::string& origin_actual,
                          Ex* step) {
  if (actual == full || actual->is_int(1) || known_equal(full, actual)) return full;
  const bool is_term = ir::broadcast_extent(ctx_, full, actual) == full && ir::broadcast_condition(ctx_, full, actual)->is_int(1);
  if (!is_term && (!ir::can_be_one(ctx_, actual) || !ir::may_differ_by_one(full, actual)))
    return unify(full, actual, what, origin_full, origin_actual);
  if (step) *step = ir::broadcast_step(ctx_, actual);
  if (!is_term)
    require(ctx_.binary(ir::Op::Or, ctx_.binary(ir::Op::Eq, full, actual), ctx_.binary(ir::Op::Eq, actual, ctx_.integer(1))),
            what + ": " + shown(actual) + " (" + origin_actual + ") is neither 1 nor " + shown(full) + " (" + origin_full + ")");
  return full;
}

}  // namespace mlc::lang
