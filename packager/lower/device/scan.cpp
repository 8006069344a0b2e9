// Scans along long lines (a cumulative sum), on a device. Some lanes of a block share a line and go along it in turns of eight elements
// for each:
//
//   elements to shared memory, neighbours by neighbouring lanes; barrier
//   each lane scans eight that are contiguous, and stores their total; barrier
//   totals are scanned as a tree; barriers
//   each lane joins what stands before it; barrier
//   results are written as elements were read; what has gone by is the same number in all lanes
//
// A lane's eight begin in banks of their own, since a word is left out behind every 32. The order of operations is the same in every run
// and on every device, but not that of one lane: sums of floats round elsewhere.
#include "packager/lower/device/scan.h"

#include <algorithm>

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Join;
using ir::Op;
using schedule::Bind;
using schedule::Family;

namespace {

constexpr unsigned kScanLanes = 128;
constexpr int64_t kElements = 8;           // of a lane, in a turn
constexpr double kShortScan = 512;         // a quarter of the lanes is enough

// Of a scan that lanes may share: one value without folds or faults, by an operation of which any order is right.
bool is_shared_scan(const Job& job, const FlatNest& n) {
  if (!n.scan_dim || n.where || n.writes.size() != 1 || n.writes[0].push || n.writes[0].in_range || !n.kept.empty()) return false;
  const Join join = n.scan_combiner->join;
  if (!n.scan_combiner->commutative || join == Join::Last || join == Join::Custom || join == Join::Any || join == Join::All) return false;
  const FlatWrite& w = n.writes[0];
  const DType t = w.value->type.dtype;
  if (t != DType::F32 && t != DType::F64 && t != DType::I32 && t != DType::I64 && t != DType::U32 && t != DType::U64) return false;
  bool plain = w.dtype == t, along = false;
  ir::walk(w.value, [&](const Expr* e) {
    plain &= e->op != Op::Fold && (e->op != Op::Load || e->access != Access::Checked);
    along |= e->op == Op::Load && is_contiguous(job.ctx, e->args[0], n.scan_dim);
  });
  double lines = 1;
  for (const ir::Dim* d : n.dims)
    if (d != n.scan_dim) lines *= estimate(d->extent);
  return plain && estimate(n.scan_dim->extent) >= job.device().own_fold_points && (along || lines < job.device().busy_points);
}

class ScanStage final : public Stage {
 public:
  ScanStage(const Job& job, const FlatNest& nest, Skeleton& k, const schedule::Schedule& how)
      : Stage(job, nest, k), c_(*nest.scan_combiner), w_(nest.writes[0]), lines_(how.tile.rows), lanes_(how.tile.columns), turn_(lanes_ * kElements) {
    schedule = schedule::print(how);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : n_.dims)
      if (d != n_.scan_dim) others_.push_back(d), extents.push_back(d->extent);
    num_lines_ = ctx_.product(extents);
    grid = {ctx_.ceildiv(num_lines_, ctx_.integer(lines_))};
    line_size_ = turn_ + (turn_ + job_.device().banks - 1) / job_.device().banks;
    elements_ = k_.shared("elements", w_.dtype, lines_ * line_size_);
    totals_ = k_.shared("totals", w_.dtype, kScanLanes);
    extents.push_back(n_.scan_dim->extent);
    work = k_.takes(job_.operation_ns(), extents, k_.operations(w_.value));
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    lane_ = lane;
    mine_ = k_.b.let(ctx_.floormod(lane, ctx_.integer(lanes_)));
    const Expr* line = k_.b.let(ctx_.floordiv(lane, ctx_.integer(lanes_)));
    base_ = k_.b.let(ctx_.mul(line, ctx_.integer(line_size_)));
    const Expr* number = k_.b.let(ctx_.add(ctx_.mul(at[0], ctx_.integer(lines_)), line));
    exists_ = ir::divisor_of(num_lines_) % lines_ == 0 ? nullptr : k_.b.let(ctx_.binary(Op::Lt, number, num_lines_));
    // What has no line of its own reads the last one: all lanes come to the barriers.
    bind_line(exists_ ? k_.b.let(ctx_.min(number, ctx_.sub(num_lines_, ctx_.integer(1)))) : number);
    unit_ = s_.value(unit_of(ctx_, c_, 0, w_.dtype));
    const Expr* before = k_.b.local(unit_);
    k_.b.with_for(ctx_.integer(0), n_.scan_dim->extent, turn_, [&](const Expr* first) {
      s_.scoped([&] {
        bring(first);
        scan_own();
        scan_totals();
        join_before(before);
        write(first);
        k_.b.assign(before, join(before, load(totals_, ctx_.add(ctx_.sub(lane_, mine_), ctx_.integer(lanes_ - 1)))));
        k_.b.append(loop::StmtKind::Barrier);  // the next turn has the memory
      });
    });
  }

