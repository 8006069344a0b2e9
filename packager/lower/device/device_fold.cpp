// Subgroup reductions (vulkan-subgroup): long folds have one workgroup per output element. Each lane folds
// every 128th element, so neighbours read neighbours; the lanes' partial results are reduced in an order that no device changes
// (loop::StmtKind::FoldLanes), and the first lane does the rest of the point and writes.
//
// Without it a lane folds all of its row, at a distance of a row from its neighbour; where there are few rows, chunks are a launch of their own.
#include <algorithm>

#include "packager/lower/device/lanes.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Join;
using ir::Op;

namespace {


double points(const std::vector<const ir::Dim*>& dims) {
  double product = 1;
  for (const ir::Dim* d : dims) product *= estimate(d->extent);
  return product;
}

// The dim that lanes share: the longest.
const ir::Dim* spread_dim(const Expr* fold) {
  const auto& dims = fold->fold->dims;
  return *std::max_element(dims.begin(), dims.end(), [](const ir::Dim* a, const ir::Dim* b) { return estimate(a->extent) < estimate(b->extent); });
}

// Folds of the value, and which of them lanes may share.
class FoldSearch {
 public:
  FoldSearch(const Job& job, const FlatNest& nest) : job_(job), n_(nest) {
    for (const ir::Dim* d : nest.dims) ours_ |= facts_.bit(d);
  }

  std::vector<const Expr*> run() {
    if (!job_.target.folds_lanes || !n_.kept.empty() || n_.where || n_.scan_dim || n_.writes.size() != 1 || n_.writes[0].push || n_.writes[0].in_range) return {};
    const Expr* value = n_.writes[0].value;
    std::vector<const Expr*> found;
    bool faults = false;
    ir::walk(value, [&](const Expr* e) {
      faults |= e->op == Op::Load && e->access == Access::Checked;
      if (e->op == Op::Fold && is_unconditional(value, e) && suits(e)) found.push_back(e);
    });
    if (faults) return {};
    return found;
  }

 private:
  bool suits(const Expr* e) {
    const ir::Fold& fold = *e->fold;
    const double block = job_.target.block_lanes;
    const targets::DeviceRow& machine = job_.device();
    if (e->args.size() != 1 || !fold.combiner->commutative || !lanes_op(fold.combiner->join)) return false;
    if (points(n_.dims) < machine.few_blocks && points(fold.dims) > machine.block_fold_points) return false;
    // What several points share is theirs together: a block for each of them would fold it again.
    if (facts_.dims(e) != ours_ || points(fold.dims) < machine.lane_fold_points || estimate(spread_dim(e)->extent) < 2 * block) return false;
    bool plain = true, together = true;
    ir::walk(e->args[0], [&](const Expr* x) {
      plain &= x->op != Op::Fold;
      if (x->op == Op::Load && facts_.depends(x, spread_dim(e))) together &= is_contiguous(job_.ctx, x->args[0], spread_dim(e));
    });
    return plain && (together || points(n_.dims) < machine.busy_points);
  }

  const Job& job_;
  const FlatNest& n_;
  Facts facts_;
  DimSet ours_ = 0;
};

class BlockFold final : public Stage {
 public:
  BlockFold(const Job& job, const FlatNest& nest, Skeleton& k, const schedule::Schedule& how, std::vector<const Expr*> folds)
      : Stage(job, nest, k), folds_(std::move(folds)) {
    schedule = mlc::schedule::print(how);
    for (const ir::Dim* d : n_.dims) grid.push_back(d->extent);
    if (grid.empty()) grid.push_back(ctx_.integer(1));
    work = k_.takes(job_.operation_ns(), grid, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    for (size_t k = 0; k < n_.dims.size(); ++k) s_.bind(n_.dims[k], at[k]);
    const ir::Dim* lane_dim = ctx_.declare_dim("lane", ctx_.integer(job_.target.block_lanes));
    s_.bind(lane_dim, lane);
    for (const Expr* fold : folds_) {
      const Expr* mine = s_.value(share_of(fold, ctx_.dim(lane_dim)));
      if (!s_.error().empty()) return;
      s_.define(fold, k_.b.fold_lanes(*lanes_op(fold->fold->combiner->join), mine));
    }
    k_.b.with_if(ctx_.binary(Op::Eq, lane, ctx_.integer(0)), [&] { s_.scoped([&] { emit_writes(s_, k_.b, n_, nullptr); }); });
  }

  // Every so many elements from the lane's own on.
  const Expr* share_of(const Expr* fold, const Expr* lane) {
    const ir::Dim* k = spread_dim(fold);
    const int64_t lanes = job_.target.block_lanes;
    const ir::Dim* turn = ctx_.declare_dim(k->name + "1", ctx_.ceildiv(k->extent, ctx_.integer(lanes)));
    const Expr* at = ctx_.add(ctx_.mul(ctx_.dim(turn), ctx_.integer(lanes)), lane);
    const bool exact = k->extent->is_const() && k->extent->i % lanes == 0;
    const auto moved = [&](const Expr* e) { return ctx_.substitute(exact ? e : guarded(ctx_, s_.facts, e, k), {{ctx_.dim(k), at}}); };
    ir::Fold share = *fold->fold;
    std::replace(share.dims.begin(), share.dims.end(), k, turn);
    const Expr* where = exact ? nullptr : ctx_.binary(Op::Lt, at, k->extent);
    share.where = share.where ? ctx_.logical_and(where, moved(share.where)) : where;
    return ctx_.fold(std::move(share), {moved(fold->args[0])});
  }

  const std::vector<const Expr*> folds_;
};

}  // namespace

std::optional<Schedules> device_folds(const Job& job, const FlatNest& nest) {
  std::vector<const Expr*> folds = FoldSearch(job, nest).run();
  // Lines read several elements at once, where the target can.
  if (folds.empty() || (job.target.access_bytes > 0 && device_lines(job, nest))) return std::nullopt;
  Schedules s;
  s.space.family = schedule::Family::Fold;
  s.space.block = job.target.block_lanes;
  schedule::Schedule how;
  how.family = schedule::Family::Fold;
  how.block = job.target.block_lanes;
  how.vector_bytes = job.vector_bytes();
  DimNames names;
  for (const ir::Dim* d : nest.dims) {
    schedule::Space::Dim& dim = s.space.dims.emplace_back();
    dim.name = names.add(d);
    dim.extent = d->extent->is_const() ? d->extent->i : -1;
    dim.cut = true;
    how.loops.push_back({.dim = dim.name, .bind = schedule::Bind::Grid});
  }
  s.ranked.push_back(std::move(how));
  s.build = [&job, &nest, folds](Skeleton& k, const schedule::Schedule& chosen) -> StagePtr { return std::make_unique<BlockFold>(job, nest, k, chosen, folds); };
  return s;
}

}  // namespace mlc::lower
