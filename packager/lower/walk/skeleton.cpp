#include <algorithm>
#include <unordered_set>

#include "packager/loop/verify.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

Skeleton::Skeleton(const Job& job) : b(job.ctx, kernel.body), ctx(job.ctx) {
  kernel.name = job.name;
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
}

void Skeleton::over_tiles(const std::vector<const Expr*>& extents, const std::vector<Axis>& axes,
                          const std::function<void(const std::vector<const Expr*>&, const std::vector<Range>&)>& body) {
  kernel.tiles = ctx.product(extents);
  std::vector<const Expr*> counts = extents, chunks(axes.size());
  for (size_t k = 0; k < axes.size(); ++k) {
    const Expr* units = axes[k].units;
    if (units->is_const() && units->i <= 1) {
      kernel.tiles = ctx.mul(kernel.tiles, units);
      counts.push_back(units);
      continue;
    }
    chunks[k] = ctx.fresh_var({DType::I64, 1});
    kernel.cuts.push_back({chunks[k], units, for_plan(axes[k].bytes ? axes[k].bytes : ctx.integer(0))});
    counts.push_back(b.let(ctx.ceildiv(units, chunks[k])));
  }
  b.with_for(kernel.tile_begin, kernel.tile_end, 1, [&](const Expr* t) {
    std::vector<const Expr*> index = decoded(t, counts);
    std::vector<Range> ranges;
    for (size_t k = 0; k < axes.size(); ++k) {
      if (!chunks[k]) {
        ranges.push_back({ctx.integer(0), axes[k].units});
        continue;
      }
      const Expr* begin = b.let(ctx.mul(index[extents.size() + k], chunks[k]));
      ranges.push_back({begin, b.let(ctx.min(ctx.add(begin, chunks[k]), axes[k].units))});
    }
    index.resize(extents.size());
    body(index, ranges);
  });
}

void Skeleton::over_turns(const std::vector<const Expr*>& extents, const Expr* turns, const Expr* parts,
                          const std::function<void(const std::vector<const Expr*>&, const Range&, const Range&)>& body) {
  kernel.tiles = ctx.product(extents);
  std::vector<const Expr*> counts;
  for (const Expr* units : {turns, parts}) {  // which may be the same
    kernel.cuts.push_back({ctx.fresh_var({DType::I64, 1}), units, ctx.integer(0), kernel.cuts.empty()});
    counts.push_back(b.let(ctx.ceildiv(units, kernel.cuts.back().chunk)));
  }
  counts.insert(counts.begin() + 1, extents.begin(), extents.end());
  b.with_for(kernel.tile_begin, kernel.tile_end, 1, [&](const Expr* t) {
    std::vector<const Expr*> at = decoded(t, counts);
    const auto range = [&](const Expr* chunk_number, size_t cut) {
      const Expr* begin = b.let(ctx.mul(chunk_number, kernel.cuts[cut].chunk));
      return Range{begin, b.let(ctx.min(ctx.add(begin, kernel.cuts[cut].chunk), kernel.cuts[cut].units))};
    };
    const Range of_turns = range(at.front(), 0), of_parts = range(at.back(), 1);
    body({at.begin() + 1, at.end() - 1}, of_turns, of_parts);
  });
}

void Skeleton::over_blocks(const std::vector<const Expr*>& extents, unsigned block,
                           const std::function<void(const std::vector<const Expr*>& at, const Expr* lane)>& body) {
  kernel.lanes = block;
  kernel.tiles = ctx.product(extents);
  b.with_for(kernel.tile_begin, kernel.tile_end, 1, [&](const Expr* tile) {
    loop::Stmt& lanes = b.append(loop::StmtKind::For);
    lanes.for_kind = loop::ForKind::Lanes;
    lanes.var = ctx.fresh_var({DType::I64, 1});
    lanes.begin = ctx.integer(0);
    lanes.end = ctx.integer(block);
    const Expr* lane = lanes.var;
    b.within(lanes.body, [&] { body(decoded(tile, extents), lane); });
  });
}

void Skeleton::over_lanes(const std::vector<const Expr*>& extents, unsigned block, const std::function<void(const std::vector<const Expr*>&)>& body) {
  const Expr *points = ctx.product(extents), *size = ctx.integer(block);
  over_blocks({ctx.ceildiv(points, size)}, block, [&](const std::vector<const Expr*>& at, const Expr* lane) {
    const Expr* point = b.let(ctx.add(ctx.mul(at[0], size), lane));
    const auto one = [&] { body(decoded(point, extents)); };
    if (ir::divisor_of(points) % block == 0) one();
    else b.with_if(ctx.binary(Op::Lt, point, points), one);
  });
}

uint32_t Skeleton::shared(std::string name, DType dtype, int64_t count) {
  const uint32_t number = scratch(std::move(name), dtype, ctx.integer(count));
  kernel.locals.back().space = loop::Space::Shared;
  return number;
}

