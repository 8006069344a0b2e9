// Depthwise convolution and pooling: a small window of constant size slides over rows whose innermost dim is contiguous
// (channels). Vectors run along channels; several neighbouring outputs of a row are computed together with the window
// unrolled, so that an input is loaded once per window row and weights once per block (design: kernels.md section 10).
//
// The loop over channel vectors is outermost, around the whole image: then the weights stay in registers.
// Outputs at the edge of a row are blocks of their own whose missing taps are left out, if sizes are constants; else
// they go through the fold's ordinary loops.
#include <algorithm>
#include <cmath>

#include "packager/lower/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Join;
using ir::Op;

namespace {

constexpr int64_t kMaxColumnTaps = 16;
constexpr int64_t kMaxUnrolledWindow = 25;
constexpr size_t kMaxEdgeBlocks = 4;
constexpr int64_t kMaxStride = 4;
constexpr double kStreamBytes = 2 << 20;  // an output larger than a core's cache

class Stencil final : public Stage {
 public:
  using Stage::Stage;

  bool recognise() {
    if (n_.writes.size() != 1 || n_.writes[0].push || n_.scan_dim || n_.where) return false;
    for (const ir::Dim* d : n_.dims)
      if (d->extent->is_int(0)) return false;  // a row has at least one block
    const FlatWrite& w = n_.writes[0];
    channel_ = contiguous_dim(ctx_, n_);
    if (!channel_ || facts().dims(w.address) == 0) return false;
    lanes_ = natural_lanes(job_.target, n_);
    if (channel_->extent->is_const())
      while (lanes_ > 1 && static_cast<int64_t>(lanes_) > channel_->extent->i) lanes_ /= 2;
    if (lanes_ < 2) return false;
    if (!find_fold(w.value) || !close()) return false;
    if (!find_row_dim(w.address)) return false;
    return split_conditions();
  }

  void prepare() {
    choose_blocks();
    schedule = "stencil " + std::to_string(block_) + "x" + std::to_string(lanes_);
    const Expr* rows = line_ ? line_->extent : ctx_.integer(1);
    streams_ = line_ && !shared_by_channels() &&
               estimate(line_->extent) * estimate(row_->extent) * estimate(channel_->extent) * 4 > kStreamBytes;
    // A tile of what streams has all channels of its lines.
    axes = {{rows}};
    if (!streams_) axes.insert(axes.begin(), {ctx_.ceildiv(channel_->extent, ctx_.integer(channel_quantum()))});
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : batch) extents.push_back(d->extent);
    extents.insert(extents.end(), {rows, row_->extent, channel_->extent});
    work = k_.takes(kOperationNs / lanes_, extents, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>& ranges) override {
    const auto [r_lo, r_hi] = ranges.back();
    if (streams_) return s_.with_for(line_, r_lo, r_hi, 1, [&] { line_with_channels_inside(ctx_.integer(0), channel_->extent); });
    const auto [c_lo, c_hi] = points_of(k_, ranges[0], channel_quantum(), channel_->extent);
    channels(c_lo, c_hi, [&, r_lo = r_lo, r_hi = r_hi](const std::function<void()>& each) {
      if (!line_) return each();
      s_.with_for(line_, r_lo, r_hi, 1, each);
    });
  }
  int64_t channel_quantum() const { return std::max<int64_t>(lanes_, 64 / bytes_of(n_.writes[0].dtype)); }  // whole cache lines

  Facts& facts() { return s_.facts; }

  // Whether what is read along channels lies close there: a block holds all it reads in registers, and elements gathered from
  // far apart (the columns of a transposed matrix) are too many.
  bool close() {
    bool fits = true;
    ir::walk(fold_->args[0], [&](const Expr* e) {
      if (e->op != Op::Load || !facts().depends(e, channel_)) return;
      const Expr* leaf[] = {ctx_.dim(channel_)};
      const auto lin = e->args.size() == 1 ? ir::linear_in(ctx_, e->args[0], leaf) : std::nullopt;
      const Expr* step = lin ? lin->coefficients[0] : nullptr;
      fits &= step && step->is_const() && std::abs(step->i) <= kMaxStride;
    });
    return fits;
  }

  // Whether a row's inputs are the same for every channel (a product with few taps): with channels innermost, all inputs of
  // a block would be taken out of that loop, into more vectors than there are registers or stack.
  bool shared_by_channels() {
    bool shared = false;
    ir::walk(fold_->args[0], [&](const Expr* e) {
      if (e->op == Op::Load && facts().depends(e, row_) && !facts().depends(e, channel_)) shared = true;
    });
    return shared;
  }

