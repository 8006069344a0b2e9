// Maps that read an array across its grain: the write is contiguous along `across`, a load of it along `along`. Blocks of
// both are read in the order in which they lie into scratch memory, which stays in L1, and taken from there the other way,
// so that every cache line is read and written once. One at a time, such loads touch a line per element, and lines a power of
// two apart push each other out.
#include <algorithm>

#include "packager/lower/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

class Transpose final : public Stage {
 public:
  using Stage::Stage;

  bool recognise() {
    if (n_.writes.size() != 1 || n_.writes[0].push || n_.writes[0].in_range || n_.scan_dim || n_.where) return false;
    const FlatWrite& w = n_.writes[0];
    across_ = contiguous_dim(ctx_, n_);
    lanes_ = std::min(16u, natural_lanes(job_.target, n_));
    if (!across_ || lanes_ < 4 || s_.facts.has_fold(w.value)) return false;
    double longest = 0;
    for (const ir::Dim* d : n_.dims)
      if (d != across_ && crossed_loads(d).size() > 0 && estimate(d->extent) > longest) {
        longest = estimate(d->extent);
        along_ = d;
      }
    if (!along_ || longest < lanes_ || estimate(across_->extent) < lanes_) return false;
    loads_ = crossed_loads(along_);
    return true;
  }

  void prepare() {
    schedule = "transpose x" + std::to_string(lanes_);
    const int64_t line = 64 / bytes_of(n_.writes[0].dtype);
    height_ = (std::max<int64_t>(line, lanes_) + lanes_ - 1) / lanes_ * lanes_;
    for (const Expr* load : loads_)
      scratch_.push_back(k_.scratch("block" + std::to_string(scratch_.size() + 1), load->type.dtype, ctx_.integer(height_ * lanes_)));
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : n_.dims) {
      if (d != across_ && d != along_) batch.push_back(d);
      extents.push_back(d->extent);
    }
    axes = {{ctx_.ceildiv(across_->extent, ctx_.integer(height_))}, {ctx_.ceildiv(along_->extent, ctx_.integer(lanes_))}};
    work = k_.takes(kOperationNs / lanes_, extents, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>& ranges) override {
    const auto [row, row_end] = points_of(k_, ranges[0], height_, across_->extent);
    const auto [column, column_end] = points_of(k_, ranges[1], lanes_, along_->extent);
    blocks(row, row_end, column, column_end);
  }

  const Expr* coefficient(const Expr* address, const ir::Dim* d) {
    const Expr* leaf[] = {ctx_.dim(d)};
    const auto linear = ir::linear_in(ctx_, address, leaf);
    return linear && s_.facts.dims(linear->coefficients[0]) == 0 ? linear->coefficients[0] : nullptr;
  }

  // Loads of neighbours along `d` whose next element along `across_` lies elsewhere.
  std::vector<const Expr*> crossed_loads(const ir::Dim* d) {
    std::vector<const Expr*> found;
    ir::walk(n_.writes[0].value, [&](const Expr* e) {
      if (e->op != Op::Load || e->access != ir::Access::Clamped || e->args.size() != 1 || s_.facts.needs_guard(e->args[0])) return;
      const Expr *step = coefficient(e->args[0], d), *stride = coefficient(e->args[0], across_);
      if (step && step->is_int(1) && stride && !stride->is_int(0) && !stride->is_int(1)) found.push_back(e);
    });
    return found;
  }

