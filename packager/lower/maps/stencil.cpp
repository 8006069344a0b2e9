// Depthwise convolution and pooling: a small window of constant size slides over rows whose innermost dim is contiguous
// (channels). Vectors run along channels; several neighbouring outputs of a row are computed together with the window
// unrolled, so that an input is loaded once per window row and weights once per block (design: kernels.md section 10).
//
// The loop over channel vectors is outermost, around the whole image: then the weights stay in registers. Large images come
// from memory: then channels are innermost, so that they are read in the order in which they lie.
// Outputs at the edge of a row are blocks of their own whose missing taps are left out, if sizes are constants, or if what the taps
// reach follows from the distance to the ends of the row; else they go through the fold's ordinary loops. Where the window slides along the vectors too (a picture whose rows lie side by
// side), vectors at the borders ask at each tap which lanes it reaches, and those between need not.
#include <algorithm>
#include <cmath>

#include "packager/lower/walk/walk.h"

namespace mlc::lower {

using ir::Expr;
using ir::Join;
using ir::Op;
using schedule::Bind;
using schedule::Loop;

namespace {

constexpr int64_t kMaxUnrolledWindow = 25;
constexpr int64_t kMaxWindowColumns = 64;  // copies of the code of a block's row, one for each
constexpr size_t kMaxEdgeBlocks = 4;
constexpr int64_t kMaxEdgeJoins = 4096;    // of code for blocks at edges, if these are more
constexpr int64_t kMaxStride = 4;
constexpr int64_t kStridedRows = 4;        // of a block whose vectors are picked from two loads, each with a mask: eight are no faster, and ten times the code
constexpr int64_t kMaxPicked = 512;        // elements of a block that are put into vectors one by one

struct WindowFold {
  const Expr* fold = nullptr;
  Anchor anchor;
  const ir::Dim* channel = nullptr;      // along which vectors run
  std::vector<const Expr*> lane_terms;   // conditions on it
  std::vector<const ir::Dim*> lane_taps; // that these mention
  bool strided = false;                  // along channels, what is read is not contiguous
  bool reads_beside = false;             // other values along channels than those that the window slides over
};

class Window final : public Walk {
 public:
  Window(const Job& job, const FlatNest& nest, Skeleton& k, const WindowFold& w, const schedule::Schedule& how, const DimNames& names)
      : Walk(job, nest, k, how, names, w.anchor), fold_(w.fold), w_(w), inside_(nest) {
    if (!w_.lane_terms.empty()) leave_out_lane_terms();
    std::vector<const Expr*> extents;
    unsigned lanes = 1;
    for (const ir::Dim* d : nest.dims) {
      extents.push_back(d->extent);
      if (const Loop* l = loop_of(d, Bind::Lanes)) lanes = static_cast<unsigned>(l->step);
    }
    work = k_.takes(job_.operation_ns() / lanes, extents, k_.operations(n_.writes[0].value));
  }

 private:
  void leaf() override {
    at_columns([&] { tile_.plain ? emit_writes(s_, k_.b, nest(), nullptr) : block(); });
  }

  // Between borders the conditions on lanes hold.
  const FlatNest& nest() const { return inner_ ? inside_ : n_; }
  const Expr* fold() const { return inner_ ? inside_fold_ : fold_; }

  void leave_out_lane_terms() {
    const Expr* where = nullptr;
    for (const Expr* term : conjuncts(ctx_, fold_->fold->where))
      if (!s_.facts.depends(term, w_.channel)) where = where ? ctx_.binary(Op::And, where, term) : term;
    ir::Fold f = *fold_->fold;
    f.where = where;
    inside_fold_ = ctx_.fold(std::move(f), {fold_->args.begin(), fold_->args.end()});
    FlatWrite& w = inside_.writes[0];
    w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return e == fold_ ? inside_fold_ : nullptr; });
  }

