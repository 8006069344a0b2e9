// The one builder of loops: ranges, blocks, row tiles, vectors, what is left over at their ends, and the points of a window
// that exist. It does what a schedule says and decides nothing. What stands inside of all loops is the leaf, which each family
// of schedules has its own of.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "packager/lower/walk/templates.h"
#include "packager/schedule/schedule.h"

namespace mlc::lower {

constexpr int64_t kMostCopies = 16;  // of the code for the taps of a window

// The fold of which rows and vectors keep partial results in registers.
struct Anchor {
  const ir::Dim* row = nullptr;                       // of a tile; null: a single row
  std::vector<const ir::Dim*> taps;                   // of the fold, outer to inner; what else it has is the leaf's
  std::vector<const ir::Expr*> row_terms, tap_terms;  // conditions: with and without the row
  int64_t most_copies = kMostCopies;                  // of the code of a row, one for each tap that conditions on it mention
};

// Whether it is known now which rows each tap reaches: constant sizes, few taps.
bool may_peel_rows(ir::Context& ctx, Facts& facts, const Anchor& anchor);
// Of even row tiles of this height, those of constant extent that some tap does not reach completely.
std::vector<bool> edges_of(ir::Context& ctx, Facts& facts, const Anchor& anchor, int64_t height);
size_t num_edges(ir::Context& ctx, Facts& facts, const Anchor& anchor, int64_t height);
// The rows that all taps together reach in these.
int64_t reached_in_edges(ir::Context& ctx, Facts& facts, const Anchor& anchor, int64_t height);
// Rows near the ends that not all taps reach, of a row with a dynamic extent: 0 .. begin and end .. end + last.
struct Ends {
  int64_t begin = 0, last = 0;
  const ir::Expr* end = nullptr;
};
// Nothing: how many these are, only the run knows, or what reaches them.
std::optional<Ends> ends_of(ir::Context& ctx, Facts& facts, const Anchor& anchor);
// Whether two points of a tap decide whether all of them exist, whatever the other taps are.
bool may_peel_window(ir::Context& ctx, Facts& facts, const Anchor& anchor, const ir::Dim* tap);

class Walk : public Stage {
 public:
  Walk(const Job& job, const FlatNest& nest, Skeleton& k, const schedule::Schedule& how, const DimNames& names, Anchor anchor);

 protected:
  // Rows first .. first+height of the anchor.
  struct Tile {
    const ir::Expr* first = nullptr;
    unsigned height = 1;
    bool edge = false;     // `first` is a constant, and not all taps reach all rows
    bool checked = false;  // whether they do, only the run knows
    bool plain = false;    // a single row outside of tiles: no accumulators
    const ir::Expr* index = nullptr;  // of a tile of even height, among all of them
    enum class Side { None, First, Last } side = Side::None;  // an edge at an end of the row (Ends), whatever its extent
    int64_t behind_end = 0;           // of the last ones: from where on
  };
  // Vectors side by side from column `first` on.
  struct Columns {
    const ir::Dim* dim = nullptr;
    const ir::Expr* first = nullptr;
    unsigned lanes = 1, vectors = 1;
    const ir::Expr* limit = nullptr;  // columns beyond it do not exist (null: all do)
    const ir::Expr* mask = nullptr;   // the same of a single vector
  };

  void part(const std::vector<Range>& ranges) override;
  // Around all loops: blocks for the caches.
  virtual void around(const std::function<void()>& loops) { loops(); }
  // Around all row tiles of even height: of a group of columns, and of an outer row.
  virtual void around_rows(const std::function<void()>& tiles) { tiles(); }
  // Around all that is done for a group of columns, whose loop is `l`.
  virtual void in_columns(size_t l, const std::function<void()>& body) { (void)l, body(); }
  // The points of the dim of lanes, whose loop is `l`, between which vectors need not look for borders: a part of `all`. They are walked
  // as `inner_`, all others as they are. Nothing: there are no borders.
  virtual std::optional<Range> inner_points(size_t l, const Range& all) { return (void)l, (void)all, std::nullopt; }
  // Whether borders are vectors like those between, masked at the end: else what is left over at borders goes point by point.
  virtual bool has_masked_borders(size_t l) const { return (void)l, false; }
  // Whether points may be done twice: then what is left over behind whole vectors is a vector that ends where they end.
  virtual bool may_repeat() const { return false; }
  // Where loop `l` begins.
  virtual void enter(size_t l) { (void)l; }
  virtual void leaf() = 0;
  // Whether a vector of which at most half of the lanes exist is one of half as many.
  virtual bool may_halve(unsigned lanes) const { return (void)lanes, false; }
  // Loop `l`, a copy for each value of a map dim: inside of all other loops it may be more than one point after the other.
  virtual void copies(size_t l);

