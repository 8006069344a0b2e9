// How one statement is computed: which loops, in which order, in which steps, and what stands side by side in registers.
//
//   product n:1 cut | p:1 cut | m:32 cut | m:16 lanes x2 | p:1 | q:7 rows even peel || u:1 | v:1 | c:1 unroll 2 chains 8
//     ; blocks 2000000 steps 393216 bytes 64 rows 8 passes ; instr fma.f32 ; vectors 64
//
// Loops stand outer to inner; behind `||` those of the fold whose partial results are kept in registers. A dim may have
// several: an inner one walks what the outer one leaves. Folds without such loops are scheduled by rule.
//
//   map i:1 grid | j:1 grid | k:1 ; block 128 ; vectors 1
//
// is of a device: the points of i and j are spread over the lanes of blocks.
//
//   tile m:1 grid | n:1 grid || k:1 ; tile 64 x 64 depth 16 copies 4 ; instr fma.f32 ; block 64 ; vectors 16
//
// is of one, too: a block of 64 lanes has a tile of 64 by 64 points of the product. By an instruction "dot.i8" they multiply codes of 8 bits, four
// values of the depth in a step. By an instruction "mma.f32", "mma.f16", "mma.bf16" or
// "mma.i8" warps multiply on tensor cores, and the block has 128 lanes, 256 if the tile is 128 by 128; "stages 3" behind the copies: memory has room for three pieces. By "wgmma.f16", "wgmma.bf16" or
// "wgmma.i8" four warps multiply 64 rows together, and the block has 128 lanes for each 64 rows. By "matrix.f16" subgroups multiply, and the block has 128 lanes. Of attention "warp 16" stands there: each warp has 16 of the
// block's queries, and warps that are left over share the keys of a turn: 128 lanes have 64 queries, or 32 in two shares of the keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::schedule {

enum class Family : uint8_t {
  Product,    // an outer product of rows and vectors of columns, accumulated
  Thin,       // the same with vectors along the fold
  Decoded,    // the same with columns that are computed from codes, vector by vector
  Window,     // neighbouring points of a row, accumulated over a small window
  Map,        // point by point
  Transpose,  // blocks that are read along one dim and written along another; devices: by all lanes of a block
  Proc,       // imperative blocks: which of their loops run in lanes is decided by rule
  Tile,       // devices: a block has a tile of a product, its factors pass through memory that the lanes share
  Slices,     // devices: a block has few rows of some columns of a product, and each lane a slice of the fold
  Lines,      // devices: lanes of a block share a row, whose folds they do together before they write it
  Fold,       // devices: a point of the grid has a block, whose lanes share a long fold; or neighbouring points have one, with a lane for each of some slices
  Attention,  // devices: a block has some queries and walks along the keys, scores stay in the memory that lanes share
  Group,      // several nests in one kernel, block of rows by block of rows, each by a schedule of its own
};

enum class Bind : uint8_t {
  Serial,  // one step after the other
  Cut,     // the launcher cuts it between steps; without a further loop of this dim one point at a time
  Rows,    // `step` neighbours at once, each with its own accumulators
  Lanes,   // vectors of `step` lanes, `count` of them side by side
  Unroll,  // a copy of the code for each value, or for `count` of them; of a map dim inside of lanes: their vectors are written in turns
  Grid,    // devices: spread over the lanes of blocks, each point of all such dims in a lane of its own; neighbours along the last
  Cluster, // devices: a block for each point, which run at once and add up the sums of a product that they have
};

// What becomes of the points that are left over.
enum class Tail : uint8_t {
  Mask,    // lanes: a vector of which some lanes exist
  Narrow,  // lanes: shorter vectors while the rest is a constant, then one at a time
  One,     // one at a time
};

struct Loop {
  std::string dim;
  int64_t step = 1;
  Bind bind = Bind::Serial;
  unsigned count = 1;   // Lanes: vectors; Unroll: copies, 0: of all
  unsigned chains = 1;  // in a fold: partial sums under way, where accumulators are fewer; at most four for each
  Tail tail = Tail::Mask;
  bool even = false;    // Rows: heights differ by one at most, so that there is no short tail
  // Rows: code of their own for rows that not all of the window reaches. Unroll: for windows that are reached wholly; others are loops.
  bool peel = false;
  bool reduces = false;
  bool operator==(const Loop&) const = default;
};

// What is stored in memory between two parts of the computation: "sums" of a tile before the epilogue, which are "late" if it runs beside the
// products of the next tile; "loads" of a block.
struct Place {
  std::string what;
  unsigned lanes = 1;  // sums: rows that the epilogue takes at once
  bool operator==(const Place&) const = default;
};

// Parts of a launch whose operands stay in a cache. The first four zero: none.
struct Blocks {
  int64_t steps = 0;   // products in a block, about
  int64_t bytes = 0;   // of the rows' operand that a block reads, at most
  int64_t rows = 0;    // in a block, at least about; Group: of all its nests, 0: as many as a rule says
  int64_t passes = 0;  // over the columns' operand, at most, where that is larger than `bytes`
  int64_t shared = 0;  // bytes of the columns' operand from which on it is read once, whatever the passes; 0: none
  int64_t depth = 0;   // of the fold: all rows of a block go by for so much of it, while sums wait in memory; 0: for all of it
  bool fetch = false;  // while columns are used, the next ones are on their way
  bool operator==(const Blocks&) const = default;
};