  std::optional<Range> inner_points(size_t l, const Range& all) override {
    (void)l;
    if (w_.lane_terms.empty()) return std::nullopt;
    const Expr *begin = all.begin, *end = all.end;
    for_each_tap(ctx_, w_.lane_taps, [&](const auto& taps) {
      for (const Expr* term : w_.lane_terms) {
        const auto bound = bound_of(ctx_, ctx_.substitute(term, taps), w_.channel);
        if (bound && bound->begin) begin = ctx_.max(begin, s_.value(bound->begin));
        if (bound && bound->end) end = ctx_.min(end, s_.value(bound->end));
      }
    });
    begin = k_.b.let(ctx_.min(begin, all.end));
    return Range{begin, k_.b.let(ctx_.max(end, begin))};
  }

  // Elements that are not contiguous are picked under masks only where there are registers of those.
  bool has_masked_borders(size_t l) const override { return steps_[l].how->tail == schedule::Tail::Mask || !w_.strided; }

  // Nothing that a point reads is overwritten by the point.
  bool may_repeat() const override { return !w_.reads_beside; }

  // Which lanes the taps at hand reach; null: all.
  const Expr* reached() {
    const Expr* mask = nullptr;
    if (!inner_)
      for (const Expr* term : w_.lane_terms) mask = s_.both(mask, s_.value(term));
    return mask && mask->is_const() && mask->i ? nullptr : mask;
  }

  void block() {
    const ir::Combiner& c = *fold_->fold->combiner;
    const Tile t = tile_;
    std::vector<const Expr*> acc;
    for (unsigned q = 0; q < t.height; ++q)
      acc.push_back(k_.b.local(loop::splat(ctx_, s_.value(unit_of(ctx_, c, 0, fold_->type.dtype)), s_.lanes())));
    taps([&](unsigned lo, unsigned hi) {
      const auto join = [&](const Expr* mask) {
        for (unsigned q = lo; q < hi; ++q)
          s_.scoped([&] {
            s_.bind(anchor_.row, ctx_.add(t.first, ctx_.integer(q)));
            const Expr* x = s_.value(fold_->args[0], mask);
            const Expr* joined = loop::splat(ctx_, s_.join(c, {acc[q]}, {x})[0], s_.lanes());
            k_.b.assign(acc[q], mask ? loop::vec_select(ctx_, mask, joined, acc[q]) : joined);
          });
      };
      const Expr* mask = reached();
      if (!mask || mask->type.lanes > 1) join(mask);
      else k_.b.with_if(mask, [&] { s_.scoped([&] { join(nullptr); }); });
    });
    for (unsigned q = 0; q < t.height; ++q)
      s_.scoped([&] {
        s_.bind(anchor_.row, ctx_.add(t.first, ctx_.integer(q)));
        s_.define(fold(), acc[q]);
        emit_writes(s_, k_.b, nest(), nullptr);
      });
  }

  const Expr *fold_, *inside_fold_ = nullptr;
  const WindowFold w_;
  FlatNest inside_;  // the nest without the conditions on lanes
};

class Windows {
 public:
  Windows(const Job& job, const FlatNest& nest) : job_(job), n_(nest), ctx_(job.ctx) {}

  bool recognise() {
    if (n_.writes.size() != 1 || n_.writes[0].push || n_.scan_dim || n_.where) return false;
    for (const ir::Dim* d : n_.dims)
      if (d->extent->is_int(0)) return false;  // a row has at least one block
    const FlatWrite& w = n_.writes[0];
    channel_ = contiguous_dim(ctx_, n_);
    if (!channel_ || facts_.dims(w.address) == 0) return false;
    lanes_ = natural_lanes(job_, n_, channel_);
    if (lanes_ < 2) return false;
    return find_fold(w.value) && close() && fill_vectors() && find_row_dim(w.address) && slides() && split_conditions();
  }

  Schedules run() {
    Schedules s;
    for (const ir::Dim* d : batch_) name_[d] = names_.add(d);
    for (const ir::Dim* d : {line_, row_, channel_})
      if (d) name_[d] = names_.add(d);
    for (const ir::Dim* d : w_.anchor.taps) name_[d] = names_.add(d);
    find_space(s.space);
    s.ranked.push_back(best());
    s.build = [&job = job_, &nest = n_, w = w_, names = names_](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
      return std::make_unique<Window>(job, nest, k, w, how, names);
    };
    return s;
  }

