// Products on tensor cores: which of them, by which schedules, and the stage that does one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "packager/lower/device/product/chunks.h"
#include "packager/lower/device/product/fill.h"

namespace mlc::lower {

// What multiplies there: "mma.f16", "mma.bf16", "mma.i8" for codes of 8 bits, or "mma.f32" for three products of tf32 (one, of factors that it holds); "wgmma." and the same, but f32, where four warps may
// do together; "matrix.f16" by matrices of subgroups. None: lanes do, by multiply-adds.
std::vector<std::string> mma_instructions(const Job& job, const DeviceProduct& p, const ProductSize& size);
constexpr uint32_t kHighBits = 0xffffe000;     // of an f32 that tf32 has
constexpr int64_t kWarpLanes = 32, kMmaRows = 16, kMmaColumns = 8;

// What stages have in common whose warps multiply: chunks of cells, as memory has them and as an instruction wants them (product/mma.cpp).
class MmaStage : public ProductStage {
 protected:
  MmaStage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how, DType factors);

  struct Halves {
    const ir::Expr *high = nullptr, *low = nullptr;  // null: there is none
  };
  bool of_codes() const { return factors_ == DType::I8; }
  const ir::Expr* number(int64_t n);
  const ir::Expr* of(const ir::Expr* v, unsigned lane);
  // Where a chunk of a row of a piece lies, in chunks.
  const ir::Expr* at_chunk(const ir::Expr* row, const ir::Expr* chunk);
  bool is_along_depth(const Side& side);
  // Where the depth begins, counted in chunks, if chunks lie in memory as they are wanted, at multiples of their size; null: they do not.
  const ir::Expr* chunks_of(const Side& side);
  Reached reach_chunks(const Side& side, const ir::Expr* chunks);
  // Where in the array of a factor a chunk of the piece that begins at `first` is, and whether it counts (null: it does).
  struct Place {
    const ir::Expr *index = nullptr, *counts = nullptr;
  };
  Place place_of_chunk(const Reached& reached, const ir::Expr* number_of_chunk, const ir::Expr* first);
  // The cells of a chunk of the piece that begins at `first`, zero where the depth has ended; the dims of the side are bound.
  const ir::Expr* chunk_of(const Side& side, bool is_load, const Reached& reached, const ir::Expr* chunk, const ir::Expr* first);
  // Cell `c` of these values.
  const ir::Expr* cell(const std::function<const ir::Expr*(int64_t)>& value, int64_t c);
  // Two neighbours of 16 bits as one cell.
  const ir::Expr* pair(const ir::Expr* first, const ir::Expr* second);
  // `high_bits`: a number with these bits that only the run knows; null: a constant.
  Halves halves(const ir::Expr* chunk, bool is_short, const ir::Expr* high_bits = nullptr);
  // sums + a*b, by the instruction.
  virtual const ir::Expr* product(const ir::Expr* sums, const ir::Expr* a, const ir::Expr* b);
  // Products of a step of a piece: 16 rows by the columns that `b` has, the smallest first.
  void add_step(const Halves& a, unsigned step, const std::vector<Halves>& b, std::vector<const ir::Expr*>& sums);
  // Products of a piece whose cells lanes have in the order of chunks: rows g and g + 8 by the columns that `b` has.
  void add_piece(const Halves& upper, const Halves& lower, const std::vector<Halves>& b, std::vector<const ir::Expr*>& sums);

  const DType factors_;
  const int64_t values_;  // of the depth in a cell

 private:
  const ir::Expr* load_of(const Side& side, const Reached& reached, const ir::Expr* number_of_chunk, const ir::Expr* first);
};

// Best first. `base` has the loops of the product, whose depth is in its order (walked_depth).
std::vector<schedule::Schedule> mma_schedules(const Job& job, const FlatNest& nest, const DeviceProduct& p, const ProductSize& size, const schedule::Schedule& base, const std::vector<std::string>& instructions);
// Cycles of the best one, if `cut` is in so many parts, the blocks of a cluster or a batch of products.
double least_mma_cycles(const Job& job, const FlatNest& nest, DeviceProduct p, ProductSize size, const std::vector<std::string>& instructions, const ir::Dim* cut, int64_t parts, bool in_cluster);
StagePtr matrix_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);
StagePtr mma_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);

}  // namespace mlc::lower
