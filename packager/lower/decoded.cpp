// Products whose weights are computed where they are needed: codes of any kind in memory (4 bits in blocks, with a scale each), numbers
// in registers, never a matrix of them.
//
//   panel of sixteen columns       its codes stay in L1
//     row tile                     as many rows as accumulators allow: what decodes a vector of weights serves all of them
//       k, some elements at once   which of them share a byte, a scale or a zero point is known then
//
// A quantum of rows is one whole tile. What is left of the rows behind the last one goes in lower tiles, the same for any cut.
#include <algorithm>

#include "packager/lower/contraction.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr unsigned kMostSteps = 8;  // elements of k at once
constexpr double kStepNs = 0.3;     // of a vector

const Expr* element(const Expr* e) {
  if (e->op == Op::Cast && e->type.dtype == DType::F32) e = e->args[0];
  return e->op == Op::Load && is_float(e->type.dtype) ? e : nullptr;
}

class Decoded final : public Stage {
 public:
  using Stage::Stage;

  bool recognise() {
    if (n_.writes.size() != 1 || n_.writes[0].push || n_.scan_dim || n_.where) return false;
    size_t folds = 0;
    ir::walk(n_.writes[0].value, [&](const Expr* e) {
      if (e->op == Op::Fold) fold_ = e, ++folds;
    });
    if (folds != 1 || fold_->type.dtype != DType::F32 || fold_->fold->combiner->join != ir::Join::Sum || fold_->fold->where) return false;
    if (fold_->fold->dims.size() != 1 || fold_->args[0]->op != Op::Mul || s_.facts.needs_guard(fold_)) return false;
    k_dim_ = fold_->fold->dims[0];
    if (!k_dim_->extent->is_const()) return false;
    const Expr* const* factors = fold_->args[0]->args.data();
    return factors_are(factors[0], factors[1]) || factors_are(factors[1], factors[0]);
  }

  void prepare() {
    lanes_ = std::min<unsigned>(nest::kPanel, std::max(1u, job_.target.f32_lanes()));
    vectors_ = nest::kPanel / lanes_;
    rows_ = std::max(1u, (job_.target.vector_registers >= 32 ? 16 : 8) / vectors_);
    if (rows_ == 16) rows_ = 12;
    if (extent_of_rows()->is_const()) rows_ = static_cast<unsigned>(std::clamp<int64_t>(extent_of_rows()->i, 1, rows_));
    schedule = "decoded " + std::to_string(rows_) + "x" + std::to_string(nest::kPanel);
    for (const ir::Dim* d : n_.dims)
      if (d != n_dim_ && d != m_dim_) batch.push_back(d);
    const Expr *rows = extent_of_rows(), *depth = k_dim_->extent, *tile = ctx_.integer(rows_);
    axes = {{ctx_.ceildiv(rows, tile), ctx_.mul(ctx_.mul(ctx_.integer(4), depth), tile)}, {panel_->extent, ctx_.mul(ctx_.integer(nest::kPanel), depth)}};
    std::vector<const Expr*> extents{rows, n_dim_->extent, depth};
    for (const ir::Dim* d : batch) extents.push_back(d->extent);
    work = k_.takes(kStepNs / lanes_, extents);
  }

 private:
  bool factors_are(const Expr* a, const Expr* w) {
    a_ = element(a);
    if (!a_ || element(w) || s_.facts.has_fold(w)) return false;
    n_dim_ = m_dim_ = nullptr;
    for (const ir::Dim* d : n_.dims) {
      if (s_.facts.depends(w, d)) {
        if (n_dim_ || s_.facts.depends(a_, d)) return false;
        n_dim_ = d;
      } else if (s_.facts.depends(a_, d) && (!m_dim_ || estimate(d->extent) > estimate(m_dim_->extent))) {
        m_dim_ = d;
      }
    }
    if (!n_dim_ || !n_dim_->extent->is_const() || n_dim_->extent->i % nest::kPanel != 0) return false;
    std::vector<const Expr*> leaves{ctx_.dim(k_dim_)};
    if (m_dim_) leaves.push_back(ctx_.dim(m_dim_));
    const auto address = ir::linear_in(ctx_, a_->args[0], leaves);
    if (!address) return false;
    a_rest_ = address->rest;
    a_k_ = address->coefficients[0];
    a_m_ = m_dim_ ? address->coefficients[1] : ctx_.integer(0);
    take_apart(w);
    return true;
  }

  // The weight at column 16*panel + lane and at each of the elements of k that are taken at once.
  void take_apart(const Expr* w) {
    unsigned steps = kMostSteps;
    while (k_dim_->extent->i % steps != 0) steps /= 2;
    panel_ = ctx_.declare_dim("panel", ctx_.integer(n_dim_->extent->i / nest::kPanel));
    lane_ = ctx_.declare_dim("lane", ctx_.integer(nest::kPanel));
    turn_ = ctx_.declare_dim("turn", ctx_.integer(k_dim_->extent->i / steps));
    const Expr* column = ctx_.add(ctx_.mul(ctx_.integer(nest::kPanel), ctx_.dim(panel_)), ctx_.dim(lane_));
    for (unsigned u = 0; u < steps; ++u) {
      const Expr* k = ctx_.add(ctx_.mul(ctx_.integer(steps), ctx_.dim(turn_)), ctx_.integer(u));
      weights_.push_back(ctx_.substitute(w, {{ctx_.dim(n_dim_), column}, {ctx_.dim(k_dim_), k}}));
    }
  }

  const Expr* extent_of_rows() { return m_dim_ ? m_dim_->extent : ctx_.integer(1); }

