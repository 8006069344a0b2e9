// A tile of a product by a block of 64 lanes, 8 along rows and 8 along columns:
//
//   for the points of the outer folded dims
//     for pieces of the depth
//       each lane brings some elements of one row and of one column, zero where there are none
//       barrier, they go to shared memory, step by step of the depth, barrier
//       each lane adds up the products of its 2 to 8 rows and 2 to 8 columns
//   each lane finishes its sums, which were registers all the time
//
// A step of the depth is one value of each row and column, or of codes of 8 bits a cell of four: a word of 32 bits in memory and in registers,
// which an instruction multiplies by another one (ir::Op::Dot). Codes that lie side by side along the depth are loaded as such a word.
//
// A lane has rows and columns in fours, side by side: four lanes along rows and eight along columns read 16 bytes each without meeting in
// a bank, and lanes that store have neighbouring rows or columns. So there are no bank conflicts, and nothing has to be swizzled.
#include "packager/lower/device/product/tile.h"

#include <algorithm>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kTileVector = 4;
constexpr auto kFirstBits = static_cast<int32_t>(0x80808080);  // of four codes

}  // namespace

TileStage::Part TileStage::part_of(const Side& side, int64_t size) {
  Part part;
  part.side = &side;
  part.size = size;
  part.of_lane = size / kTileSide;
  part.vector = std::min(kTileVector, part.of_lane);
  return part;
}

void TileStage::share_bringing(Part& part, const Expr* lane) {
  part.steps = kTileLanes / part.size;
  part.brought = k_.b.let(ctx_.floormod(lane, ctx_.integer(part.size)));
  part.step = part.steps == 1 ? ctx_.integer(0) : k_.b.let(ctx_.floordiv(lane, ctx_.integer(part.size)));
}

TileStage::Sums TileStage::zeros(const Part& rows, const Part& columns) {
  Sums sums;
  for (int64_t k = 0; k < rows.of_lane * (columns.of_lane / columns.vector); ++k) sums.push_back(k_.b.local(zero(static_cast<unsigned>(columns.vector))));
  return sums;
}

void TileStage::add_products(const Part& rows, const Part& columns, const Sums& sums) {
  const Reached of_rows = reach_part(rows), of_columns = reach_part(columns);
  const int64_t depth = how_.tile.depth;
  const bool whole = ir::divisor_of(p_.depth_points) % depth == 0;
  k_.b.with_rolled_for(ctx_.integer(0), p_.depth_points, depth, [&](const Expr* first) {
    std::vector<std::pair<const Expr*, const Expr*>> stores;  // where and what
    bring(rows, of_rows, first, whole, stores);
    const size_t num_rows = stores.size();
    bring(columns, of_columns, first, whole, stores);
    k_.b.append(loop::StmtKind::Barrier);  // all lanes have read the piece before
    for (size_t k = 0; k < stores.size(); ++k) k_.b.store(k < num_rows ? rows.memory : columns.memory, stores[k].first, stores[k].second);
    k_.b.append(loop::StmtKind::Barrier);
    over_steps([&](const Expr* k) { add_step(rows, k, columns, k, sums); });
  });
}

void TileStage::over_steps(const std::function<void(const Expr*)>& body) {
  const int64_t depth = steps(), copies = how_.tile.copies;
  if (copies == depth) return unrolled(depth, body);
  k_.b.with_rolled_for(ctx_.integer(0), ctx_.integer(depth), copies, [&](const Expr* k) {
    unrolled(copies, [&](const Expr* u) { body(ctx_.add(k, u)); });
  });
}

void TileStage::bring(const Part& part, const Reached& at, const Expr* first, bool whole, std::vector<std::pair<const Expr*, const Expr*>>& stores) {
  for (int64_t i = 0; i < steps(); i += part.steps) {
    const Expr* step = ctx_.add(part.step, ctx_.integer(i));
    if (values_ > 1) {
      const Expr* number = k_.b.let(ctx_.add(ctx_.floordiv(first, ctx_.integer(values_)), step));
      stores.emplace_back(place(part, step, part.brought), cell(part, at, number, whole));
      continue;
    }
    const Expr* k = ctx_.add(first, step);
    const Expr* exists = whole ? nullptr : k_.b.let(ctx_.binary(Op::Lt, k, p_.depth_points));
    stores.emplace_back(place(part, step, part.brought), element(*part.side, at, k, exists));
  }
}

TileStage::Reached TileStage::reach_part(const Part& part) {
  Reached at = reach(*part.side);
  if (part.runs.length > 1 && p_.depth.size() == 1) at.base = k_.b.let(s_.value(part.runs.base)), at.stride = k_.b.let(s_.value(part.runs.step));
  return at;
}