  const Expr* whole(const Expr* lo, const Expr* hi, int64_t size) {
    const Expr* n = ctx_.integer(size);
    return k_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(ctx_.max(ctx_.sub(hi, lo), ctx_.integer(0)), n), n)));
  }

  void blocks(const Expr* row, const Expr* row_end, const Expr* column, const Expr* column_end) {
    const Expr *full_rows = whole(row, row_end, height_), *full_columns = whole(column, column_end, lanes_);
    k_.b.with_for(row, full_rows, height_, [&](const Expr* first) {
      k_.b.with_for(column, full_columns, lanes_, [&](const Expr* at) { block(first, nullptr, at, nullptr); });
      rest(full_columns, column_end, [&] { block(first, ctx_.add(first, ctx_.integer(height_)), full_columns, column_end); });
    });
    rest(full_rows, row_end, [&] {
      k_.b.with_for(column, full_columns, lanes_, [&](const Expr* at) {
        block(full_rows, row_end, at, ctx_.add(at, ctx_.integer(lanes_)));
      });
      rest(full_columns, column_end, [&] { block(full_rows, row_end, full_columns, column_end); });
    });
  }

  void rest(const Expr* from, const Expr* to, const std::function<void()>& body) {
    const Expr* more = ctx_.binary(Op::Lt, from, to);
    if (more->is_const() && !more->i) return;
    k_.b.with_if(more, [&] { s_.scoped(body); });
  }

  // Rows row .. row_end of columns column .. column_end; ends are null for a whole block.
  void block(const Expr* row, const Expr* row_end, const Expr* column, const Expr* column_end) {
    if (row_end && !job_.target.has_masks) return one_by_one(row, row_end, column, column_end);
    const Expr* last_row = row_end ? row_end : ctx_.add(row, ctx_.integer(height_));
    const Expr* last_column = column_end ? column_end : ctx_.add(column, ctx_.integer(lanes_));
    s_.scoped([&] {
      s_.bind(along_, column);
      const Expr* exists = column_end ? lanes_below(column, column_end) : nullptr;
      s_.with_for(across_, row, last_row, 1, [&] {
        const Expr* at = ctx_.mul(ctx_.sub(s_.bound(across_), row), ctx_.integer(lanes_));
        s_.vectorised(along_, lanes_, exists, [&] {
          for (size_t k = 0; k < loads_.size(); ++k) k_.b.store(scratch_[k], at, s_.value(loads_[k]));
        });
      });
    });
    s_.scoped([&] {
      s_.with_for(along_, column, last_column, 1, [&] {
        const Expr* place = k_.b.let(ctx_.sub(s_.bound(along_), column));
        for (int64_t part = 0; part < height_; part += lanes_) {
          const Expr* first = ctx_.add(row, ctx_.integer(part));
          const auto write = [&] { vector_of_rows(first, part, row_end, place); };
          if (!row_end || part == 0) write();
          else rest(first, row_end, write);
        }
      });
    });
  }

  void vector_of_rows(const Expr* first, int64_t part, const Expr* row_end, const Expr* place) {
    s_.scoped([&] {
      s_.bind(across_, first);
      s_.vectorised(across_, lanes_, row_end ? lanes_below(first, row_end) : nullptr, [&] {
        for (size_t k = 0; k < loads_.size(); ++k) {
          std::vector<const Expr*> elements;
          for (unsigned lane = 0; lane < lanes_; ++lane)
            elements.push_back(loop::vec_load(ctx_, scratch_[k], loads_[k]->type, ctx_.add(place, ctx_.integer((part + lane) * lanes_))));
          s_.define(loads_[k], loop::widen(ctx_, std::move(elements)));
        }
        emit_writes(s_, k_.b, n_, nullptr);
      });
    });
  }

  void one_by_one(const Expr* row, const Expr* row_end, const Expr* column, const Expr* column_end) {
    s_.with_for(across_, row, row_end, 1, [&] {
      s_.with_for(along_, column, column_end, 1, [&] { emit_writes(s_, k_.b, n_, nullptr); });
    });
  }

  const Expr* lanes_below(const Expr* first, const Expr* limit) {
    return k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, first, lanes_), loop::splat(ctx_, limit, lanes_)));
  }

  const ir::Dim *across_ = nullptr, *along_ = nullptr;  // contiguous in the write; in the loads
  unsigned lanes_ = 1;
  int64_t height_ = 16;  // of a block along `across_`: whole cache lines of the write; its width is a vector
  std::vector<const Expr*> loads_;
  std::vector<uint32_t> scratch_;  // one per load
};

}  // namespace

StagePtr transpose(const Job& job, const FlatNest& nest, Skeleton& k) {
  auto stage = std::make_unique<Transpose>(job, nest, k);
  if (!stage->recognise()) return nullptr;
  stage->prepare();
  return stage;
}

}  // namespace mlc::lower
