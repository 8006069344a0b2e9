// Folds whose points are contiguous, on a device: softmax, norms, sums along the last axis. Some lanes of a block share a row: each
// folds every so-manieth element, or every so-manieth four that are read at once, neighbours in memory being neighbours among lanes; what
// they have is folded over the lanes, by shuffles where the target has them, else through shared memory, halves onto each other. The tree
// is the same in every run, hence the result. What the row's points need of its folds is at hand then: all of a softmax is one kernel.
#include <algorithm>
#include <bit>
#include <span>

#include "packager/lower/device/scan.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Join;
using ir::Op;
using schedule::Bind;
using schedule::Family;

namespace {

constexpr unsigned kLineLanes = 128;       // of a block
constexpr int64_t kFewTurns = 4;
constexpr int64_t kMostHeld = 48;          // elements of a row, and of what is along it, that a lane holds
constexpr double kShortLine = 256;     // a quarter of the lanes is enough

struct Lines {
  std::vector<const Expr*> folds;        // inner ones first
  std::vector<const ir::Dim*> rows, line;  // map dims: that folds know, and the others
  double longest = 0;                    // points of a fold
};

double points_of(const std::vector<const ir::Dim*>& dims) {
  double points = 1;
  for (const ir::Dim* d : dims) points *= estimate(d->extent);
  return points;
}

class Recognition {
 public:
  Recognition(const Job& job, const FlatNest& nest) : ctx_(job.ctx), machine_(job.device()), n_(nest) {}

  std::optional<Lines> run() {
    if (n_.where || n_.scan_dim) return std::nullopt;
    bool plain = true;  // lanes that wait for each other cannot stop at a fault
    for (const FlatWrite& w : n_.writes) {
      plain &= !w.push && !w.in_range;
      ir::walk(w.value, [&](const Expr* e) {
        plain &= e->op != Op::Load || e->access != Access::Checked;
        if (e->op == Op::Fold && std::find(l_.folds.begin(), l_.folds.end(), e) == l_.folds.end()) l_.folds.push_back(e);
      });
    }
    if (!plain || l_.folds.empty()) return std::nullopt;
    const DimSet known = facts_.dims(l_.folds.front());
    DimSet ours = 0;
    for (const ir::Dim* d : n_.dims) {
      ours |= facts_.bit(d);
      (known & facts_.bit(d) ? l_.rows : l_.line).push_back(d);
    }
    for (const Expr* fold : l_.folds) {
      if (facts_.dims(fold) != known || (known & ~ours) || !is_good(fold)) return std::nullopt;
      l_.longest = std::max(l_.longest, points_of(fold->fold->dims));
    }
    return pays() ? std::optional(l_) : std::nullopt;
  }

 private:
  bool is_good(const Expr* fold) {
    const ir::Combiner& c = *fold->fold->combiner;
    if (!c.commutative || c.join == Join::Last || fold->fold->dims.empty()) return false;
    if (n_.folds_anywhere || !facts_.needs_guard(fold)) return true;
    return std::any_of(n_.writes.begin(), n_.writes.end(), [&](const FlatWrite& w) { return is_unconditional(w.value, fold); });
  }

  bool pays() {
    const double rows = points_of(l_.rows);
    if (l_.longest > machine_.line_points && rows < machine_.few_blocks) return false;
    if (l_.longest < (l_.line.empty() && rows >= machine_.busy_points ? machine_.own_fold_points : machine_.shared_fold_points)) return false;
    return is_contiguous_fold() || (l_.line.empty() && rows < machine_.few_blocks);
  }

  // Whether neighbouring points of a fold are neighbours in an array.
  bool is_contiguous_fold() {
    bool found = false;
    for (const Expr* fold : l_.folds)
      for (const Expr* body : fold->args)
        ir::walk(body, [&](const Expr* e) {
          found |= e->op == Op::Load && facts_.depends(e->args[0], fold->fold->dims.back()) && is_contiguous(ctx_, e->args[0], fold->fold->dims.back());
        });
    return found;
  }

