// A tile of a product by a block of 64 lanes, 8 along rows and 8 along columns:
//
//   for the points of the outer folded dims
//     for pieces of the depth
//       each lane brings some elements of one row and of one column, zero where there are none
//       barrier, they go to shared memory, step by step of the depth, barrier
//       each lane adds up the products of its 2 to 8 rows and 2 to 8 columns
//   each lane finishes its sums, which were registers all the time
//
// A lane has rows and columns in fours, side by side: four lanes along rows and eight along columns read 16 bytes each without meeting in
// a bank, and lanes that store have neighbouring rows or columns. So there are no bank conflicts, and nothing has to be swizzled.
#include <algorithm>

#include "packager/lower/device_product.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kVector = 4;

class ProductTile final : public ProductStage {
 public:
  ProductTile(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how)
      : ProductStage(job, nest, k, p, how), tile_(how_.tile), through_memory_(!how_.places.empty()) {
    for (Part* part : {&rows_, &columns_}) {
      const int64_t size = part == &rows_ ? tile_.rows : tile_.columns;
      *part = {part == &rows_ ? &p_.rows : &p_.columns, size, size / kTileSide, std::min(kVector, size / kTileSide)};
      grid.push_back(ctx_.ceildiv(part->side->points, ctx_.integer(size)));
    }
    std::swap(grid[grid.size() - 2], grid.back());  // neighbouring blocks share columns: those are weights
    const int64_t factors = (tile_.rows + tile_.columns) * tile_.depth;
    memory_ = k_.shared("tile", p_.sum(), std::max(factors, through_memory_ ? tile_.rows * tile_.columns : 0));
    columns_.memory_begin = tile_.rows * tile_.depth;
  }

