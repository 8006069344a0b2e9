// A product on a device (design: accelerators.md section 3.1): what a contraction (packager/nest/facts/contraction.h) is to blocks of lanes,
// and what all their templates do alike. Its map dims are rows, columns and batches; rows are one index, whatever dims they have, and
// so are columns: factors are read at any address that these lead to, images in patches as well as matrices in panels. Which is rows and
// which is columns means nothing but the order in which the result is written.
#pragma once

#include <optional>

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
// The longest dim of the depth that no condition restricts goes by in pieces, if it fills them: it is the last one. Else all of the fold does, as one.
void order_depth(DeviceProduct& p);
// Neighbours in memory become neighbours among the points, as far as strides are known.
void order_as_written(ir::Context& ctx, const FlatNest& nest, std::vector<const ir::Dim*>& dims);

// Elements of a factor that lie side by side along the depth, at a multiple of `length` in memory: those of index q of the last dim of the depth, counted in
// runs, begin at length * (base + q * step). Length 1: none do.
struct DepthRuns {
  int64_t length = 1;
  const ir::Expr *base = nullptr, *step = nullptr;
};

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
  // The index in memory of run `number` of the depth, counted in runs; all dims of a depth of several but the last one are bound then. `at` has what `runs` says, of one dim.
  const ir::Expr* index_of_run(const Reached& at, const DepthRuns& runs, const ir::Expr* number);
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

StagePtr tile_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);
StagePtr slices_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);

constexpr int64_t kFewFreeRows = 4;  // of which slices have all, however many the run has
constexpr unsigned kSliceLanes = 128;
// Loads of a column that a lane of slices has under way; with many rows those of these are under way as well.
constexpr unsigned slice_copies(int64_t rows) { return rows <= kFewFreeRows ? 8 : 4; }
constexpr unsigned kDeviceShared = 16384;  // bytes of a block that every device has

}  // namespace mlc::lower
