// Folds of devices whose lanes are shared, in two forms. Where loads are contiguous along the fold (vulkan-subgroup), long folds have one workgroup
// per output element. Each lane folds every 128th element, so neighbours read neighbours; the lanes' partial results are reduced in an order that
// no device changes (loop::StmtKind::FoldLanes), and the first lane does the rest of the point and writes.
//
// Where loads are contiguous along the points (mean of tokens, global pooling of channels-last pictures), few points would leave most lanes idle if each
// had one of its own. A block has 32 neighbouring points times some slices of the fold; partial results of the slices pass through memory
// that the lanes share, and the first 32 lanes join them, slice by slice, and write. Any device can do that.
//
// Without either a lane folds all of its row, at a distance of a row from its neighbour; where there are few rows, chunks are a launch of their own.
#include <algorithm>
#include <cmath>

#include "packager/ir/typical.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Join;
using ir::Op;

namespace {

constexpr int64_t kColumns = 32;            // of a block: the lanes of a warp read as many neighbours
constexpr double kLeastColumns = 16;        // fewer leave most of these lanes without a point
constexpr int64_t kMostSlices = 16;
// Steps of a slice whose loads are under way together. A slice has so many at least, or joining slices takes as long as they save.
constexpr unsigned kLeastAtOnce = 4, kMostAtOnce = 8;
constexpr size_t kMostLoaded = 40;          // elements that a lane has loaded ahead
constexpr size_t kMostRanked = 2;
constexpr size_t kMostFolds = 4;            // of one value: each has memory of its own
constexpr unsigned kMostLanesOfDevice = 512;  // every device by PTX has blocks of 1,024 lanes, by Vulkan not every one of more than 128

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

// Folds of few points whose loads lie together along the points.
struct Columns {
  const ir::Dim* dim = nullptr;    // along which the write is contiguous
  double others = 1;               // points of the other dims
  std::vector<const Expr*> folds;  // all of the value
  double longest = 0;              // points of a fold
  bool is_known = true;            // all of their extents are constants
};

class ColumnSearch {
 public:
  ColumnSearch(const Job& job, const FlatNest& nest) : ctx_(job.ctx), machine_(job.device()), n_(nest) {}

  std::optional<Columns> run() {
    if (!n_.kept.empty() || n_.where || n_.scan_dim || n_.cluster || n_.writes.size() != 1 || n_.writes[0].push || n_.writes[0].in_range) return std::nullopt;
    found_.dim = contiguous_dim(ctx_, n_);
    if (!found_.dim || estimate(found_.dim->extent) < kLeastColumns) return std::nullopt;
    // A batch that only the run knows is one picture or text; of many, blocks of columns are as good as a lane for each point.
    for (const ir::Dim* d : n_.dims)
      if (d != found_.dim) found_.others *= d == n_.dims[0] ? static_cast<double>(ir::typical(d->extent, ir::Guess::Batch).value_or(1)) : estimate(d->extent);
    if (found_.others * estimate(found_.dim->extent) >= machine_.busy_points) return std::nullopt;
    const Expr* value = n_.writes[0].value;
    bool all = true;
    ir::walk(value, [&](const Expr* e) {
      all &= e->op != Op::Load || e->access != Access::Checked;  // lanes that wait for each other cannot stop at a fault
      if (e->op != Op::Fold) return;
      all = all && is_unconditional(value, e) && suits(e);
      found_.folds.push_back(e);
      found_.longest = std::max(found_.longest, points(e->fold->dims));
      for (const ir::Dim* d : e->fold->dims) found_.is_known &= d->extent->is_const();
    });
    return all && !found_.folds.empty() && found_.folds.size() <= kMostFolds ? std::optional(found_) : std::nullopt;
  }