 private:
  // Rows or columns of the block.
  struct Part {
    const Side* side = nullptr;
    int64_t size = 0, of_lane = 0, vector = 1;
    int64_t memory_begin = 0;
    const Expr *first = nullptr, *lane = nullptr;    // of the block; among the lanes along this side
    const Expr *brought = nullptr, *step = nullptr;  // which one a lane brings to memory, and from which step of the depth on
    int64_t steps = 1;                               // how many lanes share it
  };

  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    lane_ = lane;
    bind_batch(at);
    begin_part(columns_, at[p_.batch.size()]);
    begin_part(rows_, at[p_.batch.size() + 1]);
    columns_.lane = k_.b.let(ctx_.floormod(lane, ctx_.integer(kTileSide)));
    rows_.lane = k_.b.let(ctx_.floordiv(lane, ctx_.integer(kTileSide)));
    const int64_t vectors = columns_.of_lane / columns_.vector;
    sums_.clear();
    for (int64_t k = 0; k < rows_.of_lane * vectors; ++k) sums_.push_back(k_.b.local(zero(static_cast<unsigned>(columns_.vector))));
    s_.scoped([&] {
      for (const Part* part : {&rows_, &columns_}) bind_point(*part->side, existing(*part->side, ctx_.add(part->first, part->brought), part->size));
      over_outer([&] { add_products(); });
    });
    through_memory_ ? finish_from_memory() : finish_in_registers();
  }

  void begin_part(Part& part, const Expr* number) {
    part.first = k_.b.let(ctx_.mul(number, ctx_.integer(part.size)));
    part.steps = kTileLanes / part.size;
    part.brought = k_.b.let(ctx_.floormod(lane_, ctx_.integer(part.size)));
    part.step = part.steps == 1 ? ctx_.integer(0) : k_.b.let(ctx_.floordiv(lane_, ctx_.integer(part.size)));
  }

  void add_products() {
    const Reached rows = reach(*rows_.side), columns = reach(*columns_.side);
    const bool whole = ir::divisor_of(p_.depth_points) % tile_.depth == 0;
    k_.b.with_for(ctx_.integer(0), p_.depth_points, tile_.depth, [&](const Expr* first) {
      std::vector<std::pair<const Expr*, const Expr*>> stores;  // where and what
      bring(rows_, rows, first, whole, stores);
      bring(columns_, columns, first, whole, stores);
      k_.b.append(loop::StmtKind::Barrier);  // nobody reads the piece before
      for (const auto& [where, what] : stores) k_.b.store(memory_, where, what);
      k_.b.append(loop::StmtKind::Barrier);
      if (tile_.copies == tile_.depth) return unrolled(tile_.depth, [&](const Expr* k) { step(k); });
      k_.b.with_for(ctx_.integer(0), ctx_.integer(tile_.depth), tile_.copies, [&](const Expr* k) {
        unrolled(tile_.copies, [&](const Expr* u) { step(ctx_.add(k, u)); });
      });
    });
  }

  void bring(const Part& part, const Reached& at, const Expr* first, bool whole, std::vector<std::pair<const Expr*, const Expr*>>& stores) {
    for (int64_t i = 0; i < tile_.depth; i += part.steps) {
      const Expr* step = ctx_.add(part.step, ctx_.integer(i));
      const Expr* k = ctx_.add(first, step);
      const Expr* exists = whole ? nullptr : k_.b.let(ctx_.binary(Op::Lt, k, p_.depth_points));
      stores.emplace_back(place(part, step, part.brought), element(*part.side, at, k, exists));
    }
  }

  const Expr* place(const Part& part, const Expr* step, const Expr* point) {
    return ctx_.add(ctx_.add(ctx_.mul(step, ctx_.integer(part.size)), point), ctx_.integer(part.memory_begin));
  }

  // Vector `v` of those of a lane begins at this point of the block.
  const Expr* vector_at(const Part& part, int64_t v) {
    return ctx_.add(ctx_.mul(part.lane, ctx_.integer(part.vector)), ctx_.integer(v * part.vector * kTileSide));
  }

  std::vector<const Expr*> vectors_of(const Part& part, const Expr* step) {
    std::vector<const Expr*> vectors;
    for (int64_t v = 0; v < part.of_lane / part.vector; ++v)
      vectors.push_back(k_.b.let(loop::vec_load(ctx_, memory_, {p_.sum(), static_cast<uint16_t>(part.vector)}, place(part, step, vector_at(part, v)))));
    return vectors;
  }

  void step(const Expr* k) {
    const std::vector<const Expr*> rows = vectors_of(rows_, k), columns = vectors_of(columns_, k);
    for (size_t r = 0; r < static_cast<size_t>(rows_.of_lane); ++r)
      for (size_t c = 0; c < columns.size(); ++c) {
        const auto vector = static_cast<size_t>(rows_.vector);
        const Expr* a = loop::splat(ctx_, loop::extract(ctx_, rows[r / vector], static_cast<unsigned>(r % vector)), static_cast<unsigned>(columns_.vector));
        const Expr* sum = sums_[r * columns.size() + c];
        k_.b.assign(sum, multiply_add(sum, a, columns[c]));
      }
  }

  const Expr* sum_at(int64_t row, int64_t column) {
    const Expr* sums = sums_[static_cast<size_t>(row * (columns_.of_lane / columns_.vector) + column / columns_.vector)];
    return loop::extract(ctx_, sums, static_cast<unsigned>(column % columns_.vector));
  }

  // Runs `body` where the point of the part exists, its dims bound.
  void at_point(const Part& part, const Expr* in_block, const std::function<void()>& body) {
    const Expr* point = k_.b.let(ctx_.add(part.first, in_block));
    const auto there = [&] {
      s_.scoped([&] {
        bind_point(*part.side, point);
        body();
      });
    };
    if (ir::divisor_of(part.side->points) % part.size == 0) there();
    else k_.b.with_if(ctx_.binary(Op::Lt, point, part.side->points), there);
  }

  void finish_in_registers() {
    const auto place_of = [&](const Part& part, int64_t i) { return ctx_.add(vector_at(part, i / part.vector), ctx_.integer(i % part.vector)); };
    for (int64_t c = 0; c < columns_.of_lane; ++c)
      at_point(columns_, place_of(columns_, c), [&] {
        load_for_column();
        for (int64_t r = 0; r < rows_.of_lane; ++r) at_point(rows_, place_of(rows_, r), [&] { finish(sum_at(r, c)); });
      });
  }

  // A long epilogue is code only once: neighbouring lanes have neighbouring columns then.
  void finish_from_memory() {
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* width = ctx_.integer(tile_.columns);
    for (int64_t r = 0; r < rows_.of_lane; ++r)
      for (int64_t v = 0; v < columns_.of_lane / columns_.vector; ++v) {
        const Expr* row = ctx_.add(vector_at(rows_, r / rows_.vector), ctx_.integer(r % rows_.vector));
        const Expr* at = ctx_.add(ctx_.mul(row, width), vector_at(columns_, v));
        k_.b.store(memory_, at, sums_[static_cast<size_t>(r * (columns_.of_lane / columns_.vector) + v)]);
      }
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* lane_row = columns_.steps == 1 ? ctx_.integer(0) : columns_.step;
    at_point(columns_, columns_.brought, [&] {
      load_for_column();
      k_.b.with_for(ctx_.integer(0), ctx_.integer(tile_.rows), columns_.steps, [&](const Expr* first) {
        const Expr* row = k_.b.let(ctx_.add(first, lane_row));
        at_point(rows_, row, [&] {
          finish(k_.b.let(loop::vec_load(ctx_, memory_, {p_.sum(), 1}, ctx_.add(ctx_.mul(row, width), columns_.brought))));
        });
      });
    });
  }

  const schedule::Tile tile_;
  const bool through_memory_;
  Part rows_, columns_;
  uint32_t memory_ = 0;
  const Expr* lane_ = nullptr;
  std::vector<const Expr*> sums_;  // rows of vectors
};

}  // namespace

StagePtr tile_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how) {
  return std::make_unique<ProductTile>(job, nest, k, p, how);
}

}  // namespace mlc::lower
