// Few rows of a product (a matrix times a vector): a block has all rows of some columns. Each lane has one column and every so-manieth
// step of the depth, so that neighbouring lanes read neighbours: of a panel whole lines, of columns that lie along the depth a part of
// it. What the lanes of a column summed is added up in their order, whatever the device does first.
#include "packager/lower/device/product/product.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {


class ProductSlices final : public ProductStage {
 public:
  ProductSlices(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how)
      : ProductStage(job, nest, k, p, how), tile_(how_.tile) {
    grid.push_back(ctx_.ceildiv(p_.columns.points, ctx_.integer(tile_.columns)));
    if (p_.cluster) grid.push_back(p_.cluster->extent);
    // Lanes of a warp have neighbouring columns, then neighbouring slices: together they reach every bank once.
    const int64_t row = tile_.rows * tile_.columns, banks = job_.device().banks;
    slice_ = row + ((tile_.columns - row) % banks + banks) % banks;
    memory_ = k_.shared("slices", p_.sum(), slice_ * tile_.depth);
    if (p_.cluster) sums_of_block_ = k_.shared("sums", p_.sum(), row);
  }

 private:
  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    bind_batch(at);
    const Expr *width = ctx_.integer(tile_.columns), *first = k_.b.let(ctx_.mul(at[p_.batch.size()], width));
    const Expr *column = k_.b.let(ctx_.floormod(lane, width)), *slice = k_.b.let(ctx_.floordiv(lane, width));
    sums_.clear();
    for (int64_t r = 0; r < tile_.rows; ++r) sums_.push_back(k_.b.local(zero()));
    s_.scoped([&] {
      bind_point(p_.columns, existing(p_.columns, ctx_.add(first, column), tile_.columns));
      over_outer([&] { add_products(slice); });
    });
    for (int64_t r = 0; r < tile_.rows; ++r)
      k_.b.store(memory_, place(slice, ctx_.add(ctx_.integer(r * tile_.columns), column)), sums_[static_cast<size_t>(r)]);
    k_.b.append(loop::StmtKind::Barrier);
    if (p_.cluster) {
      each_point(lane, kSliceLanes, [&](const Expr* point) { k_.b.store(sums_of_block_, point, sum_of_slices(point)); });
      meet_cluster();
    }
    finish_points(first, lane);
    if (p_.cluster) meet_cluster();
  }

  const Expr* place(const Expr* slice, const Expr* point) { return ctx_.add(ctx_.mul(slice, ctx_.integer(slice_)), point); }

  // The row, or the last one where the run has not so many.
  void bind_row(int64_t r) {
    const Expr* row = ctx_.integer(r);
    bind_point(p_.rows, p_.rows.points->is_const() ? row : k_.b.let(ctx_.min(row, ctx_.sub(p_.rows.points, ctx_.integer(1)))));
  }

  void add_products(const Expr* slice) {
    const Reached column = reach(p_.columns);
    std::vector<Reached> rows;
    for (int64_t r = 0; r < tile_.rows; ++r)
      s_.scoped([&] {
        bind_row(r);
        rows.push_back(reach(p_.rows));
      });
    const auto step = [&](const Expr* k) {
      const Expr* b = element(p_.columns, column, k, nullptr);
      for (int64_t r = 0; r < tile_.rows; ++r)
        s_.scoped([&] {
          bind_row(r);
          const Expr* sum = sums_[static_cast<size_t>(r)];
          k_.b.assign(sum, multiply_add(sum, element(p_.rows, rows[static_cast<size_t>(r)], k, nullptr), b));
        });
    };
    const int64_t turn = tile_.depth * tile_.copies;
    const Expr* whole = k_.b.let(ctx_.mul(ctx_.floordiv(p_.depth_points, ctx_.integer(turn)), ctx_.integer(turn)));
    k_.b.with_rolled_for(ctx_.integer(0), whole, turn, [&](const Expr* first) {
      const Expr* mine = k_.b.let(ctx_.add(first, slice));
      unrolled(tile_.copies, [&](const Expr* u) { step(ctx_.add(mine, ctx_.mul(u, ctx_.integer(tile_.depth)))); });
    });
    if (ir::divisor_of(p_.depth_points) % turn != 0) k_.b.with_for(ctx_.add(whole, slice), p_.depth_points, tile_.depth, step);
  }

  void each_point(const Expr* first, int64_t step, const std::function<void(const Expr*)>& body) {
    k_.b.with_for(first, ctx_.integer(tile_.rows * tile_.columns), step, body);
  }

  const Expr* sum_of_slices(const Expr* point) {
    const Expr* sum = k_.b.local(zero());
    unrolled(tile_.depth, [&](const Expr* slice) {
      k_.b.assign(sum, loop::vec_binary(ctx_, Op::Add, sum, loop::vec_load(ctx_, memory_, {p_.sum(), 1}, place(slice, point))));
    });
    return sum;
  }

  // Each lane finishes some points of the block; of a cluster, some of those that all blocks have parts of.
  void finish_points(const Expr* first, const Expr* lane) {
    const auto one = [&](const Expr* point) {
      const Expr* column = k_.b.let(ctx_.add(first, ctx_.floormod(point, ctx_.integer(tile_.columns))));
      const Expr* row = k_.b.let(ctx_.floordiv(point, ctx_.integer(tile_.columns)));
      const auto there = [&] {
        s_.scoped([&] {
          const Expr* sum = p_.cluster ? sum_of_blocks(sums_of_block_, p_.sum(), point) : sum_of_slices(point);
          bind_point(p_.columns, column);
          bind_point(p_.rows, row);
          finish(sum);
        });
      };
      const Expr* exists = ir::divisor_of(p_.columns.points) % tile_.columns == 0 ? nullptr : ctx_.binary(Op::Lt, column, p_.columns.points);
      if (!p_.rows.points->is_const()) exists = s_.both(exists, ctx_.binary(Op::Lt, row, p_.rows.points));
      if (exists) k_.b.with_if(exists, there);
      else there();
    };
    each_point(p_.cluster ? k_.b.let(ctx_.add(ctx_.mul(lane, ctx_.integer(blocks_)), block_)) : lane, kSliceLanes * blocks_, one);
  }

  const schedule::Tile tile_;
  int64_t slice_ = 0;  // elements of memory
  uint32_t memory_ = 0, sums_of_block_ = 0;
  std::vector<const Expr*> sums_;
};

}  // namespace

StagePtr slices_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how) {
  return std::make_unique<ProductSlices>(job, nest, k, p, how);
}

}  // namespace mlc::lower