 private:
  bool suits(const Expr* e) {
    const ir::Fold& fold = *e->fold;
    if (e->args.size() != 1 || !fold.combiner->commutative || !lanes_op(fold.combiner->join)) return false;
    const unsigned bits = bits_of(e->type.dtype);
    if (bits != 32 && bits != 64) return false;
    const double steps = points(fold.dims);
    if (steps < machine_.shared_fold_points || steps >= machine_.cut_fold_points) return false;
    bool together = facts_.depends(e, found_.dim);
    ir::walk(e, [&](const Expr* x) {
      together &= x == e || x->op != Op::Fold;
      if (x->op == Op::Load && facts_.depends(x, found_.dim)) together &= is_contiguous(ctx_, x->args[0], found_.dim);
    });
    return together;
  }

  ir::Context& ctx_;
  const targets::DeviceRow& machine_;
  const FlatNest& n_;
  Facts facts_;
  Columns found_;
};

class ColumnFold final : public Stage {
 public:
  ColumnFold(const Job& job, const FlatNest& nest, Skeleton& k, Columns columns, const schedule::Schedule& how)
      : Stage(job, nest, k), columns_(std::move(columns)), slices_(how.tile.depth), copies_(how.tile.copies) {
    schedule = mlc::schedule::print(how);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : n_.dims) {
      extents.push_back(d->extent);
      grid.push_back(d == columns_.dim ? ctx_.ceildiv(d->extent, ctx_.integer(kColumns)) : d->extent);
    }
    work = k_.takes(job_.operation_ns(), extents, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    const Expr *width = ctx_.integer(kColumns), *extent = columns_.dim->extent, *column = nullptr;
    for (size_t k = 0; k < n_.dims.size(); ++k) {
      if (n_.dims[k] == columns_.dim) column = k_.b.let(ctx_.add(ctx_.mul(at[k], width), ctx_.floormod(lane, width)));
      else s_.bind(n_.dims[k], at[k]);
    }
    const bool whole = ir::divisor_of(extent) % kColumns == 0;
    // What has no column of its own reads the last one: all lanes come to the barrier.
    s_.bind(columns_.dim, whole ? column : k_.b.let(ctx_.min(column, ctx_.sub(extent, ctx_.integer(1)))));
    const Expr* slice = k_.b.let(ctx_.floordiv(lane, width));
    std::vector<uint32_t> memory;
    for (const Expr* fold : columns_.folds) {
      const Expr* mine = k_.b.local(s_.value(unit_of(ctx_, *fold->fold->combiner, 0, fold->type.dtype)));
      const std::vector<const ir::Dim*> shared = dims_of(fold);
      std::vector<const ir::Dim*> others;
      for (const ir::Dim* d : fold->fold->dims)
        if (std::find(shared.begin(), shared.end(), d) == shared.end()) others.push_back(d);
      over(others, [&] { fold_slice(fold, shared, slice, mine); });
      if (!s_.error().empty()) return;
      memory.push_back(k_.shared("fold", fold->type.dtype, kColumns * slices_));
      k_.b.store(memory.back(), lane, mine);
    }
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* writes = ctx_.binary(Op::Lt, lane, width);
    k_.b.with_if(whole ? writes : s_.both(writes, ctx_.binary(Op::Lt, column, extent)), [&] {
      s_.scoped([&] {
        for (size_t k = 0; k < memory.size(); ++k) s_.define(columns_.folds[k], joined(columns_.folds[k], memory[k], lane));
        emit_writes(s_, k_.b, n_, nullptr);
      });
    });
  }

  void over(std::vector<const ir::Dim*> dims, const std::function<void()>& body) {
    if (dims.empty()) return body();
    const ir::Dim* d = dims.front();
    dims.erase(dims.begin());
    s_.with_for(d, ctx_.integer(0), d->extent, 1, [&] { over(dims, body); });
  }

