// Emits a contraction as register tiles, by its schedule: `gemm.cpp` has the schedules and the blocks for the caches,
// `gemm_tile.cpp` one tile.
#pragma once

#include "packager/lower/contraction.h"
#include "packager/lower/walk.h"

namespace mlc::lower {

class Gemm final : public Walk {
 public:
  Gemm(const Job& job, const FlatNest& nest, Skeleton& k, Contraction c, const schedule::Schedule& how, const DimNames& names);

 private:
  using Group = Columns;

  // ---- blocks, for the caches ----
  // What of A a block reads stays in L2 while the groups go by; of B, if groups are outside, while the rows do.
  void around(const std::function<void()>& loops) override;
  // `range` in parts of at most `most`, which differ by one.
  void even_parts(const Range& range, const ir::Expr* most, const std::function<void(const Range&)>& body);
  const ir::Expr* product(std::initializer_list<const ir::Expr*> factors);
  // How many of `each` make about, or at most, `all`; at least one.
  const ir::Expr* about(int64_t all, const ir::Expr* each);
  const ir::Expr* at_most(int64_t all, const ir::Expr* each);

  // The lanes of the vector at this column of the group that exist; null: all.
  const ir::Expr* column_mask(const Group& g, const ir::Expr* column);

  // ---- one register tile ----
  void leaf() override;
  void begin_tile(const Group& g);
  const ir::Expr*& acc(unsigned chain, unsigned row, unsigned j, const Group& g);
  // Tests which rows exist.
  void checked_rows(const Group& g);
  // acc[r] += A[row r] * B for all of k, rows lo .. hi-1. `reached`: which rows exist (empty: all).
  void k_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const ir::Expr*>& reached);
  unsigned accumulator_lanes() const { return c_.along_k() ? c_.k_lanes : lanes_; }
  // Elements of a factor in f32.
  const ir::Expr* operand(const ir::Expr* load, unsigned lanes, const ir::Expr* at, const ir::Expr* mask);
  // What a row has of `count` elements along k, in each lane; `reached` is null if it exists.
  const ir::Expr* row_operand(const ir::Expr* at, unsigned count, const ir::Expr* reached);
  void multiply_add(const ir::Expr* acc, const ir::Expr* a, const ir::Expr* b);
  const ir::Expr* joined(std::vector<const ir::Expr*> parts);
  const ir::Expr* total_of(const Group& g, unsigned r, unsigned j);
  // Codes: the sum of row `r` of A, in each lane.
  const ir::Expr* sum_of_row(unsigned r);
  void epilogue(const Group& g);
  void epilogue_along_rows(const Group& g);
  // The epilogue on the sums of one row and one vector of columns.
  void finish_vector(const Group& g, const ir::Expr* total, const ir::Expr* row_sum, const ir::Expr* row, const ir::Expr* column, const ir::Expr* mask);

  Contraction c_;
  unsigned lanes_ = 1, width_ = 16;     // columns of a vector; of a group
  unsigned unroll_ = 1, most_chains_ = 1;  // along k
  unsigned epilogue_lanes_ = 1;         // vectors along k: rows that go through the epilogue at once
  bool through_memory_ = false;         // the sums of a tile, before the epilogue
  int64_t most_rows_ = 1;               // of a tile
  const ir::Expr* k_total_ = nullptr;
  uint32_t scratch_ = 0, scratch_of_sums_ = 0;  // of the epilogue: a tile of sums; those of its rows of A
  // The tile being emitted.
  const ir::Expr* first_row_ = nullptr;
  unsigned height_ = 0, chains_ = 1;
  std::vector<const ir::Expr*> acc_, row_sums_;
};

}  // namespace mlc::lower