  const schedule::Loop* loop_of(const ir::Dim* d, schedule::Bind bind) const;
  const schedule::Loop* last_loop_of(const ir::Dim* d) const;
  // Runs `body` with the vector of columns as the vector dim.
  void at_columns(const std::function<void()>& body);
  // Runs `body` for each point of the taps, rows lo .. hi-1 of the tile being those that it reaches.
  void taps(const std::function<void(unsigned lo, unsigned hi)>& body);

  struct Step {
    const ir::Dim* dim;
    const schedule::Loop* how;
  };
  // What a part has of a dim: steps of `quantum` points, the first of them a multiple of `align` (0: the whole dim).
  struct Part {
    Range range;
    int64_t quantum = 1, align = 0;
  };
  Part part_of(const ir::Dim* d) const;
  void in_points(const ir::Dim* d);
  Range tiles_of_rows() const;  // of even height

  const schedule::Schedule how_;
  const Anchor anchor_;
  std::vector<Step> all_, steps_;  // all loops; those that are neither cuts nor of the fold
  std::vector<const ir::Dim*> axis_dims_;
  std::unordered_map<const ir::Dim*, Part> parts_;
  const ir::Expr* num_row_tiles_ = nullptr;  // of even height
  Tile tile_;
  Columns columns_;
  bool halves_rest_ = false;  // of vectors side by side: half as many, and so on; else a panel at a time
  bool inner_ = false;  // between borders
  const ir::Expr* repeats_from_ = nullptr;  // points from here on may be done twice

  void walk(size_t l);

 private:
  void serial(size_t l);
  // ---- vectors ----
  void lanes(size_t l);
  void vectors(size_t l, const Part& part, bool is_whole);  // is_whole: it has no rest
  void border(size_t l, const ir::Expr* from, const ir::Expr* to);
  void again(size_t l, const ir::Expr* from, const ir::Expr* to, std::optional<int64_t> rest);
  void rest_of_lanes(size_t l, const ir::Expr* from, const ir::Expr* to, std::optional<int64_t> rest);
  void columns(size_t l, unsigned lanes, unsigned vectors, const ir::Expr* limit);
  // ---- rows ----
  void rows(size_t l);
  void even_rows(size_t l);
  void fixed_rows(size_t l);
  void rows_between_ends(size_t l, const Ends& ends);
  bool reached(unsigned row);
  void run_of_tiles(size_t l, const ir::Expr* begin, const ir::Expr* end, unsigned height);
  void tile(size_t l, const Tile& tile);
  // ---- taps ----
  // Runs `body` twice: where all points of windows to be peeled exist, and where not.
  void by_window(const std::function<void()>& body);
  bool in_copies(const ir::Dim* tap) const;
  void tap_level(size_t level, const std::function<void(unsigned, unsigned)>& body);
  void tap_loop(size_t level, const std::function<void(unsigned, unsigned)>& body);

  const ir::Expr *row_base_ = nullptr, *row_extra_ = nullptr;  // heights of even tiles
  std::vector<bool> edges_;                                   // per even tile; empty: none, or not known
  std::vector<const ir::Dim*> row_taps_;                      // those that conditions on the row mention
  std::vector<std::vector<const ir::Expr*>> terms_;           // of taps, by the innermost they mention
  std::vector<const ir::Expr*> outer_terms_;
  std::vector<const ir::Dim*> peeled_;                        // taps that are copies where all of them exist
  std::optional<bool> whole_;                                 // whether they do, where that is decided
  std::unordered_map<const ir::Expr*, const ir::Expr*> at_tap_;
};

}  // namespace mlc::lower