const Expr* TileStage::cell(const Part& part, const Reached& at, const Expr* number, bool whole) {
  if (part.runs.length > 1) return cell_of_run(part, at, number, whole);
  std::vector<const Expr*> codes;
  for (int64_t k = 0; k < values_; ++k) {
    const Expr* step = k_.b.let(ctx_.add(ctx_.mul(number, ctx_.integer(values_)), ctx_.integer(k)));
    codes.push_back(element(*part.side, at, step, whole ? nullptr : k_.b.let(ctx_.binary(Op::Lt, step, p_.depth_points))));
  }
  return flipped(part, loop::widen(ctx_, std::move(codes)));
}

// Of codes that lie together: one load. A cell behind the last one is read as that, and does not count.
const Expr* TileStage::cell_of_run(const Part& part, const Reached& at, const Expr* number, bool whole) {
  const Expr* cell = nullptr;
  s_.scoped([&] {
    const Expr* length = ctx_.integer(values_);
    const Expr *end = ctx_.floordiv(p_.depth_points, length), *exists = whole ? nullptr : k_.b.let(ctx_.binary(Op::Lt, number, end));
    if (exists) number = k_.b.let(ctx_.min(number, ctx_.sub(end, ctx_.integer(1))));
    const Expr* index = index_of_run(at, part.runs, number);
    const Expr *load = part.side->factor.load, *guard = at.ask ? asked(*part.side) : at.guard;
    const auto read = [&] { return flipped(part, loop::vec_load(ctx_, load->array, {load->type.dtype, static_cast<uint16_t>(values_)}, index)); };
    const Expr* none = at.outside ? flipped(part, loop::splat(ctx_, at.outside, static_cast<unsigned>(values_))) : zero();
    if (guard) {
      cell = k_.b.local(none);
      k_.b.with_if(guard, [&] { k_.b.assign(cell, read()); });
    } else {
      cell = read();
    }
    if (exists) cell = k_.b.let(ctx_.select(exists, cell, none));
  });
  return cell;
}

const Expr* TileStage::flipped(const Part& part, const Expr* codes) {
  const Expr* word = loop::words_of(ctx_, p_.sum(), codes);
  return k_.b.let(part.codes.flipped ? ctx_.binary(Op::BitXor, word, ctx_.integer(kFirstBits, p_.sum())) : word);
}

const Expr* TileStage::place(const Part& part, const Expr* step, const Expr* point) {
  return ctx_.add(ctx_.add(ctx_.mul(step, ctx_.integer(part.size)), point), ctx_.integer(part.memory_begin));
}

const Expr* TileStage::vector_at(const Part& part, int64_t v) {
  return ctx_.add(ctx_.mul(part.lane, ctx_.integer(part.vector)), ctx_.integer(v * part.vector * kTileSide));
}

const Expr* TileStage::point_at(const Part& part, int64_t i) { return ctx_.add(vector_at(part, i / part.vector), ctx_.integer(i % part.vector)); }

std::vector<const Expr*> TileStage::vectors_of(const Part& part, const Expr* step) {
  std::vector<const Expr*> vectors;
  for (int64_t v = 0; v < part.of_lane / part.vector; ++v)
    vectors.push_back(k_.b.let(loop::vec_load(ctx_, part.memory, {p_.sum(), static_cast<uint16_t>(part.vector)}, place(part, step, vector_at(part, v)))));
  return vectors;
}

void TileStage::add_step(const Part& rows, const Expr* of_rows, const Part& columns, const Expr* of_columns, const Sums& sums) {
  const std::vector<const Expr*> a = vectors_of(rows, of_rows), b = vectors_of(columns, of_columns);
  for (size_t r = 0; r < static_cast<size_t>(rows.of_lane); ++r)
    for (size_t c = 0; c < b.size(); ++c) {
      const auto vector = static_cast<size_t>(rows.vector);
      const Expr* row = loop::splat(ctx_, loop::extract(ctx_, a[r / vector], static_cast<unsigned>(r % vector)), static_cast<unsigned>(columns.vector));
      const Expr* sum = sums[r * b.size() + c];
      const auto dot = [&] { return loop::vec_dot(ctx_, sum, loop::codes_of(ctx_, rows.codes.type, row), loop::codes_of(ctx_, columns.codes.type, b[c])); };
      k_.b.assign(sum, values_ > 1 ? dot() : multiply_add(sum, row, b[c]));
    }
}