  ir::Context& ctx_;
  const targets::DeviceRow& machine_;
  const FlatNest& n_;
  Facts facts_;
  Lines l_;
};

class LineStage final : public Stage {
 public:
  LineStage(const Job& job, const FlatNest& nest, Skeleton& k, Lines lines, const schedule::Schedule& how)
      : Stage(job, nest, k), l_(std::move(lines)), rows_(how.tile.rows), lanes_(how.tile.columns) {
    schedule = schedule::print(how);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : l_.rows) extents.push_back(d->extent);
    num_rows_ = ctx_.product(extents);
    grid = {ctx_.ceildiv(num_rows_, ctx_.integer(rows_))};
    for (const ir::Dim* d : l_.line) extents.push_back(d->extent);
    const Expr* operations = ctx_.number(0, DType::F64);
    for (const FlatWrite& w : n_.writes) operations = ctx_.binary(Op::Add, operations, k_.operations(w.value));
    work = k_.takes(job_.operation_ns(), extents, operations);
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    lane_ = lane;
    mine_ = rows_ == 1 ? lane : k_.b.let(ctx_.floormod(lane, ctx_.integer(lanes_)));
    const Expr* row = rows_ == 1 ? at[0] : k_.b.let(ctx_.add(ctx_.mul(at[0], ctx_.integer(rows_)), ctx_.floordiv(lane, ctx_.integer(lanes_))));
    const bool whole = ir::divisor_of(num_rows_) % rows_ == 0;
    // What has no row of its own reads the last one: all lanes come to the barriers.
    bind(l_.rows, whole ? row : k_.b.let(ctx_.min(row, ctx_.sub(num_rows_, ctx_.integer(1)))));
    hold_loads();
    for (const Expr* fold : l_.folds) fold_together(fold);
    const auto write = [&] { s_.scoped([&] { write_line(); }); };
    whole ? write() : k_.b.with_if(ctx_.binary(Op::Lt, row, num_rows_), write);
  }

