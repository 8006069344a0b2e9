// What stages have in common whose lanes multiply (tile.cpp): a block of 64, each with some rows and some columns of a tile.
#pragma once

#include "packager/lower/device/product/codes.h"

namespace mlc::lower {

constexpr unsigned kTileLanes = 64, kTileSide = 8;  // lanes of a tile: 8 along rows, 8 along columns

// Lanes 8 along the rows and 8 along the columns of a tile, which add up products of factors that all of them brought to shared memory.
class TileStage : public ProductStage {
 protected:
  TileStage(const Job& job, const FlatNest& nest, Skeleton& k, DeviceProduct p, const schedule::Schedule& how)
      : ProductStage(job, nest, k, std::move(p), how), values_(schedule::is_dot(how) ? loop::kCodesOfCell : 1) {}

  // Rows or columns of the block: a lane has some of them in vectors that are contiguous, the vectors apart.
  struct Part {
    const Side* side = nullptr;
    int64_t size = 0, of_lane = 0, vector = 1;
    uint32_t memory = 0;                             // step by step of the depth, from `memory_begin` on
    int64_t memory_begin = 0;
    const ir::Expr *first = nullptr, *lane = nullptr;    // of the block; among the lanes along this side
    const ir::Expr *brought = nullptr, *step = nullptr;  // which one a lane brings to memory, and from which step of the depth on
    int64_t steps = 1;                                   // how many lanes share it
    CodeSide codes;                                      // where a step is a cell
    DepthRuns runs;                                      // likewise
  };
  using Sums = std::vector<const ir::Expr*>;  // of a lane: rows of vectors

  static Part part_of(const Side& side, int64_t size);
  // Which ones of them `lane` of the block brings.
  void share_bringing(Part& part, const ir::Expr* lane);
  Sums zeros(const Part& rows, const Part& columns);
  int64_t steps() const { return how_.tile.depth / values_; }  // of a piece
  // Adds all products along the depth, once the outer folded dims and the points that are brought are bound.
  void add_products(const Part& rows, const Part& columns, const Sums& sums);
  // Those of one step, whose factors are in memory: of the rows at the first number, of the columns at the second.
  void add_step(const Part& rows, const ir::Expr* of_rows, const Part& columns, const ir::Expr* of_columns, const Sums& sums);
  // The steps of a piece of the depth, as many copies at once as the schedule says.
  void over_steps(const std::function<void(const ir::Expr* k)>& body);
  const ir::Expr* place(const Part& part, const ir::Expr* step, const ir::Expr* point);
  // Vector `v` of those of a lane begins at this point of the block; its point `i` is this one.
  const ir::Expr* vector_at(const Part& part, int64_t v);
  const ir::Expr* point_at(const Part& part, int64_t i);
  // Runs `body` where the point of the part exists, its dims bound.
  void at_point(const Part& part, const ir::Expr* in_block, const std::function<void()>& body);

 private:
  Reached reach_part(const Part& part);
  void bring(const Part& part, const Reached& at, const ir::Expr* first, bool whole, std::vector<std::pair<const ir::Expr*, const ir::Expr*>>& stores);
  // Four codes of the depth as a word, of which those that do not count are zero, or what the side says.
  const ir::Expr* cell(const Part& part, const Reached& at, const ir::Expr* number, bool whole);
  const ir::Expr* cell_of_run(const Part& part, const Reached& at, const ir::Expr* number, bool whole);
  const ir::Expr* flipped(const Part& part, const ir::Expr* codes);
  std::vector<const ir::Expr*> vectors_of(const Part& part, const ir::Expr* step);

  const int64_t values_;  // of the depth in a step: 1, or 4 codes of 8 bits
};

}  // namespace mlc::lower