  // Joins every so many points of `dims` from the slice's own on to `sum`: in whole turns, of whose points all loads are under way before the first one
  // is joined, then what is left. No condition stands around a turn, or its loads would be made behind that, one point after the other.
  void fold_slice(const Expr* fold, const std::vector<const ir::Dim*>& dims, const Expr* slice, const Expr* sum) {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : dims) extents.push_back(d->extent);
    const Expr* all = ctx_.product(extents);
    const Expr* turn = ctx_.integer(slices_ * copies_);
    const Expr* whole = k_.b.let(ctx_.mul(ctx_.floordiv(all, turn), turn));
    const std::vector<const Expr*> loads = loads_ahead(fold, dims);
    const auto at_point = [&](const std::vector<const Expr*>& index, const std::function<void()>& body) {
      s_.scoped([&] {
        for (size_t k = 0; k < dims.size(); ++k) s_.bind(dims[k], index[k]);
        body();
      });
    };
    k_.b.with_rolled_for(ctx_.integer(0), whole, turn->i, [&](const Expr* first) {
      std::vector<std::vector<const Expr*>> index, loaded(static_cast<size_t>(copies_));
      for (std::vector<const Expr*>& values : loaded) {
        const int64_t step = static_cast<int64_t>(index.size()) * slices_;
        index.push_back(k_.decoded(k_.b.let(ctx_.add(ctx_.add(first, slice), ctx_.integer(step))), extents));
        at_point(index.back(), [&] {
          for (const Expr* load : loads) values.push_back(k_.b.let(s_.value(load)));
        });
      }
      for (size_t u = 0; u < index.size(); ++u)
        at_point(index[u], [&] {
          for (size_t k = 0; k < loads.size(); ++k) s_.define(loads[k], loaded[u][k]);
          join_point(fold, sum);
        });
    });
    if (all->is_const() && all->i % turn->i == 0) return;
    k_.b.with_for(ctx_.add(whole, slice), all, slices_, [&](const Expr* point) { at_point(k_.decoded(point, extents), [&] { join_point(fold, sum); }); });
  }

  void join_point(const Expr* fold, const Expr* sum) {
    const auto join = [&] { k_.b.assign(sum, s_.join(*fold->fold->combiner, {sum}, {s_.value(fold->args[0])})[0]); };
    if (!fold->fold->where) return join();
    k_.b.with_if(s_.value(fold->fold->where), [&] { s_.scoped(join); });
  }

  // What moves along the fold and may be loaded at each of its points, if registers have room for it.
  std::vector<const Expr*> loads_ahead(const Expr* fold, const std::vector<const ir::Dim*>& dims) {
    std::vector<const Expr*> loads;
    if (fold->fold->where || s_.facts.needs_guard(fold->args[0])) return loads;
    ir::walk(fold->args[0], [&](const Expr* e) {
      const bool moves = std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return s_.facts.depends(e, d); });
      if (e->op == Op::Load && moves) loads.push_back(e);
    });
    if (loads.size() * static_cast<size_t>(copies_) > kMostLoaded) loads.clear();
    return loads;
  }

  // As one index, if the division by their extents is by constants.
  static std::vector<const ir::Dim*> dims_of(const Expr* fold) {
    const auto& dims = fold->fold->dims;
    const bool known = std::all_of(dims.begin(), dims.end(), [](const ir::Dim* d) { return d->extent->is_const(); });
    return known ? dims : std::vector{spread_dim(fold)};
  }

  // What the slices of the lane's column have, in their order.
  const Expr* joined(const Expr* fold, uint32_t memory, const Expr* lane) {
    const auto of_slice = [&](int64_t slice) {
      return k_.b.let(loop::vec_load(ctx_, memory, fold->type, ctx_.add(lane, ctx_.integer(slice * kColumns))));
    };
    const Expr* all = of_slice(0);
    for (int64_t slice = 1; slice < slices_; ++slice) all = k_.b.let(s_.join(*fold->fold->combiner, {all}, {of_slice(slice)})[0]);
    return all;
  }

  const Columns columns_;
  const int64_t slices_, copies_;
};

