// One sum of products of two loads, seen as a matrix product (design: kernels.md sections 4 to 8).
//
//   out[batch.., m.., n] = epilogue( sum over taps.., k of A[batch, m, taps, k] * B[batch, n, taps, k] )
//
// n is a map dim along which B is contiguous: 16 columns of a panel, or a row-major row. Rows m are map dims that only
// A knows. Everything around the sum is the epilogue, evaluated on the accumulators.
//
// Codes of 8 bits are multiplied in groups of four along k, which are contiguous in both factors; the sums are of i32.
//
// With few columns a vector of columns would be mostly empty. Then vectors run along k, which is contiguous in both
// factors; an accumulator is summed across its lanes before the epilogue, which runs along the rows.
#pragma once

#include <optional>

#include "packager/lower/walk/templates.h"
#include "packager/nest/facts/contraction.h"

namespace mlc::lower {

struct Contraction {
  const ir::Expr* fold = nullptr;        // the node in the value, replaced by the accumulators
  // Loads; elements of another type than the sum are converted when they are read. Decoded: b is what columns are computed by, of any form.
  const ir::Expr *a = nullptr, *b = nullptr;
  const ir::Dim* n = nullptr;
  const ir::Dim* m = nullptr;            // row dim of the tile; null: a single row
  const ir::Dim* m_outer = nullptr;      // next row dim, looped over inside a tile; may be null
  std::vector<const ir::Dim*> batch;     // all other map dims, outer to inner
  std::vector<const ir::Dim*> taps;      // fold dims but k, outer to inner; may be empty
  const ir::Dim* k = nullptr;
  std::vector<const ir::Expr*> conditions;  // conjuncts: which points exist
  const ir::Expr* outside = nullptr;     // codes: what points that do not exist read; null: they add nothing
  const ir::Expr* sum_of_a = nullptr;    // codes: another fold of the value, over a alone

  // B's element address at column 16*panel + lane: b_rest + panel*b_panel + lane, where b_rest is free of n.
  const ir::Expr *b_rest = nullptr, *b_panel = nullptr;
  bool padded_panels = false;            // columns up to a multiple of 16 exist and are zero
  // Strides of A, and of B along k: from one element, of codes from one group, to the next. Decoded: A's element (0, 0) lies at a_rest.
  const ir::Expr *a_m = nullptr, *a_k = nullptr, *b_k = nullptr, *a_rest = nullptr;
  // Few columns: lanes of a vector along k, of which less than one may be left over, and the stride of B along n.
  unsigned k_lanes = 1;
  const ir::Expr* b_n = nullptr;
  bool along_k() const { return k_lanes > 1; }
  // Codes of 8 bits: sums in i32. Groups of these, and pairs of bf16, are contiguous along k in B.
  bool codes() const { return fold->type.dtype == DType::I32; }
  DType acc() const { return fold->type.dtype; }
  int64_t group = 1;
  // Elements of k that one step takes, and how far B moves with it.
  unsigned step() const { return group > 1 ? static_cast<unsigned>(group) : k_lanes; }
};

// Lanes of a vector of sums: no more than a panel has columns.
unsigned lanes_of_sums(const Job& job, DType acc);

// Vectors of this many f32 take twice as long as half of one on some machines (Zen 4, cores with one wide multiplier), and as long on others: columns
// that are left over and fill no more than half of one are half a vector.
inline constexpr unsigned kWideLanes = 16;
inline bool is_wide(unsigned lanes, DType acc) { return lanes * bytes_of(acc) >= kWideLanes * 4; }

// Register tile: rows x (vectors of the target) columns.
struct RegisterTile {
  unsigned rows = 1, vectors = 1;
};
// Best first; at most eight. `column_bytes`: of a column, for all of the fold (0: not known); `panels`: columns are stored in panels;
// `more`: vectors that each row takes beside its accumulators.
std::vector<RegisterTile> ranked_tiles(const Job& job, DType acc, double rows, bool rows_known, double columns, double column_bytes, bool panels, unsigned more);
// For vectors along k.
RegisterTile choose_tile_along_k(const Job& job, double rows, bool rows_known, unsigned columns);
// Whether a vector of A's elements along k is worth loading, each of whose lanes is then multiplied with columns.
bool a_lies_along_k(const Job& job, const Contraction& c);
inline constexpr int64_t kGroupBytes = 4;  // of codes and pairs of bf16, along k
inline constexpr int64_t kTileBytes = 64;  // of a row of a tile, at most
// Bytes of a row that one turn along k takes by the tiles of the target (gemm_tiles.cpp); 0: it has none, or the product does not suit them.
int64_t bytes_of_tiles(const Job& job, const Contraction& c);
// Whether k is filled up in B's panels to whole turns of tiles, the longest ones, with zeros.
bool is_filled_up(ir::Context& ctx, const Contraction& c);
// Elements that k is filled up to a multiple of in panels, with zeros: turns of tiles, where none divides it. 1: it is not.
int64_t depth_of_padding(const Job& job, const Contraction& c);
// Partial sums for each accumulator, so that `wanted` additions are in flight and hide their latency.
unsigned chains_for(unsigned rows, unsigned vectors, unsigned wanted);

// Recognises `nest`; B as stored. A product whose B is contiguous along k instead comes back with `needs_pack`, unless its
// columns are few and lie so.
struct Recognised {
  Contraction c;
  bool needs_pack = false;
  bool few = false;  // columns, which are packed side by side along k
};
std::optional<Recognised> recognise(const Job& job, const FlatNest& nest);

// Panels of B in a workspace: [batch dims that B knows][panel][taps][groups of k][16][elements of a group], of one element each in f32 and f64.
// Few columns are none: [batch dims that B knows][column][taps][k].
struct Panels {
  Panels(const Job& job, const Contraction& c, const FlatNest& nest, bool few);
  // Where column 16*panel + lane has element `k` lies.
  const ir::Expr* at(const ir::Expr* panel, const ir::Expr* lane, const ir::Expr* k) const;

  std::vector<const ir::Dim*> outer;
  std::vector<const ir::Dim*> conditions;  // without points, where the product has none (single.cpp)
  const ir::Expr* count = nullptr;   // of panels in a matrix
  const ir::Expr* groups = nullptr;  // along k
  int64_t columns = nest::kPanel;    // of a panel
  bool few = false;
  loop::Param workspace;

 private:
  ir::Context& ctx_;
  const Contraction& c_;
};
// The kernel that copies codes, or bf16, into these (pack_groups.cpp). `source` and the workspace are its parameters. `flip_sign`: of codes of u8.
Result<loop::Kernel> pack_groups(const Job& job, const Contraction& c, const Panels& panels, const loop::Param& source, bool flip_sign);

}  // namespace mlc::lower
