// A product as register tiles see it: rows of A by panels of columns of B (design: kernels.md sections 4 to 8).
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

#include <memory>

#include "packager/lower/flat/product.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

struct TiledProduct {
  nest::Contraction product;             // its `a` has the rows, its `b` the columns; decoded: `b` is computed
  const ir::Dim* n = nullptr;
  const ir::Dim* m = nullptr;            // row dim of the tile; null: a single row
  const ir::Dim* m_outer = nullptr;      // next row dim, looped over inside a tile; may be null
  std::vector<const ir::Dim*> batch;     // all other map dims, outer to inner
  std::vector<const ir::Dim*> taps;      // fold dims but k, outer to inner; may be empty
  const ir::Dim* k = nullptr;
  std::vector<const ir::Expr*> conditions;  // conjuncts: which points exist

  // B's element address at column 16*panel + lane: b_rest + panel*b_panel + lane, where b_rest is free of n.
  const ir::Expr *b_rest = nullptr, *b_panel = nullptr;
  bool padded_panels = false;            // columns up to a multiple of 16 exist and are zero
  // Strides of A, and of B along k: from one element, of codes from one group, to the next. Decoded: A's element (0, 0) lies at a_rest.
  const ir::Expr *a_m = nullptr, *a_k = nullptr, *b_k = nullptr, *a_rest = nullptr;
  // Few columns: lanes of a vector along k, of which less than one may be left over, and the stride of B along n.
  unsigned k_lanes = 1;
  const ir::Expr* b_n = nullptr;
  int64_t group = 1;                     // codes of 8 bits, and pairs of bf16, that are contiguous along k in B
  bool needs_pack = false;               // B is contiguous along k instead, and columns are not few that lie so
  bool few = false;                      // columns, which are packed side by side along k

  bool along_k() const { return k_lanes > 1; }
  // Elements of k that one step takes, and how far B moves with it.
  unsigned step() const { return group > 1 ? static_cast<unsigned>(group) : k_lanes; }
  // The node in the value, replaced by the accumulators; loads, whose elements are converted to the type of the sum when they are read.
  const ir::Expr* fold() const { return product.fold; }
  const ir::Expr* a() const { return product.a.load; }
  const ir::Expr* b() const { return product.b.load; }
  DType acc() const { return product.acc(); }
  bool codes() const { return acc() == DType::I32; }
  const ir::Expr* outside() const { return product.a.outside; }  // codes: what points that do not exist read; null: they add nothing
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
bool a_lies_along_k(const Job& job, const TiledProduct& c);
inline constexpr int64_t kGroupBytes = 4;  // of codes and pairs of bf16, along k
inline constexpr int64_t kTileBytes = 64;  // of a row of a tile, at most
// Bytes of a row that one turn along k takes by the tiles of the target (gemm_tiles.cpp); 0: it has none, or the product does not suit them.
int64_t bytes_of_tiles(const Job& job, const TiledProduct& c);
// Whether k is filled up in B's panels to whole turns of tiles, the longest ones, with zeros.
bool is_filled_up(ir::Context& ctx, const TiledProduct& c);
// Elements that k is filled up to a multiple of in panels, with zeros: turns of tiles, where none divides it. 1: it is not.
int64_t depth_of_padding(const Job& job, const TiledProduct& c);
// Partial sums for each accumulator, so that `wanted` additions are in flight and hide their latency.
unsigned chains_for(unsigned rows, unsigned vectors, unsigned wanted);

// `nest` as a product that tiles can sum, B as stored; null, if it is none. It is looked for once.
std::shared_ptr<const TiledProduct> tiled_product(const Job& job, const FlatNest& nest);

// Panels of B in a workspace: [batch dims that B knows][panel][taps][groups of k][16][elements of a group], of one element each in f32 and f64.
// Few columns are none: [batch dims that B knows][column][taps][k].
struct Panels {
  Panels(const Job& job, const TiledProduct& c, const FlatNest& nest);
  // Where column 16*panel + lane has element `k` lies.
  const ir::Expr* at(const ir::Expr* panel, const ir::Expr* lane, const ir::Expr* k) const;

  std::vector<const ir::Dim*> outer;
  std::vector<const ir::Dim*> conditions;  // without points, where the product has none (single.cpp)
  const ir::Expr* count = nullptr;   // of panels in a matrix
  const ir::Expr* groups = nullptr;  // along k
  int64_t columns = nest::kPanel;    // of a panel
  loop::Param workspace;

 private:
  ir::Context& ctx_;
  const TiledProduct& c_;
};
// The kernel that copies codes, or bf16, into these (pack_groups.cpp). `source` and the workspace are its parameters. `flip_sign`: of codes of u8.
Result<loop::Kernel> pack_groups(const Job& job, const TiledProduct& c, const Panels& panels, const loop::Param& source, bool flip_sign);

}  // namespace mlc::lower
