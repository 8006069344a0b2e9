#include "packager/lower/device/group_values.h"

#include <algorithm>
#include <unordered_map>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr size_t kMostNodes = 2000;

// Each axis is a dim of its own, or has one element.
bool is_plain(const nest::Nest& nest) {
  if (nest.where || nest.scan_dim || nest.writes.size() != 1 || nest.writes[0].push) return false;
  std::vector<const ir::Dim*> seen;
  for (const Expr* e : nest.writes[0].index) {
    if (e->is_int(0)) continue;
    if (e->op != Op::Dim || std::find(seen.begin(), seen.end(), e->dim) != seen.end()) return false;
    seen.push_back(e->dim);
  }
  return seen.size() == nest.dims.size();
}

}  // namespace

const nest::Nest* GroupValues::writer_of(uint32_t array) const {
  for (size_t k = first_; k < last_; ++k)
    for (const nest::Write& w : group_.nests[k]->writes)
      if (w.array == array) return group_.nests[k];
  return nullptr;
}

bool GroupValues::are_private() const {
  for (size_t k = first_; k < last_; ++k) {
    const nest::Nest& nest = *group_.nests[k];
    if (!is_plain(nest)) return false;
    const auto local = std::find_if(group_.locals.begin(), group_.locals.end(), [&](const nest::Group::Local& l) { return l.array == nest.writes[0].array; });
    if (local == group_.locals.end() || local->last_reader > last_) return false;
  }
  return true;
}

const Expr* GroupValues::written_at(const Expr* load) const {
  if (load->op != Op::Load) return nullptr;
  const nest::Nest* nest = writer_of(load->array);
  if (!nest) return nullptr;
  const nest::Write& w = nest->writes[0];
  std::unordered_map<const Expr*, const Expr*> at;
  for (size_t axis = 0; axis < w.index.size(); ++axis)
    if (w.index[axis]->op == Op::Dim) at.emplace(w.index[axis], load->args[axis]);
  // A dim of the reader that is one of a fold inside would become part of it.
  bool captured = false;
  ir::walk(w.value, [&](const Expr* e) {
    if (e->op != Op::Fold) return;
    for (const ir::Dim* d : e->fold->dims)
      for (const Expr* arg : load->args) captured |= ir::depends_on(arg, ctx_.dim(d));
  });
  return captured ? nullptr : ctx_.substitute(w.value, at);
}

const Expr* GroupValues::resolved(const Expr* e) const {
  for (size_t round = first_; round <= last_ + 1; ++round) {
    bool changed = false;
    e = ctx_.rewrite(e, [&](const Expr* x) {
      const Expr* value = written_at(x);
      changed |= value != nullptr;
      return value;
    });
    size_t nodes = 0;
    ir::walk(e, [&](const Expr*) { ++nodes; });
    if (nodes > kMostNodes) return nullptr;
    if (changed) continue;
    bool rest = false;
    ir::walk(e, [&](const Expr* x) { rest |= x->op == Op::Load && writer_of(x->array); });
    return rest ? nullptr : e;
  }
  return nullptr;
}

}  // namespace mlc::lower