std::vector<const Expr*> Skeleton::decoded(const Expr* tile, const std::vector<const Expr*>& counts) {
  std::vector<const Expr*> index(counts.size());
  const Expr* left = tile;
  size_t outermost = 0;
  while (outermost < counts.size() && counts[outermost]->is_int(1)) ++outermost;
  for (size_t k = counts.size(); k-- > 0;) {
    if (counts[k]->is_int(1)) {
      index[k] = ctx.integer(0);
    } else if (k == outermost) {
      index[k] = left;
    } else {
      // A tile exists, hence no extent is zero here; max says so where the hardware would trap.
      const Expr* n = ctx.max(counts[k], ctx.integer(1));
      index[k] = b.let(ctx.floormod(left, n));
      left = b.let(ctx.floordiv(left, n));
    }
  }
  return index;
}

const Expr* Skeleton::for_plan(const Expr* e) {
  if (const ir::Expr* known = ir::with_value(ctx, e)) return known;
  return ctx.integer(static_cast<int64_t>(std::clamp(estimate(e), 1.0, 1e9)));
}

const Expr* Skeleton::takes(double nanoseconds, const std::vector<const Expr*>& extents, const Expr* operations) {
  const Expr* all = ctx.number(nanoseconds, DType::F64);
  if (operations) all = ctx.binary(Op::Mul, all, operations);
  for (const Expr* e : extents) all = ctx.binary(Op::Mul, all, ctx.cast(DType::F64, for_plan(e)));
  return all;
}

uint32_t Skeleton::scratch(std::string name, DType dtype, const Expr* count) {
  kernel.locals.push_back({std::move(name), dtype, count, {}});
  return static_cast<uint32_t>(kernel.params.size() + kernel.locals.size() - 1);
}

const Expr* Skeleton::operations(const Expr* root) {
  std::unordered_map<const Expr*, const Expr*> known;
  const auto number = [&](double n) { return ctx.number(n, DType::F64); };
  ir::walk_past_extents(root, [&](const Expr* e) {
    const Expr* sum = number(cost_alone(e));
    if (e->op != Op::Load)  // addresses are cheap
      for (const Expr* a : e->args) sum = ctx.binary(Op::Add, sum, known.count(a) ? known.at(a) : number(0));
    if (e->op == Op::Fold)
      for (const ir::Dim* d : e->fold->dims) sum = ctx.binary(Op::Mul, sum, ctx.cast(DType::F64, for_plan(d->extent)));
    known[e] = sum;
  });
  return known.count(root) ? known.at(root) : number(0);
}

Range points_of(Skeleton& k, const Range& range, int64_t quantum, const Expr* extent) {
  if (quantum == 1) return range;
  const Expr* n = k.ctx.integer(quantum);
  return {k.b.let(k.ctx.mul(range.begin, n)), k.b.let(k.ctx.min(k.ctx.mul(range.end, n), extent))};
}

namespace {

void collect_symbols(const Expr* e, std::unordered_set<const Expr*>& seen, std::vector<const ir::Sym*>& out) {
  if (!e) return;
  std::vector<const Expr*> stack{e};
  while (!stack.empty()) {
    const Expr* x = stack.back();
    stack.pop_back();
    if (!seen.insert(x).second) continue;
    if (x->op == Op::Sym && std::find(out.begin(), out.end(), x->sym) == out.end()) out.push_back(x->sym);
    for (const Expr* a : x->args) stack.push_back(a);
  }
}

void collect_symbols(const std::vector<loop::StmtPtr>& block, std::unordered_set<const Expr*>& seen,
                     std::vector<const ir::Sym*>& out) {
  for (const loop::StmtPtr& s : block) {
    for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) collect_symbols(e, seen, out);
    for (const Expr* e : s->index) collect_symbols(e, seen, out);
    collect_symbols(s->body, seen, out);
    collect_symbols(s->orelse, seen, out);
  }
}

}  // namespace

Status Body::status() const {
  if (!error_.empty()) return Status(Code::Unsupported, error_);
  if (facts.overflow()) return Status(Code::Unsupported, "it has loops over more than 64 axes at once");
  return ok();
}

Result<loop::Kernel> Skeleton::finish(const Expr* work) {
  // A day is as good as more, and fits.
  if (work) kernel.work = ctx.cast(DType::I64, ctx.binary(Op::Min, work, ctx.number(86400e9, DType::F64)));
  std::unordered_set<const Expr*> seen;
  collect_symbols(kernel.tiles, seen, kernel.scalars);
  for (const loop::Cut& cut : kernel.cuts) collect_symbols(cut.units, seen, kernel.scalars);
  for (const loop::Param& p : kernel.params) collect_symbols(p.elements, seen, kernel.scalars);
  for (const loop::LocalArray& local : kernel.locals) collect_symbols(local.count, seen, kernel.scalars);
  collect_symbols(kernel.body, seen, kernel.scalars);
  MLC_RETURN_IF_ERROR(loop::verify(kernel));
  return std::move(kernel);
}

}  // namespace mlc::lower