  void bind(const std::vector<const ir::Dim*>& dims, const Expr* point) {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : dims) extents.push_back(d->extent);
    const std::vector<const Expr*> index = k_.decoded(point, extents);
    for (size_t k = 0; k < dims.size(); ++k) s_.bind(dims[k], index[k]);
  }

  bool is_few(const Expr* points) const { return job_.target.access_bytes > 0 && points->is_const() && points->i <= kFewTurns * lanes_; }

  // Few turns are written out, so that what all of them read is under way at once.
  void over_mine(const Expr* points, const std::function<void(const Expr*)>& body) {
    if (!is_few(points)) return k_.b.with_for(mine_, points, lanes_, body);
    for (int64_t first = 0; first < points->i; first += lanes_) {
      turn_ = static_cast<size_t>(first / lanes_);
      const Expr* point = k_.b.let(ctx_.add(mine_, ctx_.integer(first)));
      if (first + lanes_ <= points->i) body(point);
      else k_.b.with_if(ctx_.binary(Op::Lt, point, points), [&] { body(point); });
    }
  }

  // ---- what a lane holds ----

  // A fold or what is written, along the dim whose points lanes share: its loads there.
  struct Along {
    const ir::Dim* dim = nullptr;
    int64_t neighbours = 1;
    std::vector<const Expr*> loads;
  };

  // A load that the lane has made: turn by turn along the dim, neighbour by neighbour.
  struct Held {
    const Expr* load = nullptr;
    const ir::Dim* dim = nullptr;
    std::vector<const Expr*> values;
  };

  Along along(const std::vector<const ir::Dim*>& dims, int64_t neighbours, std::span<const Expr* const> roots) {
    Along a;
    a.neighbours = shared_neighbours(dims, neighbours);
    if (dims.size() != 1 || !is_few(ctx_.floordiv(dims[0]->extent, ctx_.integer(a.neighbours)))) return {};
    a.dim = dims[0];
    DimSet known = s_.facts.bit(a.dim);
    for (const ir::Dim* d : l_.rows) known |= s_.facts.bit(d);
    for (const Expr* root : roots)
      ir::walk(root, [&](const Expr* e) {
        const bool is_plain = e->op == Op::Load && e->args.size() == 1 && s_.facts.depends(e, a.dim) && (s_.facts.dims(e) & ~known) == 0 && !s_.facts.needs_guard(e) && !s_.facts.has_fold(e);
        if (is_plain && std::find(a.loads.begin(), a.loads.end(), e) == a.loads.end()) a.loads.push_back(e);
      });
    return a;
  }

  // What folds and writes read at the same points is loaded once and before all of them, so that a row is waited for once: not in each of its
  // turns, then for each fold again, and for what is along the row when all folds are done.
  void hold_loads() {
    std::vector<Along> all;
    for (const Expr* fold : l_.folds)
      if (!fold->fold->where) all.push_back(along(fold->fold->dims, neighbours_in_fold(job_, fold), fold->args));
    std::vector<const Expr*> values;
    for (const FlatWrite& w : n_.writes) values.push_back(w.value);
    if (!l_.line.empty()) all.push_back(along(l_.line, neighbours_in_writes(job_, n_, l_.line.back()), values));
    std::erase_if(all, [](const Along& a) { return a.loads.empty(); });
    if (all.empty()) return;
    const Along& first = all[0];
    std::vector<const Expr*> distinct;  // along the first one's dim
    std::vector<std::pair<Held, size_t>> which;
    for (const Along& a : all) {
      if (a.neighbours != first.neighbours || a.dim->extent != first.dim->extent) continue;
      for (const Expr* load : a.loads) {
        const Expr* there = ctx_.substitute(load, {{ctx_.dim(a.dim), ctx_.dim(first.dim)}});
        const auto at = std::find(distinct.begin(), distinct.end(), there);
        which.push_back({{load, a.dim, {}}, static_cast<size_t>(at - distinct.begin())});
        if (at == distinct.end()) distinct.push_back(there);
      }
    }
    const int64_t chunks = first.dim->extent->i / first.neighbours, turns = (chunks + lanes_ - 1) / lanes_;
    if (turns * first.neighbours * static_cast<int64_t>(distinct.size()) > kMostHeld) return;
    held_neighbours_ = static_cast<size_t>(first.neighbours);
    std::vector<std::vector<const Expr*>> loaded;
    for (const Expr* load : distinct) loaded.push_back(all_of(load, first, chunks));
    for (auto& [held, k] : which) {
      held.values = loaded[k];
      held_.push_back(std::move(held));
    }
  }

  // The load at the points of the lane, turn by turn; at the last ones where it has none.
  std::vector<const Expr*> all_of(const Expr* load, const Along& a, int64_t chunks) {
    std::vector<const Expr*> values;
    for (int64_t begin = 0; begin < chunks; begin += lanes_) {
      const Expr* mine = ctx_.add(mine_, ctx_.integer(begin));
      const Expr* chunk = k_.b.let(begin + lanes_ <= chunks ? mine : ctx_.min(mine, ctx_.integer(chunks - 1)));
      for (int64_t u = 0; u < a.neighbours; ++u)
        s_.scoped([&] {
          s_.bind(a.dim, ctx_.add(ctx_.mul(chunk, ctx_.integer(a.neighbours)), ctx_.integer(u)));
          values.push_back(k_.b.let(s_.value(load)));
        });
    }
    return values;
  }

  // Of neighbour `u` of this turn, where the lane's points are those that it holds.
  void define_held(const std::vector<const ir::Dim*>& dims, int64_t neighbours, size_t u) {
    if (static_cast<size_t>(neighbours) != held_neighbours_ || dims.size() != 1) return;
    for (const Held& h : held_)
      if (h.dim == dims[0]) s_.define(h.load, h.values[turn_ * held_neighbours_ + u]);
  }

  // So many that half of the lanes have some.
  int64_t shared_neighbours(const std::vector<const ir::Dim*>& dims, int64_t neighbours) const {
    while (neighbours > 1 && 2 * points_of(dims) < static_cast<double>(neighbours * lanes_)) neighbours /= 2;
    return neighbours;
  }

  // Runs `body` for the points of `dims` that are this lane's: so many neighbours at a time, if there are enough for all lanes.
  void for_mine(const std::vector<const ir::Dim*>& dims, int64_t neighbours, const std::function<void()>& body) {
    neighbours = shared_neighbours(dims, neighbours);
    const Expr* count = ctx_.integer(neighbours);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : dims) extents.push_back(d->extent);
    if (neighbours > 1) extents.back() = ctx_.floordiv(extents.back(), count);
    over_mine(ctx_.product(extents), [&](const Expr* point) {
      s_.scoped([&] {
        const std::vector<const Expr*> index = k_.decoded(point, extents);
        for (size_t k = 0; k < dims.size(); ++k) s_.bind(dims[k], index[k]);
        if (neighbours == 1) {
          define_held(dims, neighbours, 0);
          return body();
        }
        const Expr* first = k_.b.let(ctx_.mul(index.back(), count));
        for (int64_t u = 0; u < neighbours; ++u)
          s_.scoped([&] {
            s_.bind(dims.back(), ctx_.add(first, ctx_.integer(u)));
            define_held(dims, neighbours, static_cast<size_t>(u));
            body();
          });
      });
    });
  }

  void write_line() {
    const auto write = [&] { emit_writes(s_, k_.b, n_, nullptr); };
    if (!l_.line.empty()) return for_mine(l_.line, neighbours_in_writes(job_, n_, l_.line.back()), write);
    k_.b.with_if(ctx_.binary(Op::Eq, mine_, ctx_.integer(0)), [&] { s_.scoped(write); });
  }

  using Tuple = std::vector<const Expr*>;

  void assign_joined(const ir::Combiner& c, const Tuple& to, const Tuple& right) {
    Tuple joined = s_.join(c, to, right);
    if (joined.size() > 1)
      for (const Expr*& j : joined) j = k_.b.let(j);
    for (size_t k = 0; k < to.size(); ++k) k_.b.assign(to[k], joined[k]);
  }

  void fold_together(const Expr* e) {
    const ir::Fold& fold = *e->fold;
    const ir::Combiner& c = *fold.combiner;
    Tuple sums;
    for (unsigned k = 0; k < e->args.size(); ++k) sums.push_back(k_.b.local(s_.value(unit_of(ctx_, c, k, e->args[k]->type.dtype))));
    for_mine(fold.dims, neighbours_in_fold(job_, e), [&] {
      const auto one = [&] {
        Tuple right;
        for (const Expr* body : e->args) right.push_back(s_.value(body));
        assign_joined(c, sums, right);
      };
      if (fold.where) k_.b.with_if(s_.value(fold.where), [&] { s_.scoped(one); });
      else one();
    });
    const Tuple all = across(c, sums);
    for (unsigned k = 0; k < all.size(); ++k) s_.define(all.size() == 1 ? e : ctx_.field(e, k), all[k]);
  }

  // What all lanes of a row have, joined, for each of them.
  Tuple across(const ir::Combiner& c, const Tuple& sums) {
    if (lanes_ == 1) return sums;
    if (const auto op = lanes_op(c.join); op && sums.size() == 1 && job_.target.folds_lanes) return {k_.b.fold_lanes(*op, sums[0], lanes_)};
    std::vector<uint32_t> memory;
    for (size_t k = 0; k < sums.size(); ++k) memory.push_back(memory_for(k, sums[k]->type.dtype));
    const auto load = [&](const Expr* at) {
      Tuple t;
      for (size_t k = 0; k < sums.size(); ++k) t.push_back(k_.b.let(loop::vec_load(ctx_, memory[k], sums[k]->type, at)));
      return t;
    };
    const auto store = [&] {
      for (size_t k = 0; k < sums.size(); ++k) k_.b.store(memory[k], lane_, sums[k]);
      k_.b.append(loop::StmtKind::Barrier);
    };
    store();
    for (int64_t half = lanes_ / 2; half > 0; half /= 2) {
      k_.b.with_if(ctx_.binary(Op::Lt, mine_, ctx_.integer(half)), [&] {
        s_.scoped([&] {
          assign_joined(c, sums, load(ctx_.add(lane_, ctx_.integer(half))));
          for (size_t k = 0; k < sums.size(); ++k) k_.b.store(memory[k], lane_, sums[k]);
        });
      });
      k_.b.append(loop::StmtKind::Barrier);
    }
    const Tuple all = load(rows_ == 1 ? ctx_.integer(0) : ctx_.sub(lane_, mine_));
    k_.b.append(loop::StmtKind::Barrier);  // the next fold has the memory
    return all;
  }

  uint32_t memory_for(size_t field, DType t) {
    for (const auto& [known, type, number] : memories_)
      if (known == field && type == t) return number;
    memories_.push_back({field, t, k_.shared("fold", t, kLineLanes)});
    return memories_.back().number;
  }

  const Lines l_;
  const int64_t rows_, lanes_;  // of a block; of a row
  const Expr *num_rows_ = nullptr, *lane_ = nullptr, *mine_ = nullptr;
  std::vector<Held> held_;
  size_t held_neighbours_ = 1, turn_ = 0;
  struct Memory {
    size_t field;
    DType dtype;
    uint32_t number;
  };
  std::vector<Memory> memories_;
};

}  // namespace

