#include <algorithm>

#include "packager/nest/proc.h"
#include "packager/nest/verify/verifier.h"

namespace mlc::nest {

using ir::Expr;

Verifier::Dims Verifier::bind(const std::vector<const ir::Dim*>& dims) {
  Dims bound;
  for (const ir::Dim* d : dims)
    if (!bound.insert(d).second) say("dim '" + d->name + "' is bound twice");
  return bound;
}

// An array that a nest or a proc writes.
void Verifier::result(uint32_t number, bool may_be_derived) {
  const Array& a = function_.arrays[number];
  if (may_be_derived ? !a.is_result() : a.kind != Array::Kind::Temp) say("'" + a.name + "' is written but is no result");
  if (a.list_depth) say("the list '" + a.name + "' is written as an array");
  if (state_[number].read) say("'" + a.name + "' is written after it was read");
}

void Verifier::nest(const Nest& n) {
  const Dims bound = bind(n.dims);
  for (const ir::Dim* d : n.dims) extent(d->extent, "extent of dim '" + d->name + "'");
  if (n.scan_dim && (!bound.contains(n.scan_dim) || !n.scan_combiner)) say("the scanned dim is none of the nest's");
  if (n.where) {
    if (n.where->type != ir::Type{DType::Bool, 1}) say("the condition is not Bool");
    check({n.where}, bound);
  }
  if (n.writes.empty()) say("writes nothing");
  for (const Write& w : n.writes)
    if (known(w.array)) write(n, w, bound);
  const bool empty = std::any_of(n.dims.begin(), n.dims.end(), [](const ir::Dim* d) { return d->extent->is_int(0); });
  if (options_.ranges && !empty) {
    const int path = n.where ? under(-1, n.where) : -1;
    if (n.where) ranges(n.where, -1);
    for (const Write& w : n.writes)
      if (!w.push && w.array < function_.arrays.size()) in_range(w.index, function_.arrays[w.array], path, "written index");
    for (const Write& w : n.writes) ranges(w.value, path);
  }
  for (const Write& w : n.writes) finish({w.array});
}

void Verifier::write(const Nest& n, const Write& w, const Dims& bound) {
  const Array& a = function_.arrays[w.array];
  result(w.array, /*may_be_derived=*/true);
  if (w.index.size() != a.shape.size()) say("'" + a.name + "' is written with " + std::to_string(w.index.size()) + " indices");
  if (w.value->type != ir::Type{a.dtype, 1})
    say("'" + a.name + "' is " + std::string(name_of(a.dtype)) + ", written as " + std::string(name_of(w.value->type.dtype)));
  for (const Expr* e : w.index) {
    if (e->type != ir::Type{DType::I64, 1}) say("an index of '" + a.name + "' is not i64");
    check({e}, bound);
  }
  check({w.value}, bound);
  if (w.push) {
    if (w.join == ir::Join::Custom) say("a push combines with a built-in join");
    return;
  }
  for (const ir::Dim* d : n.dims) {
    bool used = d->extent->is_int(1);
    for (const Expr* e : w.index) used = used || ir::depends_on(e, ctx_.dim(d));
    if (!used) say("'" + a.name + "' is written by every point of dim '" + d->name + "'");
  }
}

void Verifier::proc(const Proc& p) {
  const Dims bound = bind(p.dims);
  own_results_.clear();
  for (uint32_t a : p.writes) {
    if (!known(a)) continue;
    result(a, /*may_be_derived=*/false);
    own_results_.insert(a);
  }
  locals_ = &p.locals;
  block(p.body, p, bound);
  locals_ = nullptr;
  for (uint32_t a : own_results_) state_[a].read = false;
  own_results_.clear();
  finish(p.writes);
}

void Verifier::block(const std::vector<loop::StmtPtr>& body, const Proc& p, const Dims& bound) {
  for (const loop::StmtPtr& s : body) {
    for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value})
      if (e) check({e}, bound);
    for (const Expr* e : s->index) check({e}, bound);
    statement(*s, p);
    block(s->body, p, bound);
    block(s->orelse, p, bound);
  }
}

void Verifier::statement(const loop::Stmt& s, const Proc& p) {
  switch (s.kind) {
    case loop::StmtKind::For:
      if (!s.var || !s.begin || !s.end || s.step < 1) say("a loop has a variable, bounds and a positive step");
      return;
    case loop::StmtKind::While:
      if (!s.cond || !s.bound) say("a while has a condition and a bound");
      return;
    case loop::StmtKind::If: case loop::StmtKind::Fault:
      if (!s.cond) say("an if has a condition");
      return;
    case loop::StmtKind::Barrier: case loop::StmtKind::ClusterBarrier: case loop::StmtKind::Peer: case loop::StmtKind::LoadMatrices: case loop::StmtKind::FoldLanes: case loop::StmtKind::Mma: case loop::StmtKind::GroupMma: case loop::StmtKind::Matrix: case loop::StmtKind::Tiles: return say("barriers are for kernels");
    case loop::StmtKind::Copy: case loop::StmtKind::CloseCopies: case loop::StmtKind::WaitCopies: return say("copies are for kernels");
    case loop::StmtKind::Prefetch: return say("prefetches are for kernels");
    case loop::StmtKind::Let: case loop::StmtKind::Assign: case loop::StmtKind::Local:
      if (!s.var || s.var->op != ir::Op::Var || (s.kind != loop::StmtKind::Local && !s.value)) say("a variable has a value");
      else if (s.value && s.value->type != s.var->type) say("a variable is given a value of another type");
      return;
    case loop::StmtKind::Store: return store(s, p);
  }
}

void Verifier::store(const loop::Stmt& s, const Proc& p) {
  size_t rank = 0;
  DType dtype = DType::None;
  if (s.array >= kFirstLocal && s.array - kFirstLocal < p.locals.size()) {
    const loop::LocalArray& a = p.locals[s.array - kFirstLocal];
    rank = a.shape.size(), dtype = a.dtype;
  } else {
    if (std::find(p.writes.begin(), p.writes.end(), s.array) == p.writes.end())
      return say("stores to %" + std::to_string(s.array) + ", which is neither a result nor a local");
    if (!known(s.array)) return;
    const Array& a = function_.arrays[s.array];
    rank = a.shape.size(), dtype = a.dtype;
  }
  if (s.index.size() != rank || !s.value || s.value->type.dtype != dtype) say("a store does not fit its array");
}

}  // namespace mlc::nest