  void bind_line(const Expr* number) {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : others_) extents.push_back(d->extent);
    const std::vector<const Expr*> index = k_.decoded(number, extents);
    for (size_t k = 0; k < others_.size(); ++k) s_.bind(others_[k], index[k]);
  }

  const Expr* join(const Expr* left, const Expr* right) { return k_.b.let(builtin_join(ctx_, c_, {left}, {right})[0]); }
  const Expr* load(uint32_t memory, const Expr* at) { return k_.b.let(loop::vec_load(ctx_, memory, {w_.dtype, 1}, at)); }
  const Expr* place(const Expr* element) { return k_.b.let(ctx_.add(base_, ctx_.add(element, ctx_.floordiv(element, ctx_.integer(job_.device().banks))))); }
  const Expr* extent() const { return n_.scan_dim->extent; }

  // Elements of a turn, those of neighbouring lanes side by side.
  void each_of_turn(const std::function<void(const Expr* element)>& body) {
    k_.b.with_for(ctx_.integer(0), ctx_.integer(turn_), lanes_, [&](const Expr* i) { s_.scoped([&] { body(k_.b.let(ctx_.add(i, mine_))); }); });
  }
  // Those of the lane, which are contiguous.
  void each_of_lane(const std::function<void(const Expr* at)>& body) {
    const Expr* first = k_.b.let(ctx_.mul(mine_, ctx_.integer(kElements)));
    k_.b.with_for(ctx_.integer(0), ctx_.integer(kElements), 1, [&](const Expr* i) { s_.scoped([&] { body(place(ctx_.add(first, i))); }); });
  }
  void bind_element(const Expr* number) {
    const Expr* last = ctx_.sub(extent(), ctx_.integer(1));
    s_.bind(n_.scan_dim, k_.b.let(n_.scan_reverse ? ctx_.sub(last, number) : number));
  }

  void bring(const Expr* first) {
    const bool whole = ir::divisor_of(extent()) % turn_ == 0;
    each_of_turn([&](const Expr* element) {
      const Expr* number = k_.b.let(ctx_.add(first, element));
      bind_element(whole ? number : k_.b.let(ctx_.min(number, ctx_.sub(extent(), ctx_.integer(1)))));
      const Expr* value = k_.b.let(s_.value(w_.value));
      if (!whole) value = k_.b.let(ctx_.select(ctx_.binary(Op::Lt, number, extent()), value, unit_));
      k_.b.store(elements_, place(element), value);
    });
    k_.b.append(loop::StmtKind::Barrier);
  }

  void scan_own() {
    const Expr* sum = k_.b.local(unit_);
    each_of_lane([&](const Expr* at) {
      k_.b.assign(sum, join(sum, load(elements_, at)));
      k_.b.store(elements_, at, sum);
    });
    k_.b.store(totals_, lane_, sum);
    k_.b.append(loop::StmtKind::Barrier);
  }

  void scan_totals() {
    for (int64_t distance = 1; distance < lanes_; distance *= 2) {
      const Expr* sum = k_.b.local(load(totals_, lane_));
      k_.b.with_if(ctx_.binary(Op::Le, ctx_.integer(distance), mine_), [&] {
        s_.scoped([&] { k_.b.assign(sum, join(load(totals_, ctx_.sub(lane_, ctx_.integer(distance))), sum)); });
      });
      k_.b.append(loop::StmtKind::Barrier);
      k_.b.store(totals_, lane_, sum);
      k_.b.append(loop::StmtKind::Barrier);
    }
  }

  void join_before(const Expr* before) {
    const Expr* all = k_.b.local(before);
    k_.b.with_if(ctx_.binary(Op::Lt, ctx_.integer(0), mine_), [&] {
      s_.scoped([&] { k_.b.assign(all, join(all, load(totals_, ctx_.sub(lane_, ctx_.integer(1))))); });
    });
    const Expr* left = k_.b.local(all);
    each_of_lane([&](const Expr* at) {
      const Expr* here = join(all, load(elements_, at));
      k_.b.store(elements_, at, n_.scan_exclusive ? left : here);
      k_.b.assign(left, here);
    });
    k_.b.append(loop::StmtKind::Barrier);
  }

  void write(const Expr* first) {
    const bool whole = ir::divisor_of(extent()) % turn_ == 0;
    each_of_turn([&](const Expr* element) {
      const Expr* number = k_.b.let(ctx_.add(first, element));
      const Expr* there = s_.both(exists_, whole ? nullptr : ctx_.binary(Op::Lt, number, extent()));
      const auto store = [&] {
        s_.scoped([&] {
          bind_element(number);
          k_.b.store(w_.buffer, s_.value(w_.address), load(elements_, place(element)));
        });
      };
      there ? k_.b.with_if(there, store) : store();
    });
  }

  const ir::Combiner& c_;
  const FlatWrite& w_;
  const int64_t lines_, lanes_, turn_;  // of a block; of a line; elements of a line at once
  int64_t line_size_ = 0;               // of memory
  uint32_t elements_ = 0, totals_ = 0;
  std::vector<const ir::Dim*> others_;
  const Expr *num_lines_ = nullptr, *exists_ = nullptr, *unit_ = nullptr;
  const Expr *lane_ = nullptr, *mine_ = nullptr, *base_ = nullptr;
};

}  // namespace

