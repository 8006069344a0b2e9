// Products whose weights are computed where they are needed: codes of any kind in memory (4 bits in blocks, with a scale each), numbers
// in registers, never a matrix of them.
//
//   panel of sixteen columns       its codes stay in L1
//     row tile                     as many rows as accumulators allow: what decodes a vector of weights serves all of them
//       k, some elements at once   which of them share a byte, a scale or a zero point is known then
//
// A quantum of rows is one whole tile. What is left of the rows behind the last one goes in lower tiles, the same for any cut.
#include <algorithm>

#include "packager/lower/product/tiled_product.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kMostSteps = 8;  // elements of k at once
constexpr int64_t kMostRows = 12;

const Expr* rows_of(ir::Context& ctx, const TiledProduct& c) { return c.m ? c.m->extent : ctx.integer(1); }

// A sum along one dim, whose columns are whole panels.
std::optional<TiledProduct> find_decoded(ir::Context& ctx, const FlatNest& nest) {
  const auto product = computed_product_of(ctx, nest);
  if (!product || product->acc() != DType::F32 || product->sum_of_a || product->sum_of_b) return std::nullopt;
  Facts facts;
  const ir::Fold& fold = *product->fold->fold;
  if (fold.where || fold.dims.size() != 1 || facts.needs_guard(product->fold) || !product->batch.empty() || product->n.size() != 1) return std::nullopt;
  TiledProduct r;
  r.product = *product;
  r.k = fold.dims[0];
  r.n = product->n[0];
  if (!r.k->extent->is_const() || r.k->extent->i < 1 || !r.n->extent->is_const() || r.n->extent->i % nest::kPanel != 0) return std::nullopt;
  for (const ir::Dim* d : product->m)
    if (facts.depends(r.a(), d) && (!r.m || estimate(d->extent) > estimate(r.m->extent))) r.m = d;
  std::vector<const Expr*> leaves{ctx.dim(r.k)};
  if (r.m) leaves.push_back(ctx.dim(r.m));
  const auto address = ir::linear_in(ctx, r.a()->args[0], leaves);
  if (!address) return std::nullopt;
  r.a_rest = address->rest;
  r.a_k = address->coefficients[0];
  r.a_m = r.m ? address->coefficients[1] : ctx.integer(0);
  for (const ir::Dim* d : nest.dims)
    if (d != r.n && d != r.m) r.batch.push_back(d);
  return r;
}

class Decoded final : public Stage {
 public:
  Decoded(const Job& job, const FlatNest& nest, Skeleton& k, TiledProduct r, const schedule::Schedule& how) : Stage(job, nest, k), r_(std::move(r)) {
    schedule = schedule::print(how);
    for (const schedule::Loop& l : how.loops) {
      if (l.bind == schedule::Bind::Lanes) lanes_ = static_cast<unsigned>(l.step), vectors_ = l.count;
      if (l.bind == schedule::Bind::Rows) rows_ = static_cast<unsigned>(l.step);
      if (l.reduces) take_apart(l.count);
      if (l.reduces) most_chains_ = l.chains;
    }
    batch = r_.batch;
    const Expr *rows = rows_of(ctx_, r_), *depth = r_.k->extent, *tile = ctx_.integer(rows_);
    if (r_.m) axes.push_back({ctx_.ceildiv(rows, tile), ctx_.mul(ctx_.mul(ctx_.integer(4), depth), tile)});
    axes.push_back({panel_->extent, ctx_.mul(ctx_.integer(nest::kPanel), depth)});
    std::vector<const Expr*> extents{rows, r_.n->extent, depth};
    for (const ir::Dim* d : batch) extents.push_back(d->extent);
    work = k_.takes(job_.processor().decoded_step_ns / lanes_, extents);
  }

 private:
  // The weight at column 16*panel + lane and at each of the elements of k that are taken at once.
  void take_apart(unsigned steps) {
    panel_ = ctx_.declare_dim("panel", ctx_.integer(r_.n->extent->i / nest::kPanel));
    lane_ = ctx_.declare_dim("lane", ctx_.integer(nest::kPanel));
    turn_ = ctx_.declare_dim("turn", ctx_.integer(r_.k->extent->i / steps));
    const Expr* column = ctx_.add(ctx_.mul(ctx_.integer(nest::kPanel), ctx_.dim(panel_)), ctx_.dim(lane_));
    for (unsigned u = 0; u < steps; ++u) {
      const Expr* k = ctx_.add(ctx_.mul(ctx_.integer(steps), ctx_.dim(turn_)), ctx_.integer(u));
      weights_.push_back(ctx_.substitute(r_.product.b.factor, {{ctx_.dim(r_.n), column}, {ctx_.dim(r_.k), k}}));
    }
  }

  void part(const std::vector<Range>& ranges) override {
    s_.with_for(panel_, ranges.back().begin, ranges.back().end, 1, [&] {
      if (!r_.m) return rows(ctx_.integer(0));
      k_.b.with_for(ranges[0].begin, ranges[0].end, 1, [&](const Expr* tile) { s_.scoped([&] { rows(tile); }); });
    });
  }