 private:
  void find_space(schedule::Space& space) {
    space.family = schedule::Family::Window;
    const auto add = [&](const ir::Dim* d) -> schedule::Space::Dim& {
      schedule::Space::Dim& dim = space.dims.emplace_back();
      dim.name = name_.at(d);
      dim.extent = d->extent->is_const() ? d->extent->i : -1;
      return dim;
    };
    for (const ir::Dim* d : batch_) add(d).cut = true;
    if (line_) add(line_).cut = true;
    auto& row = add(row_);
    row.rows = true;
    row.serial = false;
    row.peel = may_peel_rows(ctx_, facts_, w_.anchor);
    row.peel_ends = ends_of(ctx_, facts_, w_.anchor).has_value();
    row.needs_peel = !w_.anchor.row_terms.empty();
    auto& channel = add(channel_);
    channel.cut = channel.block = true;
    channel.serial = false;
    channel.lanes = lanes_;
    for (const ir::Dim* d : w_.anchor.taps) {
      auto& tap = add(d);
      tap.reduces = true;
      tap.unroll = d->extent->is_const() && d->extent->i >= 1 && d->extent->i <= kMaxWindowColumns;
      tap.peel = tap.unroll && may_peel_window(ctx_, facts_, w_.anchor, d);
    }
    space.needs_lanes = space.needs_rows = true;
  }

  schedule::Schedule best() {
    schedule::Schedule s;
    s.family = schedule::Family::Window;
    const int64_t quantum = line_quantum(job_, n_, lanes_);
    const bool streams = line_ && !shared_by_channels() &&
                         estimate(line_->extent) * estimate(row_->extent) * estimate(channel_->extent) * 4 > job_.processor().stream_bytes;
    const auto loop = [&](Loop l) { s.loops.push_back(std::move(l)); };
    const std::string& c = name_.at(channel_);
    const Loop lanes{.dim = c, .step = lanes_, .bind = Bind::Lanes, .tail = tail_of_lanes(job_.target)};
    for (const ir::Dim* d : batch_) loop({.dim = name_.at(d), .bind = Bind::Cut});
    // Where borders are at known places, they are where no tile begins.
    const bool many = std::any_of(batch_.begin(), batch_.end(), [](const ir::Dim* d) { return !d->extent->is_int(1); });
    if (!streams && (w_.lane_terms.empty() || !many)) loop({.dim = c, .step = quantum, .bind = Bind::Cut});
    if (line_) loop({.dim = name_.at(line_), .bind = Bind::Cut});
    // Vectors that share a cache line go through a line together, else each would fetch it anew.
    const bool share = quantum > lanes_;
    if (!streams && share) loop({.dim = c, .step = quantum});
    if (!streams && !share) loop(lanes);
    if (line_) loop({.dim = name_.at(line_)});
    if (!streams && share) loop(lanes);
    loop(rows());
    if (streams) loop(lanes);
    for (const ir::Dim* d : w_.anchor.taps) {
      Loop tap{.dim = name_.at(d), .reduces = true};
      const bool column = std::find(columns_.begin(), columns_.end(), d) != columns_.end();
      // Nothing on the row asks which tap it is: many taps are a loop, whose weights and masks need no registers.
      const bool is_long = w_.anchor.row_terms.empty() && d->extent->is_const() && d->extent->i > kMostCopies;
      if ((column && !is_long) || unroll_lines_) tap.bind = Bind::Unroll, tap.count = 0;
      tap.peel = !column && unroll_lines_ &&
                 std::any_of(w_.anchor.tap_terms.begin(), w_.anchor.tap_terms.end(), [&](const Expr* t) { return facts_.depends(t, d); });
      loop(tap);
    }
    s.vector_bytes = job_.vector_bytes();
    return s;
  }