std::optional<Schedules> device_scans(const Job& job, const FlatNest& nest) {
  if (!is_shared_scan(job, nest)) return std::nullopt;
  Schedules s;
  DimNames names;
  s.space.family = Family::Lines;
  s.space.block = kScanLanes;
  schedule::Schedule best{.family = Family::Lines, .block = kScanLanes, .vector_bytes = job.vector_bytes()};
  for (const ir::Dim* d : nest.dims) {
    schedule::Space::Dim& dim = s.space.dims.emplace_back();
    dim.name = names.add(d);
    dim.extent = d->extent->is_const() ? d->extent->i : -1;
    dim.cut = d != nest.scan_dim;
    dim.serial = !dim.cut;
  }
  for (const bool cut : {true, false})
    for (const schedule::Space::Dim& d : s.space.dims)
      if (d.cut == cut) best.loops.push_back({.dim = d.name, .bind = cut ? Bind::Grid : Bind::Serial});
  for (const int64_t lanes : {128, 32}) {
    best.tile = {kScanLanes / lanes, lanes, 1, 1, false};
    s.ranked.push_back(best);
  }
  if (estimate(nest.scan_dim->extent) <= kShortScan) std::swap(s.ranked[0], s.ranked[1]);
  s.build = [&job, &nest](Skeleton& k, const schedule::Schedule& how) -> StagePtr { return std::make_unique<ScanStage>(job, nest, k, how); };
  return s;
}

}  // namespace mlc::lower