  void rows(const Expr* tile_index) {
    const Expr *first = k_.b.let(ctx_.mul(tile_index, ctx_.integer(rows_))), *all = s_.scalar(rows_of(ctx_, r_));
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
    const unsigned chains = chains_for(height, vectors_, most_chains_);
    std::vector<const Expr*> sums, row_at;
    const Expr* zero = loop::splat(ctx_, ctx_.number(0, DType::F32), lanes_);
    for (unsigned k = 0; k < chains * height * vectors_; ++k) sums.push_back(k_.b.local(zero));
    const Expr *base = s_.scalar(r_.a_rest), *stride = s_.scalar(r_.a_m), *along = s_.scalar(r_.a_k);
    for (unsigned r = 0; r < height; ++r) row_at.push_back(k_.b.let(ctx_.add(base, ctx_.mul(stride, ctx_.add(first, ctx_.integer(r))))));
    const auto steps = static_cast<unsigned>(weights_.size());
    s_.with_for(turn_, ctx_.integer(0), turn_->extent, 1, [&] {
      const Expr* k = ctx_.mul(s_.bound(turn_), ctx_.integer(steps));
      for (unsigned u = 0; u < steps; ++u) {
        std::vector<const Expr*> w;
        for (unsigned j = 0; j < vectors_; ++j) w.push_back(weight(u, j));
        for (unsigned r = 0; r < height; ++r) {
          const Expr* at = ctx_.add(row_at[r], ctx_.mul(along, ctx_.add(k, ctx_.integer(u))));
          const Expr* a = loop::splat(ctx_, ctx_.cast(DType::F32, loop::vec_load(ctx_, r_.a()->array, {r_.a()->type.dtype, 1}, at)), lanes_);
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
      if (r_.m) s_.bind(r_.m, row);
      s_.bind(r_.n, ctx_.add(ctx_.mul(s_.bound(panel_), ctx_.integer(nest::kPanel)), ctx_.integer(j * int64_t{lanes_})));
      const auto finish = [&] {
        s_.define(r_.fold(), total);
        emit_writes(s_, k_.b, n_, nullptr);
      };
      lanes_ > 1 ? s_.vectorised(r_.n, lanes_, nullptr, finish) : finish();
    });
  }

  const TiledProduct r_;
  const ir::Dim *panel_ = nullptr, *lane_ = nullptr, *turn_ = nullptr;
  std::vector<const Expr*> weights_;
  unsigned lanes_ = 1, vectors_ = 1, rows_ = 1, most_chains_ = 1;
};

}  // namespace

std::optional<Schedules> decoded_products(const Job& job, const FlatNest& nest) {
  auto found = find_decoded(job.ctx, nest);
  if (!found) return std::nullopt;
  const TiledProduct& r = *found;
  const int64_t lanes = std::min<int64_t>(nest::kPanel, job.f32_lanes()), vectors = nest::kPanel / lanes;
  int64_t rows = std::max<int64_t>(1, (job.target.vector_registers >= 32 ? 16 : 8) / vectors);
  if (rows == 16) rows = kMostRows;
  if (r.m && r.m->extent->is_const()) rows = std::clamp<int64_t>(r.m->extent->i, 1, rows);
  int64_t steps = kMostSteps;
  while (r.k->extent->i % steps != 0) steps /= 2;

  Schedules s;
  s.space.family = schedule::Family::Decoded;
  schedule::Schedule how{.family = schedule::Family::Decoded, .vector_bytes = job.vector_bytes()};
  DimNames names;
  std::vector<schedule::Loop> inner;
  const auto add = [&](const std::string& name, const Expr* extent) -> schedule::Space::Dim& {
    schedule::Space::Dim& d = s.space.dims.emplace_back();
    d.name = name;
    d.extent = extent->is_const() ? extent->i : -1;
    d.cut = true;
    d.serial = false;
    return d;
  };
  for (const ir::Dim* d : r.batch) {
    const std::string name = names.add(d);
    add(name, d->extent);
    how.loops.push_back({.dim = name, .bind = schedule::Bind::Cut});
  }
  if (r.m) {
    const std::string name = names.add(r.m);
    add(name, r.m->extent).rows = true;
    how.loops.push_back({.dim = name, .step = rows, .bind = schedule::Bind::Cut});
    inner.push_back({.dim = name, .step = rows, .bind = schedule::Bind::Rows, .tail = schedule::Tail::One});
  }
  const std::string columns = names.add(r.n), depth = names.add(r.k);
  schedule::Space::Dim& n = add(columns, r.n->extent);
  n.lanes = static_cast<unsigned>(lanes);
  n.masked = true;
  how.loops.push_back({.dim = columns, .step = nest::kPanel, .bind = schedule::Bind::Cut});
  how.loops.push_back({.dim = columns, .step = lanes, .bind = schedule::Bind::Lanes, .count = static_cast<unsigned>(vectors)});
  how.loops.insert(how.loops.end(), inner.begin(), inner.end());
  schedule::Space::Dim& k = add(depth, r.k->extent);
  k.cut = false;
  k.reduces = k.part = k.exact = true;
  how.loops.push_back({.dim = depth, .bind = schedule::Bind::Unroll, .count = static_cast<unsigned>(steps), .chains = job.processor().sums_in_flight(), .reduces = true});
  how.instruction = "fma.f32";
  s.space.needs_lanes = true;
  s.space.needs_rows = r.m != nullptr;
  s.space.panel = nest::kPanel;
  s.space.most_vectors = static_cast<unsigned>(nest::kPanel);
  s.space.instructions = {how.instruction};
  s.ranked.push_back(std::move(how));
  s.build = [&job, &nest, r = std::move(*found)](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
    return std::make_unique<Decoded>(job, nest, k, r, how);
  };
  return s;
}

}  // namespace mlc::lower