  void part(const std::vector<Range>& ranges) override {
    s_.with_for(panel_, ranges[1].begin, ranges[1].end, 1, [&] {
      k_.b.with_for(ranges[0].begin, ranges[0].end, 1, [&](const Expr* tile) { s_.scoped([&] { rows(tile); }); });
    });
  }

  void rows(const Expr* tile_index) {
    const Expr *first = k_.b.let(ctx_.mul(tile_index, ctx_.integer(rows_))), *all = s_.scalar(extent_of_rows());
    const Expr* whole = ctx_.binary(Op::Le, ctx_.add(first, ctx_.integer(rows_)), all);
    const auto full = [&] { s_.scoped([&] { tile(first, rows_); }); };
    if (ir::divisor_of(all) % rows_ == 0) return full();
    k_.b.with_if(whole, full, [&] {
      const Expr* at = first;
      for (unsigned height = rows_; (height = height > 4 ? 4 : height > 1 ? 1 : 0) > 0;) {
        const Expr *step = ctx_.integer(height), *end = k_.b.let(ctx_.add(at, ctx_.mul(ctx_.floordiv(ctx_.sub(all, at), step), step)));
        k_.b.with_for(at, end, height, [&](const Expr* row) { s_.scoped([&] { tile(row, height); }); });
        at = end;
      }
    });
  }

  void tile(const Expr* first, unsigned height) {
    const unsigned chains = chains_for(height, vectors_);
    std::vector<const Expr*> sums, row_at;
    const Expr* zero = loop::splat(ctx_, ctx_.number(0, DType::F32), lanes_);
    for (unsigned k = 0; k < chains * height * vectors_; ++k) sums.push_back(k_.b.local(zero));
    const Expr *base = s_.scalar(a_rest_), *stride = s_.scalar(a_m_), *along = s_.scalar(a_k_);
    for (unsigned r = 0; r < height; ++r) row_at.push_back(k_.b.let(ctx_.add(base, ctx_.mul(stride, ctx_.add(first, ctx_.integer(r))))));
    const auto steps = static_cast<unsigned>(weights_.size());
    s_.with_for(turn_, ctx_.integer(0), turn_->extent, 1, [&] {
      const Expr* k = ctx_.mul(s_.bound(turn_), ctx_.integer(steps));
      for (unsigned u = 0; u < steps; ++u) {
        std::vector<const Expr*> w;
        for (unsigned j = 0; j < vectors_; ++j) w.push_back(weight(u, j));
        for (unsigned r = 0; r < height; ++r) {
          const Expr* at = ctx_.add(row_at[r], ctx_.mul(along, ctx_.add(k, ctx_.integer(u))));
          const Expr* a = loop::splat(ctx_, ctx_.cast(DType::F32, loop::vec_load(ctx_, a_->array, {a_->type.dtype, 1}, at)), lanes_);
          a = k_.b.let(a);
          for (unsigned j = 0; j < vectors_; ++j) {
            const Expr* sum = sums[((u % chains) * height + r) * vectors_ + j];
            k_.b.assign(sum, loop::vec_fma(ctx_, a, w[j], sum));
          }
        }
      }
    });
    for (unsigned r = 0; r < height; ++r)
      for (unsigned j = 0; j < vectors_; ++j) {
        const Expr* total = sums[r * vectors_ + j];
        for (unsigned chain = 1; chain < chains; ++chain) total = loop::vec_binary(ctx_, Op::Add, total, sums[(chain * height + r) * vectors_ + j]);
        write(ctx_.add(first, ctx_.integer(r)), j, k_.b.let(total));
      }
  }

  const Expr* weight(unsigned u, unsigned j) {
    const Expr* value = nullptr;
    s_.scoped([&] {
      s_.bind(lane_, ctx_.integer(j * int64_t{lanes_}));
      const auto take = [&] { value = k_.b.let(loop::splat(ctx_, s_.value(weights_[u]), lanes_)); };
      lanes_ > 1 ? s_.vectorised(lane_, lanes_, nullptr, take) : take();
    });
    return value;
  }

  void write(const Expr* row, unsigned j, const Expr* total) {
    s_.scoped([&] {
      if (m_dim_) s_.bind(m_dim_, row);
      s_.bind(n_dim_, ctx_.add(ctx_.mul(s_.bound(panel_), ctx_.integer(nest::kPanel)), ctx_.integer(j * int64_t{lanes_})));
      const auto finish = [&] {
        s_.define(fold_, total);
        emit_writes(s_, k_.b, n_, nullptr);
      };
      lanes_ > 1 ? s_.vectorised(n_dim_, lanes_, nullptr, finish) : finish();
    });
  }

  const Expr *fold_ = nullptr, *a_ = nullptr, *a_rest_ = nullptr, *a_k_ = nullptr, *a_m_ = nullptr;
  const ir::Dim *n_dim_ = nullptr, *m_dim_ = nullptr, *k_dim_ = nullptr;  // columns, rows (null: one), what is summed
  const ir::Dim *panel_ = nullptr, *lane_ = nullptr, *turn_ = nullptr;
  std::vector<const Expr*> weights_;
  unsigned lanes_ = 1, vectors_ = 1, rows_ = 1;
};

}  // namespace

StagePtr decoded(const Job& job, const FlatNest& nest, Skeleton& k) {
  auto stage = std::make_unique<Decoded>(job, nest, k);
  if (!stage->recognise()) return nullptr;
  stage->prepare();
  return stage;
}

}  // namespace mlc::lower