  // The one fold along channels; others (the count of an average) may stand beside it.
  bool find_fold(const Expr* value) {
    bool fits = true;
    ir::walk(value, [&](const Expr* e) {
      if (e->op != Op::Fold || !facts().depends(e, channel_)) return;
      fits &= fold_ == nullptr;
      fold_ = e;
    });
    if (!fold_ || !fits || fold_->args.size() != 1) return false;
    Join j = fold_->fold->combiner->join;
    if (j != Join::Sum && j != Join::Max && j != Join::Min) return false;
    return (n_.folds_anywhere || is_unconditional(value, fold_)) && !facts().has_fold(fold_->args[0]);
  }

  // Rows of outputs run along the next dim in memory; the one after it counts the rows.
  bool find_row_dim(const Expr* address) {
    std::vector<std::pair<double, const ir::Dim*>> strides;
    for (const ir::Dim* d : n_.dims) {
      if (d == channel_) continue;
      const Expr* leaf[] = {ctx_.dim(d)};
      auto lin = ir::linear_in(ctx_, address, leaf);
      if (!lin || facts().dims(lin->coefficients[0])) return false;
      strides.emplace_back(std::abs(estimate(lin->coefficients[0])), d);
    }
    std::stable_sort(strides.begin(), strides.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (auto& [stride, d] : strides) {
      if (!row_ && facts().depends(fold_, d)) row_ = d;
      else if (row_ && !line_) line_ = d;
      else batch.push_back(d);
    }
    return row_ != nullptr;
  }

  bool split_conditions() {
    DimSet column_dims = facts().bit(row_);
    for (const Expr* term : conjuncts(ctx_, fold_->fold->where)) {
      bool affine = (term->op == Op::Lt || term->op == Op::Le) && term->args[0]->type.dtype == DType::I64;
      if (!affine || facts().depends(term, channel_) || facts().needs_guard(term)) return false;
      (facts().depends(term, row_) ? row_terms_ : line_terms_).push_back(term);
    }
    int64_t combinations = 1;
    for (const ir::Dim* d : fold_->fold->dims) {
      bool column = false;
      for (const Expr* term : row_terms_) column |= facts().depends(term, d);
      // Without conditions on the row, the innermost window dim is the one to unroll.
      if (row_terms_.empty()) column = d == fold_->fold->dims.back();
      if (!column) {
        line_taps_.push_back(d);
        continue;
      }
      if (!d->extent->is_const() || d->extent->i < 1) return false;
      combinations *= d->extent->i;
      if (combinations > kMaxColumnTaps) return false;
      column_taps_.push_back(d);
      column_dims |= facts().bit(d);
    }
    if (column_taps_.empty()) return false;
    num_columns_ = combinations;
    for (const Expr* term : row_terms_)
      if (facts().dims(term) & ~column_dims) return false;
    if (!taps_are_bounds()) return false;
    int64_t window = combinations;
    unroll_lines_ = true;
    for (const ir::Dim* d : line_taps_) {
      if (!d->extent->is_const() || d->extent->i > kMaxUnrolledWindow) {
        unroll_lines_ = false;
        break;
      }
      window *= d->extent->i;
    }
    unroll_lines_ &= window <= kMaxUnrolledWindow;
    for (const Expr* term : line_terms_) {
      bool tap = false;
      for (const ir::Dim* d : line_taps_) tap |= facts().depends(term, d);
      for (const ir::Dim* d : column_taps_) tap &= !facts().depends(term, d);
      if (!tap) return false;
    }
    return true;
  }

  // Blocks read a tap for all of their outputs: what decides about it must be a bound of the row, for every tap.
  bool taps_are_bounds() {
    for (const Expr* term : row_terms_)
      for (int64_t combo = 0; combo < num_columns_; ++combo) {
        const Expr* at = at_taps(term, combo);
        if (!at->is_const() && !bound_of(ctx_, at, row_)) return false;
        if (at->is_const() && !at->i) return false;
      }
    return true;
  }

  // ---- blocks of a row ----

  void choose_blocks() {
    int64_t most = job_.target.vector_registers >= 32 ? 8 : 4;
    block_ = most;
    if (!row_->extent->is_const()) return;
    int64_t n = std::max<int64_t>(row_->extent->i, 1);
    num_blocks_ = (n + most - 1) / most;
    block_ = (n + num_blocks_ - 1) / num_blocks_;
    base_ = n / num_blocks_;
    extra_ = n - base_ * num_blocks_;
    bool constant = n <= 4096;
    for (const Expr* term : row_terms_)
      ir::walk(term, [&](const Expr* e) { constant &= e->op != Op::Sym && e->op != Op::Load; });
    if (!constant) return;
    edges_.assign(static_cast<size_t>(num_blocks_), false);
    for (int64_t i = 0; i < num_blocks_; ++i)
      for (int64_t combo = 0; combo < num_columns_; ++combo) {
        int64_t first = i * base_ + std::min(i, extra_), last = first + base_ + (i < extra_) - 1;
        if (!reaches(first, combo) || !reaches(last, combo)) edges_[static_cast<size_t>(i)] = true;
      }
    static_rows_ = static_cast<size_t>(std::count(edges_.begin(), edges_.end(), true)) <= kMaxEdgeBlocks;
  }

  int64_t tap_value(size_t k, int64_t combo) const {
    for (size_t j = column_taps_.size(); j-- > k + 1;) combo /= column_taps_[j]->extent->i;
    return combo % column_taps_[k]->extent->i;
  }
  const Expr* at_taps(const Expr* term, int64_t combo) {
    std::unordered_map<const Expr*, const Expr*> at;
    for (size_t k = 0; k < column_taps_.size(); ++k) at[ctx_.dim(column_taps_[k])] = ctx_.integer(tap_value(k, combo));
    return ctx_.substitute(term, at);
  }
  bool reaches(int64_t position, int64_t combo) {
    for (const Expr* term : row_terms_) {
      const Expr* holds = ctx_.substitute(at_taps(term, combo), {{ctx_.dim(row_), ctx_.integer(position)}});
      if (!holds->is_const() || !holds->i) return false;
    }
    return true;
  }

  // Channels lo .. hi as vectors, then what is left over, around `lines`, which is told what to do for each line.
  // Vectors that share a cache line go through a line together, else each would fetch it anew.
  void channels(const Expr* lo, const Expr* hi, const std::function<void(const std::function<void()>&)>& lines) {
    const int64_t group = std::max<int64_t>(lanes_, 64 / bytes_of(n_.writes[0].dtype));
    auto [end, exact] = whole_vectors(lo, hi);
    if (group == lanes_) {
      s_.with_for(channel_, lo, end, lanes_,
                  [&] { lines([&] { s_.vectorised(channel_, lanes_, nullptr, [&] { line(); }); }); });
    } else {
      k_.b.with_for(lo, end, group, [&, end = end](const Expr* first) {
        s_.scoped([&] {
          const Expr* last = k_.b.let(ctx_.min(ctx_.add(first, ctx_.integer(group)), end));
          lines([&] {
            s_.with_for(channel_, first, last, lanes_,
                        [&] { s_.vectorised(channel_, lanes_, nullptr, [&] { line(); }); });
          });
        });
      });
    }
    if (exact) return;
    if (!job_.target.has_masks)  // one channel at a time, through the fold's ordinary loops
      return lines([&] {
        leftover(end, hi, [&] {
          s_.with_for(row_, ctx_.integer(0), row_->extent, 1, [&] { emit_writes(s_, k_.b, n_, nullptr); });
        });
      });
    k_.b.with_if(ctx_.binary(Op::Lt, end, hi), [&] {
      s_.scoped([&] {
        const Expr* exists = lanes_below(end, hi);
        lines([&] {
          s_.scoped([&] {
            s_.bind(channel_, end);
            s_.vectorised(channel_, lanes_, exists, [&] { line(); });
          });
        });
      });
    });
  }
  // Large images come from memory: then channels are innermost, so that they are read in the order in which they lie.
  void line_with_channels_inside(const Expr* lo, const Expr* hi) {
    inner_channels_ = [this, lo, hi](const std::function<void()>& vector, const std::function<void()>& one) {
      auto [end, exact] = whole_vectors(lo, hi);
      s_.with_for(channel_, lo, end, lanes_, [&] { s_.vectorised(channel_, lanes_, nullptr, vector); });
      if (exact) return;
      if (!job_.target.has_masks) return leftover(end, hi, one);
      k_.b.with_if(ctx_.binary(Op::Lt, end, hi), [&] {
        s_.scoped([&] {
          s_.bind(channel_, end);
          s_.vectorised(channel_, lanes_, lanes_below(end, hi), vector);
        });
      });
    };
    line();
    inner_channels_ = nullptr;
  }

  std::pair<const Expr*, bool> whole_vectors(const Expr* lo, const Expr* hi) {
    const Expr* span = ctx_.max(ctx_.sub(hi, lo), ctx_.integer(0));
    const Expr* end = k_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(span, ctx_.integer(lanes_)), ctx_.integer(lanes_))));
    return {end, channel_->extent->is_const() && channel_->extent->i % lanes_ == 0};
  }
  const Expr* lanes_below(const Expr* first, const Expr* limit) {
    return k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, first, lanes_), loop::splat(ctx_, limit, lanes_)));
  }
  void leftover(const Expr* from, const Expr* to, const std::function<void()>& body) {
    s_.with_for(channel_, from, to, 1, body);
  }

  // All outputs of one row, for one vector of channels.
  void line() {
    if (!unroll_lines_ || line_taps_.empty()) return row(false);
    // Whether the window lies inside the image vertically: then all of it is unrolled.
    const Expr* inside = ctx_.boolean(true);
    for (const Expr* term : line_terms_)
      for (int corner = 0; corner < 2; ++corner) {
        std::unordered_map<const Expr*, const Expr*> at;
        for (const ir::Dim* d : line_taps_) at[ctx_.dim(d)] = ctx_.integer(corner ? d->extent->i - 1 : 0);
        inside = ctx_.binary(Op::And, inside, s_.value(ctx_.substitute(term, at)));
      }
    k_.b.with_if(inside, [&] { s_.scoped([&] { row(true); }); }, [&] { s_.scoped([&] { row(false); }); });
  }

  void row(bool unrolled) {
    if (static_rows_) {
      for (int64_t i = 0; i < num_blocks_;) {
        int64_t size = base_ + (i < extra_), first = i * base_ + std::min(i, extra_);
        if (edges_[static_cast<size_t>(i)]) {
          s_.scoped([&] { block(ctx_.integer(first), size, unrolled, true); });
          ++i;
          continue;
        }
        int64_t stop = i;
        while (stop < num_blocks_ && !edges_[static_cast<size_t>(stop)] && base_ + (stop < extra_) == size) ++stop;
        auto body = [&](const Expr* at) { s_.scoped([&] { block(at, size, unrolled, false); }); };
        if (stop - i == 1) body(ctx_.integer(first));
        else k_.b.with_for(ctx_.integer(first), ctx_.integer(first + (stop - i) * size), size, body);
        i = stop;
      }
      return;
    }
    // Outputs that the window reaches completely lie in lo .. hi.
    const Expr *lo = ctx_.integer(0), *hi = row_->extent;
    for (const Expr* term : row_terms_)
      for (int64_t combo = 0; combo < num_columns_; ++combo) {
        auto bound = bound_of(ctx_, at_taps(term, combo), row_);
        if (!bound) continue;  // holds for all of the row
        if (bound->begin) lo = ctx_.max(lo, bound->begin);
        if (bound->end) hi = ctx_.min(hi, bound->end);
      }
    lo = k_.b.let(ctx_.min(s_.value(lo), s_.value(row_->extent)));
    hi = k_.b.let(ctx_.max(s_.value(hi), lo));
    auto one_by_one = [&](const Expr* from, const Expr* to) {
      auto body = [&] { emit_writes(s_, k_.b, n_, nullptr); };
      s_.with_for(row_, from, to, 1, [&] { inner_channels_ ? inner_channels_(body, body) : body(); });
    };
    one_by_one(ctx_.integer(0), lo);
    const Expr* blocks =
        k_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(ctx_.sub(hi, lo), ctx_.integer(block_)), ctx_.integer(block_))));
    k_.b.with_for(lo, blocks, block_, [&](const Expr* at) { s_.scoped([&] { block(at, block_, unrolled, false); }); });
    k_.b.with_for(blocks, hi, 1, [&](const Expr* at) { s_.scoped([&] { block(at, 1, unrolled, false); }); });
    one_by_one(hi, row_->extent);
  }

  void block(const Expr* first, int64_t size, bool unrolled, bool pruned) {
    if (!inner_channels_) return block_of_vector(first, size, unrolled, pruned);
    inner_channels_([&] { block_of_vector(first, size, unrolled, pruned); }, [&] {
      s_.with_for(row_, first, ctx_.add(first, ctx_.integer(size)), 1, [&] { emit_writes(s_, k_.b, n_, nullptr); });
    });
  }

  // `size` neighbouring outputs. `pruned`: `first` is a constant, and taps that do not reach an output are left out.
  void block_of_vector(const Expr* first, int64_t size, bool unrolled, bool pruned) {
    const ir::Combiner& c = *fold_->fold->combiner;
    std::vector<const Expr*> acc;
    for (int64_t q = 0; q < size; ++q)
      acc.push_back(k_.b.local(loop::splat(ctx_, s_.value(unit_of(ctx_, c, 0, fold_->type.dtype)), s_.lanes())));
    line_window(0, unrolled, [&] {
      for (int64_t combo = 0; combo < num_columns_; ++combo)
        for (int64_t q = 0; q < size; ++q) {
          if (pruned && !reaches(first->i + q, combo)) continue;
          s_.scoped([&] {
            s_.bind(row_, ctx_.add(first, ctx_.integer(q)));
            for (size_t k = 0; k < column_taps_.size(); ++k)
              s_.bind(column_taps_[k], ctx_.integer(tap_value(k, combo)));
            const Expr* x = s_.value(fold_->args[0]);
            const Expr*& a = acc[static_cast<size_t>(q)];
            k_.b.assign(a, loop::splat(ctx_, s_.join(c, {a}, {x})[0], s_.lanes()));
          });
        }
    });
    for (int64_t q = 0; q < size; ++q)
      s_.scoped([&] {
        s_.bind(row_, ctx_.add(first, ctx_.integer(q)));
        s_.define(fold_, acc[static_cast<size_t>(q)]);
        emit_writes(s_, k_.b, n_, nullptr);
      });
  }

  // The window's other dims: unrolled, or loops with bounds.
  void line_window(size_t level, bool unrolled, const std::function<void()>& body) {
    if (level == line_taps_.size()) return body();
    const ir::Dim* d = line_taps_[level];
    if (unrolled) {
      for (int64_t u = 0; u < d->extent->i; ++u)
        s_.scoped([&] {
          s_.bind(d, ctx_.integer(u));
          line_window(level + 1, true, body);
        });
      return;
    }
    const Expr *begin = ctx_.integer(0), *end = d->extent;
    const Expr* tests = nullptr;
    std::vector<const Expr*> others;
    for (const Expr* term : line_terms_) {
      bool inner = false;
      for (size_t k = level + 1; k < line_taps_.size(); ++k) inner |= facts().depends(term, line_taps_[k]);
      if (inner || !facts().depends(term, d)) continue;
      auto bound = bound_of(ctx_, term, d);
      if (!bound) {
        others.push_back(term);
        continue;
      }
      if (bound->begin) begin = ctx_.max(begin, bound->begin);
      if (bound->end) end = ctx_.min(end, bound->end);
    }
    const Expr* lo = k_.b.let(s_.value(begin));
    const Expr* hi = k_.b.let(s_.value(end));
    s_.with_for(d, lo, hi, 1, [&] {
      for (const Expr* t : others) tests = s_.both(tests, s_.value(t));
      if (!tests) return line_window(level + 1, false, body);
      k_.b.with_if(tests, [&] { s_.scoped([&] { line_window(level + 1, false, body); }); });
    });
  }

  unsigned lanes_ = 1;
  const Expr* fold_ = nullptr;
  const ir::Dim *channel_ = nullptr, *row_ = nullptr, *line_ = nullptr;
  std::vector<const ir::Dim*> column_taps_, line_taps_;   // window dims that the row's conditions mention, and others
  std::vector<const Expr*> row_terms_, line_terms_;
  int64_t num_columns_ = 1;
  std::function<void(const std::function<void()>&, const std::function<void()>&)> inner_channels_;  // null: outside
  bool streams_ = false, unroll_lines_ = false, static_rows_ = false;
  int64_t block_ = 4, num_blocks_ = 0, base_ = 0, extra_ = 0;
  std::vector<bool> edges_;
};

}  // namespace

StagePtr stencil(const Job& job, const FlatNest& nest, Skeleton& k) {
  auto stage = std::make_unique<Stencil>(job, nest, k);
  if (!stage->recognise()) return nullptr;
  stage->prepare();
  return stage;
}

}  // namespace mlc::lower
