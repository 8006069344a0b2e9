#include "targets/gpu/ranges.h"

#include <algorithm>
#include <unordered_set>

#include "packager/ir/context.h"

namespace mlc::targets::gpu {

using ir::Expr;
using ir::Interval;
using ir::Op;

namespace {

constexpr Interval kNarrow{INT32_MIN, INT32_MAX};
constexpr int64_t kMostLanes = int64_t{1} << 31;  // of all blocks of a launch: their numbers fit in 32 bits
constexpr size_t kMostNarrow = 64;                // scalars that an entry can say it of

// A symbol, or the larger one of it and a number: of others, a part may be anything.
void add_symbol(const Expr* e, std::unordered_set<const ir::Sym*>& out) {
  if (e->op == Op::Max) e = e->args[0]->is_const() ? e->args[1] : e->args[1]->is_const() ? e->args[0] : e;
  if (e->op == Op::Sym) out.insert(e->sym);
}

void add_divisors(const Expr* e, std::unordered_set<const ir::Sym*>& out) {
  if (e)
    ir::walk(e, [&](const Expr* x) {
      if ((x->op == Op::FloorDiv || x->op == Op::FloorMod) && x->type.dtype == DType::I64) add_symbol(x->args[1], out);
    });
}

void add_bounds(const std::vector<loop::StmtPtr>& block, std::unordered_set<const ir::Sym*>& out) {
  for (const loop::StmtPtr& s : block) {
    if (s->kind == loop::StmtKind::For) add_symbol(s->end, out);
    for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) add_divisors(e, out);
    for (const Expr* e : s->index) add_divisors(e, out);
    add_bounds(s->body, out);
    add_bounds(s->orelse, out);
  }
}

}  // namespace

void Ranges::define(const loop::Stmt& s) {
  if (s.kind == loop::StmtKind::Let && s.value->type.dtype == DType::I64) bind(s.var, of(s.value));
  if (s.kind != loop::StmtKind::For) return;
  const int64_t first = of(s.begin).lo, end = of(s.end).hi;
  bind(s.var, {first, std::max(first, end == INT64_MAX ? end : end - 1)});
}

bool Ranges::fits(const Expr* e) { return e->type.dtype == DType::I64 && within(of(e), kNarrow); }

Demands demands_of(const loop::Kernel& kernel) {
  Demands d;
  std::unordered_set<const ir::Sym*> bounds;
  add_bounds(kernel.body, bounds);
  for (size_t k = 0; k < std::min(kMostNarrow, kernel.scalars.size()); ++k) {
    const ir::Sym* s = kernel.scalars[k];
    if (bounds.contains(s) && !within({s->lo, s->hi}, kNarrow)) d.narrow |= uint64_t{1} << k;
  }
  Ranges ranges;
  const int64_t most = kernel.lanes ? kMostLanes / kernel.lanes : 0;
  d.has_few_lanes = kernel.tiles && !kernel.tiles->is_const() && ranges.of(kernel.tiles).hi > most;
  return d;
}

Ranges ranges_under(const loop::Kernel& kernel, const Demands& demands) {
  Ranges ranges;
  for (size_t k = 0; k < std::min(kMostNarrow, kernel.scalars.size()); ++k) {
    const ir::Sym* s = kernel.scalars[k];
    if (demands.narrow >> k & 1) ranges.assume(s, {std::max(s->lo, kNarrow.lo), std::min(s->hi, kNarrow.hi)});
  }
  const int64_t tiles = kernel.tiles ? ranges.of(kernel.tiles).hi : INT64_MAX;
  const int64_t most = demands.has_few_lanes ? kMostLanes / kernel.lanes : int64_t{1} << 32;
  const int64_t end = std::clamp<int64_t>(tiles, 1, most);
  ranges.bind(kernel.tile_begin, {0, end - 1});
  ranges.bind(kernel.tile_end, {0, end});
  return ranges;
}

}  // namespace mlc::targets::gpu
