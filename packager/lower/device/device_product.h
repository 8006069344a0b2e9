// A product on a device (design: accelerators.md section 3.1): what a contraction (packager/nest/facts/contraction.h) is to blocks of lanes,
// and what all their templates do alike. Its map dims are rows, columns and batches; rows are one index, whatever dims they have, and
// so are columns: factors are read at any address that these lead to, images in patches as well as matrices in panels. Which is rows and
// which is columns means nothing but the order in which the result is written.
#pragma once

#include <optional>

#include "packager/lower/device/device_fill.h"
#include "packager/loop/ops.h"
#include "packager/lower/flat/product.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

struct DeviceProduct {
  struct Side {
    nest::Operand factor;
    std::vector<const ir::Dim*> dims;       // that the other factor does not know, as they lie in the result
    const ir::Expr* points = nullptr;       // of all of them
    std::vector<const ir::Expr*> terms;     // conditions under which its elements count
    const ir::Expr* outside = nullptr;      // what others are, in the type of the load; null: zero
  };
  const ir::Expr* fold = nullptr;
  Side rows, columns;
  std::vector<const ir::Dim*> batch;        // all other map dims
  const ir::Dim* cluster = nullptr;         // FlatNest::cluster, which is in no other list
  std::vector<const ir::Dim*> outer, depth; // folded: one point after the other; in pieces, as one index
  const ir::Expr* depth_points = nullptr;
  DType sum() const { return fold->type.dtype; }
};

// The only product that `nest` computes; nothing, if its factors cannot be read apart from each other. `outer` is empty.
std::optional<DeviceProduct> product_for_device(ir::Context& ctx, const FlatNest& nest);
// Neighbours in memory become neighbours among the points, as far as strides are known.
void order_as_written(ir::Context& ctx, const FlatNest& nest, std::vector<const ir::Dim*>& dims);

// What of a product is kernels of its own (device_parts.cpp): the runs that it tells apart, and the parts of the fold that it adds up.
constexpr int64_t kFewFreeRows = 4;  // of which slices have all, however many the run has
// Of how many points a product is for in `nest`, as far as it is free.
ProductSize product_size(const FlatNest& nest, const DeviceProduct& p);
// The cases of a product of one free side, fewest points first; the last one has no most. Empty: one kernel is for all.
std::vector<ProductCase> product_cases(const Job& job, const FlatNest& nest, const DeviceProduct& p);
// Into how many parts of equal length which of its folded dims is cut. No dim: all of the fold is one kernel's.
struct FoldParts {
  const ir::Dim* dim = nullptr;
  int64_t parts = 1;
  bool in_cluster = false;  // blocks that run at once have them, of one launch; else the launch has parts, and another one adds them up
};
FoldParts fold_parts(const Job& job, const FlatNest& nest, const DeviceProduct& p);

class ProductStage : public Stage {
 public:
  ProductStage(const Job& job, const FlatNest& nest, Skeleton& k, DeviceProduct p, const schedule::Schedule& how);

 protected:
  using Side = DeviceProduct::Side;
  // An element of a factor: at base + k*stride, where all of it is a load that moves so; else wherever its dims lead to.
  struct Reached {
    const ir::Expr *base = nullptr, *stride = nullptr;
    const ir::Expr* guard = nullptr;   // whether elements count; null: they do, or each has to be asked
    const ir::Expr* outside = nullptr;  // what others are; null: zero
    bool ask = false;
  };

  void bind_batch(const std::vector<const ir::Expr*>& at);
  // Binds the dims of a side to one of its points.
  void bind_point(const Side& side, const ir::Expr* point);
  // The point, or the last one where there are not so many: a load that is not needed is made all the same. Of points that are loaded together, the first of them.
  const ir::Expr* existing(const Side& side, const ir::Expr* point, int64_t multiple, int64_t together = 1);
  // Runs `body` at the point, its dims bound, where it exists: tiles of `size` points may end behind the last.
  void where_it_exists(const Side& side, const ir::Expr* point, int64_t size, const std::function<void()>& body);
  // Runs `body` for each point of the outer folded dims.
  void over_outer(const std::function<void()>& body, size_t level = 0);
  // What holds for all elements of the side's point, once the outer folded dims are bound.
  Reached reach(const Side& side);
  // Whether the elements count at the point of the depth that is bound; null: they do.
  const ir::Expr* asked(const Side& side);
  // The element at `k` of the depth; what those are that do not count unless `exists` (null: it does).
  const ir::Expr* element(const Side& side, const Reached& at, const ir::Expr* k, const ir::Expr* exists);
  // sum + a*b; of vectors, lane by lane.
  const ir::Expr* multiply_add(const ir::Expr* sum, const ir::Expr* a, const ir::Expr* b);
  const ir::Expr* zero(unsigned lanes = 1);
  // Blocks of the cluster have sums in `memory`, and none of them goes on until all are there.
  void meet_cluster();
  // What all blocks have at an element of `memory`, added in their order; of no cluster, what is there.
  const ir::Expr* sum_of_blocks(uint32_t memory, DType stored, const ir::Expr* index);
  // The number of this block in its cluster, and how many there are: 0 and 1 of no cluster.
  const ir::Expr* block_ = nullptr;
  int64_t blocks_ = 1;
  // Writes what becomes of `sum` at the row and the column that are bound.
  void finish(const ir::Expr* sum);
  // Loads of the epilogue that rows have no part in, once for all rows.
  void load_for_column();
  void unrolled(int64_t copies, const std::function<void(const ir::Expr* u)>& body);

  const schedule::Schedule how_;
  DeviceProduct p_;
};

// A factor of codes of 8 bits (device_codes.h). `type` is what an instruction takes them for; where `flipped`, those in memory have the first bit otherwise.
struct CodeSide {
  DType type = DType::None;
  bool flipped = false;
};
// Elements of a factor that lie side by side along the depth, at a multiple of `length` in memory: those of index q of the last dim of the depth, counted in
// runs, begin at length * (base + q * step). Length 1: none do.
struct DepthRuns {
  int64_t length = 1;
  const ir::Expr *base = nullptr, *step = nullptr;
};

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

StagePtr tile_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);
StagePtr slices_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);

constexpr unsigned kTileLanes = 64, kTileSide = 8;  // lanes of a tile: 8 along rows, 8 along columns
constexpr unsigned kSliceLanes = 128;
// Loads of a column that a lane of slices has under way; with many rows those of these are under way as well.
constexpr unsigned slice_copies(int64_t rows) { return rows <= kFewFreeRows ? 8 : 4; }
constexpr unsigned kDeviceShared = 16384;  // bytes of a block that every device has

}  // namespace mlc::lower