  Loop rows() {
    // Each row has a sum and an input that taps share; a weight comes beside. Where vectors ask at each tap which lanes it reaches, and
    // masks take registers of the same kind, fewer rows and one form of the block are what sixteen registers hold.
    const bool is_crowded = !w_.lane_terms.empty() && !job_.target.has_masks;
    int64_t most = job_.target.vector_registers >= 32 ? 8 : is_crowded ? 4 : 7;
    if (w_.strided && !w_.lane_terms.empty()) most = std::min(most, kStridedRows);
    if (is_picked_by_lanes()) most = std::clamp<int64_t>(kMaxPicked / (lanes_ * copies_of_a_row()), 1, most);
    Loop rows{.dim = name_.at(row_), .step = most, .bind = Bind::Rows, .tail = schedule::Tail::One};
    const auto ends = ends_of(ctx_, facts_, w_.anchor);
    rows.peel = ends && !is_crowded && (ends->begin + ends->last) * copies_of_a_row() <= kMaxEdgeJoins;
    if (!row_->extent->is_const()) return rows;
    const int64_t n = std::max<int64_t>(row_->extent->i, 1), blocks = (n + most - 1) / most;
    rows.step = (n + blocks - 1) / blocks;
    const bool none = w_.anchor.row_terms.empty();
    if (!none && !may_peel_edges(rows.step)) return rows;
    rows.tail = schedule::Tail::Mask;
    rows.even = true;
    rows.peel = !none;
    return rows;
  }

  int64_t copies_of_a_row() const {
    int64_t copies = lines_in_copies_;
    for (const ir::Dim* d : columns_) copies *= d->extent->i;
    return copies;
  }

  // Whether vectors at the borders along channels are put together one element after the other: they are not contiguous, and processors gather
  // whole words only, and only some of them.
  bool is_picked_by_lanes() const {
    return w_.strided && !w_.lane_terms.empty() && (!job_.target.has_masks || bytes_of(w_.fold->type.dtype) < 4);
  }

  // Blocks at edges are code of their own, each.
  bool may_peel_edges(int64_t height) {
    if (!may_peel_rows(ctx_, facts_, w_.anchor)) return false;
    return num_edges(ctx_, facts_, w_.anchor, height) <= kMaxEdgeBlocks ||
           reached_in_edges(ctx_, facts_, w_.anchor, height) * lines_in_copies_ <= kMaxEdgeJoins;
  }

  // Whether what is read along channels lies close there: a block holds all it reads in registers, and elements gathered from
  // far apart (the columns of a transposed matrix) are too many.
  bool close() {
    bool fits = true;
    ir::walk(w_.fold->args[0], [&](const Expr* e) {
      if (e->op != Op::Load || !facts_.depends(e, channel_)) return;
      const Expr* leaf[] = {ctx_.dim(channel_)};
      const auto lin = e->args.size() == 1 ? ir::linear_in(ctx_, e->args[0], leaf) : std::nullopt;
      const Expr* step = lin ? lin->coefficients[0] : nullptr;
      fits &= step && step->is_const() && std::abs(step->i) <= kMaxStride;
      w_.strided |= step && !step->is_int(1);
    });
    return fits;
  }

  // Where elements are not contiguous, a vector that is not full is gathered, one by one: narrower ones that are full take less.
  bool fill_vectors() {
    if (!w_.strided || !channel_->extent->is_const()) return true;
    const int64_t n = channel_->extent->i;
    const targets::ProcessorRow& machine = job_.processor();
    const auto takes = [&](unsigned lanes) { return n / lanes * machine.picked_operations + (n % lanes ? machine.gathered_operations * lanes : 0); };
    for (unsigned lanes = lanes_ / 2; lanes >= 4; lanes /= 2)
      if (takes(lanes) < takes(lanes_)) lanes_ = lanes;
    return true;
  }