// Devices: what a block has of a product; Lines: its rows, and lanes of each; Fold: points that have a block together, if any do; Attention: its queries, and the keys of one turn. All zero: nothing of these.
struct Tile {
  int64_t rows = 0, columns = 0;
  int64_t depth = 0;    // of the fold, between two barriers; Slices, Fold: lanes that share a column
  unsigned copies = 0;  // of the code for a step of it
  bool flat = false;    // all dims of the fold are walked as one, else the last one in each point of the others
  unsigned stages = 0;  // pieces of the fold that memory has room for: one is multiplied, others are on their way; 0: the template says it
  unsigned warp = 0;    // Attention on tensor cores: queries of a warp; 0: of all others
  bool operator==(const Tile&) const = default;
};

struct Schedule {
  Family family = Family::Map;
  std::vector<Loop> loops;
  std::vector<Place> places;
  std::vector<Schedule> stages;  // Group: of its nests, in their order; none is a group
  Blocks blocks;
  Tile tile;
  std::string instruction;     // of the accumulators: "fma.f32", "dot.u8"; empty: as the expression says
  unsigned lanes = 1;          // Proc: of its widest loop
  unsigned block = 0;          // devices: lanes of a block; 0: of a processor
  unsigned vector_bytes = 16;  // no vector is wider, whatever computes it
  loop::Hoisting hoist = loop::Hoisting::All;
  bool operator==(const Schedule&) const = default;
};

// Whether a processor's unit for matrices multiplies: "tiles.u8", by sixteen rows and panels of sixteen columns.
bool is_tiled(const Schedule& schedule);
// Whether warps multiply, by tensor cores; and whether four of them together do, from the memory of the block ("wgmma.f16").
bool is_mma(const Schedule& schedule);
bool is_group_mma(const Schedule& schedule);
// Whether subgroups of a device multiply, by matrices whose layout is the device's ("matrix.f16").
bool is_matrix(const Schedule& schedule);
constexpr unsigned kMatrixBlock = 128;       // lanes of such a block
constexpr int64_t kMostMatrixSides = 192;    // rows and columns of its tile: two pieces of them are in 32 KB
// Whether lanes of a tile multiply four codes of 8 bits by four at once.
inline constexpr char kDotInstruction[] = "dot.i8";
bool is_dot(const Schedule& schedule);
// Of the depth, in a step of a tile of lanes.
int64_t cell_values(const Schedule& schedule);
// Whether blocks of attention have one query, whose keys the lanes share. `depth` lanes have a key together, `columns` keys are a turn.
bool has_one_query(const Schedule& schedule);
constexpr unsigned kQueryLanes = 256;  // of such a block
// Attention on tensor cores: how many warps share the keys of a turn.
int64_t key_shares(const Schedule& schedule);
std::string print(const Schedule& schedule);
// The inverse of print. Fails on anything else.
Result<Schedule> parse(std::string_view text);
// Whether nothing runs in lanes: vectors of one element only.
bool is_scalar(const Schedule& schedule);

// What may be done with the dims of a statement by one family. Found by the family's analysis of the statement.
struct Space {
  struct Dim {
    std::string name;
    int64_t extent = -1;       // -1: only the run knows
    bool reduces = false;
    bool cut = false, serial = true, rows = false;  // cut: of a device, spread over lanes
    bool cluster = false;      // its points are the blocks of a cluster, at most that many of a device; the only one of its dims
    bool block = false;        // loops over it in longer steps, around its last one
    unsigned lanes = 0;        // at most, a power of two; 0: none
    bool unroll = false;       // into copies for all values; it has a constant extent
    bool exact = false;        // copies divide the extent
    bool part = false;         // into `count` copies, chains, or vectors; lanes divide the extent unless it is masked
    int64_t step = 1;          // of one point: codes are taken in groups
    bool filled = false;       // up to whole turns of tiles, the longest ones, with zeros
    bool peel = false;
    bool peel_ends = false;    // rows of a fixed height, with those that not all of the window reaches at known distances from the ends
    bool needs_peel = false;   // rows in even heights, some of which not all of the window reaches: only with peel
    bool even_only = false;    // rows of a fixed height do not exist
    bool masked = false;       // what is left over of lanes is masked
  };
  Family family = Family::Map;
  std::vector<Dim> dims;       // outer to inner, as far as their order has a meaning
  size_t ordered = 0;          // the last so many of those that do not reduce keep their order
  unsigned block = 0;          // lanes of a device's blocks; 0: a processor
  bool needs_lanes = false, needs_rows = false;
  unsigned panel = 0;          // groups of columns are whole panels, or parts of one; 0: any number of vectors
  unsigned most_vectors = 1;   // side by side
  int64_t most_accumulators = 64;
  int64_t depth = 0;           // a depth of blocks divides it; 0: blocks have none
  bool fetch = false;          // blocks may fetch
  int64_t tile_rows = 0;       // Slices: those of the product, which all lanes of a block have
  int64_t tile_columns = 0;    // Attention: elements of a value, which all lanes of a block have; Fold: its neighbouring points, 0: it has one
  int64_t mma_depth = 0;       // Attention on tensor cores: elements of a query, filled up to whole pieces
  int64_t query_depth = 0;     // Attention of a query for each block: its elements; 0: there is no such schedule
  unsigned shared_bytes = 0;   // devices: of a block
  std::vector<std::string> instructions, places, needed_places;
  std::vector<Space> stages;   // Group: of its nests
  int64_t most_rows = 0;       // Group: of a block
};

// Ok if a kernel built from it computes what the statement says.
Status verify(const Schedule& schedule, const Space& space);

}  // namespace mlc::schedule
