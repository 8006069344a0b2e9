// Emits a contraction as register tiles, by its schedule: `gemm.cpp` has the schedules and the blocks for the caches, `gemm_memory.cpp`
// what is done about columns from far away, `gemm_masks.cpp` what masks make superfluous, `gemm_tile.cpp` one tile.
#pragma once

#include "packager/lower/product/tiled_product.h"
#include "packager/lower/walk/walk.h"

namespace mlc::lower {

class Gemm final : public Walk {
 public:
  Gemm(const Job& job, const FlatNest& nest, Skeleton& k, TiledProduct c, const schedule::Schedule& how, const DimNames& names);

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

  // ---- B from beyond L2 (gemm_memory.cpp) ----
  void enter(size_t l) override;
  void around_rows(const std::function<void()>& tiles) override;
  int64_t bytes_of_b() const;  // of an element
  // While a group, or a part of it, is used, its row tiles fetch the next one.
  void plan_fetch(const Group& g);
  const ir::Expr* start_of_panel(const ir::Expr* panel);
  const ir::Dim* batch_of_b();
  const ir::Expr* start_of_next(const Group& g, const ir::Expr* begin);
  void begin_fetch();
  void fetch(int64_t steps);
  // What the epilogue reads at the rows and columns of its tile.
  void find_beside();
  void fetch_beside(const Group& g);
  // A group goes by in parts of k, all rows of the block for each; sums wait in scratch memory.
  void take_sums();
  void keep_sums();
  const ir::Expr* place_of_sum(size_t number);
  int64_t sums_of_tile() const;

  // The lanes of the vector at this column of the group that exist; null: all.
  const ir::Expr* column_mask(const Group& g, const ir::Expr* column);

  // ---- one register tile ----
  void leaf() override;
  bool may_halve(unsigned lanes) const override { return is_wide(lanes, c_.acc()) && !c_.along_k() && !is_tiled_; }
  void begin_tile(const Group& g);
  const ir::Expr*& acc(unsigned chain, unsigned row, unsigned j, const Group& g);
  // Tests which rows exist.
  void checked_rows(const Group& g);
  // acc[r] += A[row r] * B for all of k, rows lo .. hi-1. `reached`: which rows exist (empty: all).
  void k_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const ir::Expr*>& reached);
  // Where B has the columns of the group, and those of a panel beside another.
  const ir::Expr* start_of_part();
  const ir::Expr* start_of_columns(const Group& g);
  const ir::Expr* columns_from(const ir::Expr* panel, const ir::Expr* lane);
  // ---- tiles of a unit for matrices (gemm_tiles.cpp) ----
  void tile_loop(const Group& g, unsigned lo, unsigned hi, const std::vector<const ir::Expr*>& reached);
  void tile_turns(const Group& g, unsigned lo, unsigned hi, const std::vector<const ir::Expr*>& reached, bool all_whole);
  const ir::Expr* has_whole_blocks();
  const ir::Expr* start_of_block(unsigned block);
  Range rows_of_block(unsigned block, unsigned lo, unsigned hi);
  void bring_rows(unsigned block, const Range& rows, const ir::Expr* a_at, const ir::Expr* a_m, const ir::Expr* a_base, const std::vector<const ir::Expr*>& reached, const ir::Expr* mask);
  void keep_tiles(const Group& g);
  const ir::Expr* place_of_tiled(const ir::Expr* row, const ir::Expr* column);
  // ---- masks (gemm_masks.cpp) ----
  // The difference of both sides of a comparison, in column and row; nothing if it is not linear in them.
  std::optional<ir::Linear> in_tile(const ir::Expr* term);
  // Comparisons without which no sum is read.
  void find_mask();
  // Whether they may hold somewhere in the tile; null: always.
  const ir::Expr* is_seen(const Group& g);
  bool reads_weights() const;
  // The part of 0 .. count outside of which all rows of the tile are zero.
  Range terms_of_weights(const ir::Expr* a_base, const std::vector<const ir::Expr*>& row_offset, const ir::Expr* count);
  unsigned accumulator_lanes() const { return c_.along_k() ? c_.k_lanes : lanes_; }
  // Elements of a factor in the type of the sum.
  const ir::Expr* operand(const ir::Expr* load, unsigned lanes, const ir::Expr* at, const ir::Expr* mask);
  // The same of `count` elements that are left over along k, zeros behind them.
  const ir::Expr* rest_of_operand(const ir::Expr* load, const ir::Expr* at, int64_t count);
  // Elements of a row over and over to all lanes, one as a rule; `reached` is null if the row exists.
  const ir::Expr* in_each_lane(const ir::Expr* element, const ir::Expr* reached);
  // What a row has of `count` elements along k, in each lane; `reached` is null if it exists.
  const ir::Expr* row_operand(const ir::Expr* at, const ir::Expr* count, const ir::Expr* reached);
  void multiply_add(const ir::Expr* acc, const ir::Expr* a, const ir::Expr* b);
  const ir::Expr* joined(std::vector<const ir::Expr*> parts);
  const ir::Expr* total_of(const Group& g, unsigned r, unsigned j);
  // Codes: the sum of row `r` of A, in each lane.
  const ir::Expr* sum_of_row(unsigned r);
  void epilogue(const Group& g);
  void epilogue_along_rows(const Group& g);
  // Of the sum of this row and of the first column of vector `j`; of one of any column that a vector begins with.
  const ir::Expr* place_in_tile(const Group& g, const ir::Expr* row, unsigned j);
  const ir::Expr* place_of_column(const Group& g, const ir::Expr* row, const ir::Expr* column);
  void finish_kept(const Group& g, const ir::Expr* row, const ir::Expr* column);
  void in_columns(size_t l, const std::function<void()>& body) override;
  void at_columns_of(size_t l, const std::function<void()>& body);
  void keep_for_later();
  void late_rows(const Group& g, const ir::Expr* begin, const ir::Expr* end);
  void late_row(const Group& g, const ir::Expr* row);
  void some_late_rows(const Group& g);
  // The epilogue on the sums of one row and one vector of columns.
  void finish_vector(const Group& g, const ir::Expr* total, const ir::Expr* row_sum, const ir::Expr* row, const ir::Expr* column, const ir::Expr* mask);