std::optional<Schedules> device_lines(const Job& job, const FlatNest& nest) {
  if (nest.scan_dim) return device_scans(job, nest);
  auto lines = Recognition(job, nest).run();
  if (!lines) return std::nullopt;
  Schedules s;
  DimNames names;
  s.space.family = Family::Lines;
  s.space.block = kLineLanes;
  schedule::Schedule best{.family = Family::Lines, .block = kLineLanes, .vector_bytes = job.vector_bytes()};
  for (const ir::Dim* d : nest.dims) {
    schedule::Space::Dim& dim = s.space.dims.emplace_back();
    dim.name = names.add(d);
    dim.extent = d->extent->is_const() ? d->extent->i : -1;
    dim.cut = std::find(lines->rows.begin(), lines->rows.end(), d) != lines->rows.end();
    dim.serial = !dim.cut;
  }
  for (const bool cut : {true, false})
    for (const schedule::Space::Dim& d : s.space.dims)
      if (d.cut == cut) best.loops.push_back({.dim = d.name, .bind = cut ? Bind::Grid : Bind::Serial});
  for (const int64_t lanes : {128, 32}) {
    best.tile = {kLineLanes / lanes, lanes, 1, 1, false};
    s.ranked.push_back(best);
  }
  if (lines->longest <= kShortLine) std::swap(s.ranked[0], s.ranked[1]);
  s.build = [&job, &nest, lines = std::move(*lines)](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
    return std::make_unique<LineStage>(job, nest, k, lines, how);
  };
  return s;
}

}  // namespace mlc::lower