// Slices and steps at once of a fold of so many columns, best first. Turns of a lane, and what is left of them step by step, wait for memory; more slices
// leave room for fewer blocks at once. What only the run knows is no reason for longer turns.
std::vector<schedule::Tile> column_tiles(const targets::DeviceRow& machine, const Columns& c, unsigned most_lanes) {
  const double blocks = c.others * std::ceil(estimate(c.dim->extent) / static_cast<double>(kColumns));
  std::vector<std::pair<double, schedule::Tile>> all;
  for (int64_t slices = kMostSlices; slices >= 2; slices /= 2) {
    const auto lanes = static_cast<double>(slices);
    if (slices * kColumns > most_lanes || lanes * kLeastAtOnce > c.longest) continue;
    const double at_once = machine.multiprocessors * std::max(1.0, std::floor(machine.warps / (lanes * kColumns / machine.warp_lanes)));
    for (unsigned copies = kLeastAtOnce; copies <= (c.is_known ? kMostAtOnce : kLeastAtOnce); ++copies) {
      const double turns = std::floor(c.longest / (lanes * copies)), left = std::ceil((c.longest - turns * lanes * copies) / lanes);
      all.push_back({std::ceil(blocks / at_once) * (turns + left) * machine.latency_cycles, {.columns = kColumns, .depth = slices, .copies = copies}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<schedule::Tile> best;
  for (size_t k = 0; k < std::min(all.size(), kMostRanked); ++k) best.push_back(all[k].second);
  return best;
}

// The dims of the nest are the grid of blocks.
void take_grid(const FlatNest& nest, schedule::Space& space, schedule::Schedule& how) {
  DimNames names;
  for (const ir::Dim* d : nest.dims) {
    schedule::Space::Dim& dim = space.dims.emplace_back();
    dim.name = names.add(d);
    dim.extent = d->extent->is_const() ? d->extent->i : -1;
    dim.cut = true;
    how.loops.push_back({.dim = dim.name, .bind = schedule::Bind::Grid});
  }
}

std::optional<Schedules> column_folds(const Job& job, const FlatNest& nest) {
  auto columns = ColumnSearch(job, nest).run();
  if (!columns || device_lines(job, nest)) return std::nullopt;
  Schedules s;
  s.space.family = schedule::Family::Fold;
  s.space.block = job.target.llvm_cpu.empty() ? job.target.block_lanes : kMostLanesOfDevice;
  s.space.tile_columns = kColumns;
  schedule::Schedule how{.family = schedule::Family::Fold, .vector_bytes = job.vector_bytes()};
  take_grid(nest, s.space, how);
  for (const schedule::Tile& tile : column_tiles(job.device(), *columns, s.space.block)) {
    how.tile = tile;
    how.block = static_cast<unsigned>(tile.columns * tile.depth);
    s.ranked.push_back(how);
  }
  if (s.ranked.empty()) return std::nullopt;
  s.build = [&job, &nest, columns = std::move(*columns)](Skeleton& k, const schedule::Schedule& chosen) -> StagePtr {
    return std::make_unique<ColumnFold>(job, nest, k, columns, chosen);
  };
  return s;
}

}  // namespace

std::optional<Schedules> device_folds(const Job& job, const FlatNest& nest) {
  std::vector<const Expr*> folds = FoldSearch(job, nest).run();
  if (folds.empty()) return column_folds(job, nest);
  // Lines read several elements at once, where the target can.
  if (job.target.access_bytes > 0 && device_lines(job, nest)) return std::nullopt;
  Schedules s;
  s.space.family = schedule::Family::Fold;
  s.space.block = job.target.block_lanes;
  schedule::Schedule how;
  how.family = schedule::Family::Fold;
  how.block = job.target.block_lanes;
  how.vector_bytes = job.vector_bytes();
  take_grid(nest, s.space, how);
  s.ranked.push_back(std::move(how));
  s.build = [&job, &nest, folds](Skeleton& k, const schedule::Schedule& chosen) -> StagePtr { return std::make_unique<BlockFold>(job, nest, k, chosen, folds); };
  return s;
}

}  // namespace mlc::lower