void TileStage::at_point(const Part& part, const Expr* in_block, const std::function<void()>& body) {
  where_it_exists(*part.side, k_.b.let(ctx_.add(part.first, in_block)), part.size, body);
}

namespace {

class ProductTile final : public TileStage {
 public:
  ProductTile(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how)
      : TileStage(job, nest, k, p, how), tile_(how_.tile), through_memory_(!how_.places.empty()) {
    rows_ = take_side(p_.rows, tile_.rows);
    columns_ = take_side(p_.columns, tile_.columns);
    // Neighbouring blocks share columns: those are weights.
    for (const Part* part : {&columns_, &rows_}) grid.push_back(ctx_.ceildiv(part->side->points, ctx_.integer(part->size)));
    const int64_t factors = (tile_.rows + tile_.columns) * steps();
    rows_.memory = columns_.memory = k_.shared("tile", p_.sum(), std::max(factors, through_memory_ ? tile_.rows * tile_.columns : 0));
    columns_.memory_begin = tile_.rows * steps();
  }

 private:
  Part take_side(Side& side, int64_t size) {
    const CodeSide codes = schedule::is_dot(how_) ? take_codes(ctx_, side) : CodeSide{};
    Part part = part_of(side, size);
    part.codes = codes;
    if (schedule::is_dot(how_)) part.runs = depth_runs(ctx_, s_.facts, p_, side, loop::kCodesOfCell, loop::kCodesOfCell);
    return part;
  }

  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    bind_batch(at);
    for (Part* part : {&columns_, &rows_}) {
      part->first = k_.b.let(ctx_.mul(at[p_.batch.size() + (part == &rows_)], ctx_.integer(part->size)));
      share_bringing(*part, lane);
    }
    columns_.lane = k_.b.let(ctx_.floormod(lane, ctx_.integer(kTileSide)));
    rows_.lane = k_.b.let(ctx_.floordiv(lane, ctx_.integer(kTileSide)));
    sums_ = zeros(rows_, columns_);
    s_.scoped([&] {
      for (const Part* part : {&rows_, &columns_}) bind_point(*part->side, existing(*part->side, ctx_.add(part->first, part->brought), part->size));
      over_outer([&] { add_products(rows_, columns_, sums_); });
    });
    through_memory_ ? finish_from_memory() : finish_in_registers();
  }

  const Expr* sum_at(int64_t row, int64_t column) {
    const Expr* sums = sums_[static_cast<size_t>(row * (columns_.of_lane / columns_.vector) + column / columns_.vector)];
    return loop::extract(ctx_, sums, static_cast<unsigned>(column % columns_.vector));
  }

  void finish_in_registers() {
    for (int64_t c = 0; c < columns_.of_lane; ++c)
      at_point(columns_, point_at(columns_, c), [&] {
        load_for_column();
        for (int64_t r = 0; r < rows_.of_lane; ++r) at_point(rows_, point_at(rows_, r), [&] { finish(sum_at(r, c)); });
      });
  }

  // A long epilogue is code only once: neighbouring lanes have neighbouring columns then.
  void finish_from_memory() {
    k_.b.append(loop::StmtKind::Barrier);
    const uint32_t memory = rows_.memory;
    const Expr* width = ctx_.integer(tile_.columns);
    for (int64_t r = 0; r < rows_.of_lane; ++r)
      for (int64_t v = 0; v < columns_.of_lane / columns_.vector; ++v) {
        const Expr* at = ctx_.add(ctx_.mul(point_at(rows_, r), width), vector_at(columns_, v));
        k_.b.store(memory, at, sums_[static_cast<size_t>(r * (columns_.of_lane / columns_.vector) + v)]);
      }
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* lane_row = columns_.steps == 1 ? ctx_.integer(0) : columns_.step;
    at_point(columns_, columns_.brought, [&] {
      load_for_column();
      k_.b.with_for(ctx_.integer(0), ctx_.integer(tile_.rows), columns_.steps, [&](const Expr* first) {
        const Expr* row = k_.b.let(ctx_.add(first, lane_row));
        at_point(rows_, row, [&] {
          finish(k_.b.let(loop::vec_load(ctx_, memory, {p_.sum(), 1}, ctx_.add(ctx_.mul(row, width), columns_.brought))));
        });
      });
    });
  }

  const schedule::Tile tile_;
  const bool through_memory_;
  Part rows_, columns_;
  Sums sums_;
};

}  // namespace

StagePtr tile_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how) {
  return std::make_unique<ProductTile>(job, nest, k, p, how);
}

}  // namespace mlc::lower