  // Whether a row's places are no numbers of a table: those of neighbours need not overlap, and a block of them would hold an address for each tap.
  bool slides() {
    bool slides = true;
    ir::walk(w_.fold->args[0], [&](const Expr* e) {
      if (e->op != Op::Load || !facts_.depends(e, channel_)) return;
      ir::walk(e->args[0], [&](const Expr* at) { slides &= at->op != Op::Load || !facts_.depends(at, row_); });
    });
    return slides;
  }

  // Whether a row's inputs are the same for every channel (a product with few taps): with channels innermost, all inputs of
  // a block would be taken out of that loop, into more vectors than there are registers or stack.
  bool shared_by_channels() {
    bool shared = false;
    ir::walk(w_.fold->args[0], [&](const Expr* e) {
      if (e->op == Op::Load && facts_.depends(e, row_) && !facts_.depends(e, channel_)) shared = true;
    });
    return shared;
  }

  // The one fold along channels; others (the count of an average) may stand beside it.
  bool find_fold(const Expr* value) {
    bool fits = true;
    ir::walk(value, [&](const Expr* e) {
      if (e->op != Op::Fold || !facts_.depends(e, channel_)) return;
      fits &= w_.fold == nullptr;
      w_.fold = e;
    });
    if (!w_.fold || !fits || w_.fold->args.size() != 1) return false;
    Join j = w_.fold->fold->combiner->join;
    if (j != Join::Sum && j != Join::Max && j != Join::Min) return false;
    return (n_.folds_anywhere || is_unconditional(value, w_.fold)) && !facts_.has_fold(w_.fold->args[0]);
  }