  TiledProduct c_;
  unsigned lanes_ = 1, width_ = 16;     // columns of a vector, of those that are left over fewer perhaps; of a group
  unsigned unroll_ = 1, most_chains_ = 1;  // along k
  unsigned epilogue_lanes_ = 1;         // vectors along k: rows that go through the epilogue at once
  std::vector<const ir::Expr*> mask_;   // comparisons
  bool weights_ = false;                // rows may begin and end in zeros
  bool through_memory_ = false;         // the sums of a tile, before the epilogue
  bool is_tiled_ = false;               // sums are in the tiles of a unit for matrices
  uint32_t scratch_of_rows_ = 0;        // tiles: codes of rows that do not lie as they are read
  int64_t most_rows_ = 1;               // of a tile
  int64_t rows_of_sums_ = 1;            // that scratch memory has room for: of tiles whole blocks, and one before them
  // Sums that wait for the epilogue while the taps of the next tile go by: variables of a group of columns.
  bool is_late_ = false;
  struct Late {
    const ir::Expr *next = nullptr, *end = nullptr, *first_row = nullptr;  // rows of the tile; null: none waits here
    std::vector<std::pair<const ir::Dim*, const ir::Expr*>> dims;          // where it lies in dims walked inside of the columns
  } late_;
  const ir::Expr* k_total_ = nullptr;
  uint32_t scratch_ = 0, scratch_of_sums_ = 0;  // of the epilogue: a tile of sums; those of its rows of A
  // ---- B from beyond L2 ----
  bool outer_inside_ = false;                 // the outer row dim is walked for each group
  const ir::Expr* end_of_columns_ = nullptr;  // that the part has, in all of its blocks
  uint32_t scratch_of_parts_ = 0;
  const ir::Expr *part_begin_ = nullptr, *slot_ = nullptr;  // of k; number of the tile in its block
  struct Fetch {
    const ir::Expr* from = nullptr;             // in B; null: nothing is fetched
    int64_t pieces = 1;                         // at the stride of panels
    const ir::Expr* tiles_per_piece = nullptr;
    const ir::Expr *per_tile = nullptr, *per_step = nullptr, *most = nullptr;  // elements; `most` in a turn of the loop
    const ir::Expr* at = nullptr;               // a variable of the tile: what comes next
  } fetch_;
  std::vector<const ir::Expr*> beside_;  // loads
  // The tile being emitted.
  const ir::Expr* first_row_ = nullptr;
  unsigned height_ = 0, chains_ = 1;
  std::vector<const ir::Expr*> acc_, row_sums_;
};

}  // namespace mlc::lower
