// Emits a contraction as register tiles: `gemm.cpp` divides the work, `gemm_tile.cpp` emits one tile.
#pragma once

#include "packager/lower/contraction.h"

namespace mlc::lower {

class Gemm final : public Stage {
 public:
  Gemm(const Job& job, const FlatNest& nest, Skeleton& k, Contraction c);

 private:
  void part(const std::vector<Range>& ranges) override;
  // ---- blocks, for the caches ----
  // What of A a block reads stays in L2 while the groups go by; of B, if groups are outside, while the rows do.
  void in_blocks(const Range& rows, const Range& groups_range);
  // `range` in parts of at most `most`, which differ by one.
  void even_parts(const Range& range, const ir::Expr* most, const std::function<void(const Range&)>& body);
  const ir::Expr* product(std::initializer_list<const ir::Expr*> factors);
  // How many of `each` make about, or at most, `all`; at least one.
  const ir::Expr* about(int64_t all, const ir::Expr* each);
  const ir::Expr* at_most(int64_t all, const ir::Expr* each);
  void choose_epilogue_lanes();

  // ---- columns ----
  struct Group {
    const ir::Expr* first = nullptr;  // column
    unsigned vectors = 1;
    const ir::Expr* limit = nullptr;  // columns beyond it do not exist (null: all do)
    const ir::Expr* has_next = nullptr;  // whether a whole group follows; null: none does
  };
  void groups(const ir::Expr* begin, const ir::Expr* end, const ir::Expr* end_of_all);
  // The lanes of the vector at this column of the group that exist; null: all.
  const ir::Expr* column_mask(const Group& g, const ir::Expr* column);

  // ---- B from beyond L2 (gemm_memory.cpp) ----
  void choose_parts();
  int64_t bytes_of_b() const;  // of an element
  // B is larger than L2: while a group, or a part of it, is used, its row tiles fetch the next one.
  void plan_fetch(const Group& g);
  void begin_fetch(const ir::Expr* index, unsigned height);
  void fetch(int64_t steps);
  // A group that is too long for L2 goes by in parts of k, all rows of the block for each; sums wait in scratch memory.
  void in_parts(const std::function<void()>& body);
  void take_sums();
  void keep_sums();
  const ir::Expr* place_of_sum(size_t number);
  int64_t sums_of_tile() const;
  static constexpr int64_t kBlockBytes = 384 << 10;  // of A that one block reads: within half of a common L2

  // ---- rows ----
  void outer_rows(const Group& g);
  void row_tiles(const Group& g, const ir::Expr* begin, const ir::Expr* end);
  void run_of_tiles(const Group& g, const ir::Expr* begin, const ir::Expr* end, unsigned height, bool check_rows);

  // ---- edges of the image ----
  // With constant sizes: which row tiles some tap does not reach completely.
  void find_edges();
  // The value of edge tap `k` in a combination.
  int64_t tap_value(size_t k, int64_t combo) const;
  bool reaches(int64_t row, int64_t combo);
  void pruned_tile(const Group& g, const ir::Expr* index, int64_t first, unsigned height);

  // ---- one register tile ----
  void begin_tile(const ir::Expr* first_row, unsigned height, const Group& g);
  const ir::Expr*& acc(unsigned chain, unsigned row, unsigned j, const Group& g);
  void tile(const Group& g, const ir::Expr* first_row, unsigned height, bool check_rows);
  // Loops over the taps that are not in `done`, with bounds from their conditions.
  void taps(size_t level, const std::vector<const ir::Dim*>& done, const std::function<void()>& body);
  void tap_loop(size_t level, const std::vector<const ir::Dim*>& done, const std::function<void()>& body);
  // acc[r] += A[row r] * B for all of k, rows lo .. hi-1. `reached`: which rows exist (empty: all).
  void k_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const ir::Expr*>& reached);
  unsigned accumulator_lanes() const { return c_.along_k() ? c_.k_lanes : lanes_; }
  // Elements of a factor in f32.
  const ir::Expr* operand(const ir::Expr* load, unsigned lanes, const ir::Expr* at, const ir::Expr* mask);
  // What a row has of `count` elements along k, in each lane; `reached` is null if it exists.
  const ir::Expr* row_operand(const ir::Expr* at, const ir::Expr* count, const ir::Expr* reached);
  void multiply_add(const ir::Expr* acc, const ir::Expr* a, const ir::Expr* b);
  const ir::Expr* joined(std::vector<const ir::Expr*> parts);
  const ir::Expr* total_of(const Group& g, unsigned r, unsigned j);
  // Codes: the sum of row `r` of A, in each lane.
  const ir::Expr* sum_of_row(unsigned r);
  void epilogue(const Group& g);
  void epilogue_along_rows(const Group& g);
  // The epilogue on the sums of one row and one vector of columns.
  void finish_vector(const Group& g, const ir::Expr* total, const ir::Expr* row_sum, const ir::Expr* row, const ir::Expr* column, const ir::Expr* mask);

  const Contraction c_;
  unsigned lanes_, width_ = 16;         // columns of a vector; of a group
  unsigned epilogue_lanes_ = 1;         // vectors along k: rows that go through the epilogue at once
  RegisterTile tile_;
  const ir::Expr *rows_, *columns_, *num_row_tiles_ = nullptr, *num_groups_ = nullptr;
  std::vector<const ir::Expr*> row_terms_, tap_terms_;  // conditions with and without the row dim
  const ir::Expr* row_space_ = nullptr; // what a launch is cut along: outer rows, or row tiles
  const ir::Expr* unit_rows_ = nullptr; // rows of one step of it
  const ir::Expr* k_total_ = nullptr;
  bool long_epilogue_ = false;
  uint32_t scratch_ = 0, scratch_of_sums_ = 0;  // of the epilogue: a tile of sums; those of its rows of A
  std::vector<bool> edges_;             // per row tile; empty: not known statically
  std::vector<const ir::Dim*> edge_taps_;
  int64_t part_ = 0;                    // elements of k of a part; 0: all at once
  bool fetches_ = false;
  uint32_t scratch_of_parts_ = 0;
  const ir::Expr *part_begin_ = nullptr, *slot_ = nullptr;  // of k; number of the tile in its block
  struct Fetch {
    const ir::Expr* from = nullptr;             // in B; null: nothing is fetched
    int64_t pieces = 1;                         // at the stride of panels
    const ir::Expr* tiles_per_piece = nullptr;
    const ir::Expr *per_tile = nullptr, *per_step = nullptr, *most = nullptr;  // elements; `most` in a turn of the loop
    const ir::Expr* at = nullptr;               // a variable of the tile: what comes next
  } fetch_;
  // The tile being emitted.
  const ir::Expr *row_begin_ = nullptr, *row_end_ = nullptr;  // of its block
  const ir::Expr *row_base_ = nullptr, *row_extra_ = nullptr;
  const ir::Expr* first_row_ = nullptr;
  unsigned height_ = 0, chains_ = 1;
  std::vector<const ir::Expr*> acc_, row_sums_;
};

}  // namespace mlc::lower