  // Rows of outputs run along the next dim in memory; the one after it counts the rows.
  bool find_row_dim(const Expr* address) {
    std::vector<std::pair<double, const ir::Dim*>> strides;
    for (const ir::Dim* d : n_.dims) {
      if (d == channel_) continue;
      const Expr* leaf[] = {ctx_.dim(d)};
      auto lin = ir::linear_in(ctx_, address, leaf);
      if (!lin || facts_.dims(lin->coefficients[0])) return false;
      strides.emplace_back(std::abs(estimate(lin->coefficients[0])), d);
    }
    std::stable_sort(strides.begin(), strides.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (auto& [stride, d] : strides) {
      if (!row_ && facts_.depends(w_.fold, d)) row_ = d;
      else if (row_ && !line_) line_ = d;
      else batch_.push_back(d);
    }
    w_.anchor.row = row_;
    w_.channel = channel_;
    return row_ != nullptr;
  }

  bool split_conditions() {
    Anchor& anchor = w_.anchor;
    DimSet column_dims = facts_.bit(row_);
    for (const Expr* term : conjuncts(ctx_, w_.fold->fold->where)) {
      bool affine = (term->op == Op::Lt || term->op == Op::Le) && term->args[0]->type.dtype == DType::I64;
      if (!affine || facts_.needs_guard(term)) return false;
      if (facts_.depends(term, channel_)) w_.lane_terms.push_back(term);
      else (facts_.depends(term, row_) ? anchor.row_terms : anchor.tap_terms).push_back(term);
    }
    int64_t combinations = 1;
    anchor.most_copies = kMaxWindowColumns;
    std::vector<const ir::Dim*> lines;
    for (const ir::Dim* d : w_.fold->fold->dims) {
      bool column = false;
      for (const Expr* term : anchor.row_terms) column |= facts_.depends(term, d);
      // Without conditions on the row, the innermost window dim is the one to unroll.
      if (anchor.row_terms.empty()) column = d == w_.fold->fold->dims.back();
      if (!column) {
        lines.push_back(d);
        continue;
      }
      if (!d->extent->is_const() || d->extent->i < 1) return false;
      combinations *= d->extent->i;
      if (combinations > kMaxWindowColumns) return false;
      columns_.push_back(d);
      column_dims |= facts_.bit(d);
    }
    if (columns_.empty()) return false;
    anchor.taps = lines;
    anchor.taps.insert(anchor.taps.end(), columns_.begin(), columns_.end());
    for (const Expr* term : anchor.row_terms)
      if (facts_.dims(term) & ~column_dims) return false;
    for (const Expr* term : anchor.tap_terms) {
      const auto mentions = [&](const ir::Dim* d) { return facts_.depends(term, d); };
      if (std::none_of(lines.begin(), lines.end(), mentions) || std::any_of(columns_.begin(), columns_.end(), mentions)) return false;
    }
    choose_unrolling(lines, combinations);
    find_reads_beside();
    return taps_are_bounds() && lanes_are_bounds();
  }

  // Conditions on lanes are bounds of theirs, for each of a few taps.
  bool lanes_are_bounds() {
    DimSet mentioned = facts_.bit(channel_);
    int64_t combinations = 1;
    for (const ir::Dim* d : w_.fold->fold->dims) {
      if (std::none_of(w_.lane_terms.begin(), w_.lane_terms.end(), [&](const Expr* t) { return facts_.depends(t, d); })) continue;
      if (!d->extent->is_const() || d->extent->i < 1 || d->extent->i > kMaxWindowColumns) return false;
      combinations *= d->extent->i;
      if (combinations > kMaxWindowColumns) return false;
      mentioned |= facts_.bit(d);
      w_.lane_taps.push_back(d);
    }
    bool bounds = std::all_of(w_.lane_terms.begin(), w_.lane_terms.end(), [&](const Expr* t) { return !(facts_.dims(t) & ~mentioned); });
    if (!bounds) return false;
    for_each_tap(ctx_, w_.lane_taps, [&](const auto& taps) {
      for (const Expr* term : w_.lane_terms) {
        const Expr* at = ctx_.substitute(term, taps);
        bounds &= at->is_const() ? at->i != 0 : bound_of(ctx_, at, channel_).has_value();
      }
    });
    return bounds;
  }

  // What is read once for each point may lie where that is written.
  void find_reads_beside() {
    std::unordered_map<const Expr*, bool> slides;
    const auto& dims = w_.fold->fold->dims;
    ir::walk(w_.fold->args[0], [&](const Expr* e) { slides[e] = std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return facts_.depends(e, d); }); });
    ir::walk(n_.writes[0].value, [&](const Expr* e) { w_.reads_beside |= e->op == Op::Load && facts_.depends(e, channel_) && !slides[e]; });
  }

  void choose_unrolling(const std::vector<const ir::Dim*>& lines, int64_t columns) {
    int64_t window = columns;
    unroll_lines_ = !lines.empty();
    for (const ir::Dim* d : lines) {
      unroll_lines_ = unroll_lines_ && d->extent->is_const() && d->extent->i <= kMaxUnrolledWindow && may_peel_window(ctx_, facts_, w_.anchor, d);
      if (unroll_lines_) window *= d->extent->i;
    }
    unroll_lines_ &= window <= kMaxUnrolledWindow;
    if (unroll_lines_) lines_in_copies_ = window / columns;
  }

  // Blocks read a tap for all of their outputs: what decides about it must be a bound of the row, for every tap.
  bool taps_are_bounds() {
    bool bounds = true;
    for_each_tap(ctx_, columns_, [&](const auto& taps) {
      for (const Expr* term : w_.anchor.row_terms) {
        const Expr* at = ctx_.substitute(term, taps);
        bounds &= at->is_const() || bound_of(ctx_, at, row_).has_value();
      }
    });
    return bounds;
  }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  Facts facts_;
  WindowFold w_;
  const ir::Dim *channel_ = nullptr, *row_ = nullptr, *line_ = nullptr;
  unsigned lanes_ = 1;
  std::vector<const ir::Dim*> batch_;
  std::vector<const ir::Dim*> columns_;  // taps that conditions on the row mention
  int64_t lines_in_copies_ = 1;
  bool unroll_lines_ = false;            // the others are copies where all of the window exists
  DimNames names_;
  std::unordered_map<const ir::Dim*, std::string> name_;
};

}  // namespace

std::optional<Schedules> windows(const Job& job, const FlatNest& nest) {
  Windows w(job, nest);
  if (!w.recognise()) return std::nullopt;
  return w.run();
}

}  // namespace mlc::lower
