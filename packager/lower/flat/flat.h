// A nest whose arrays have become flat buffers. Loads have the linear element index as first argument; the buffers are
// numbered as the kernel's parameters. What is known of a load's index is kept in two ways:
//   access Clamped  in range whatever the conditions around it
//   access Proved   in range only under the conditions around it: masked wherever they do not hold
//   access Checked  second argument: the Bool that it is in range; a fault where it is not
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"
#include "packager/nest/nest.h"

namespace mlc::lower {

struct FlatWrite {
  uint32_t buffer = 0;
  DType dtype = DType::None;
  const ir::Expr* address = nullptr;
  const ir::Expr* value = nullptr;
  const ir::Expr* in_range = nullptr;         // pushes whose place is not proved: faults where false
  std::vector<const ir::Expr*> index;         // per axis, as written; the base of safe partitions of pushes
  bool push = false;
  ir::Join join = ir::Join::Last;
};

// A value of each point of a fold that is written where the fold runs, before it is joined. The value is needed everywhere.
struct Kept {
  const ir::Expr* fold = nullptr;
  FlatWrite write;
};

// Devices: a product whose rows or columns only the run knows is several kernels, of which the run takes one.
struct ProductCase {
  double about = 0;     // points of the side that is free, of those that this kernel is for; 0: it is for all
  int64_t most = 0;     // of these points; 0: any number
  bool is_cut = false;  // its fold is part of a longer one already
};

struct FoundProduct;

struct FlatNest {
  std::vector<const ir::Dim*> dims;
  const ir::Expr* where = nullptr;
  std::vector<FlatWrite> writes;
  const ir::Dim* scan_dim = nullptr;
  const ir::Combiner* scan_combiner = nullptr;
  bool scan_exclusive = false, scan_reverse = false;
  // Every fold of the values is in range under its own condition alone: it may be evaluated where the arm of a select that
  // it stands in is not taken.
  bool folds_anywhere = true;
  std::vector<Kept> kept;
  std::vector<uint32_t> weights;  // buffers of exponentials: rows of them may begin and end in zeros
  std::vector<loop::Param> params;
  ProductCase product;
  // Devices: this map dim is no index of what is written. Its points have a part of the product's fold each; their sums are added up in order before all that the value
  // makes of the fold. The blocks that have them are a cluster. Null: the fold is whole.
  const ir::Dim* cluster = nullptr;
  mutable std::shared_ptr<FoundProduct> found;  // kept by `product_of` (product.h)
};

// An array of the function of which a kernel keeps some rows only, in a local array.
struct LocalRows {
  uint32_t number = 0;                   // of the local array: as a buffer, kFirstLocal behind it until all parameters are known
  std::vector<const ir::Expr*> origin;   // per axis: the index of what is kept first
  std::vector<const ir::Expr*> shape;    // of what is kept
};

// The parameters of a kernel under construction: one per array of the function it touches that is not local.
class Params {
 public:
  explicit Params(const nest::Function& f) : f_(f) {}
  uint32_t of(uint32_t array, bool written = false);
  // The linear address of an element.
  const ir::Expr* address(ir::Context& ctx, uint32_t array, const std::vector<const ir::Expr*>& index) const;
  std::vector<loop::Param> list;
  std::unordered_map<uint32_t, LocalRows> locals;  // by array

 private:
  const nest::Function& f_;
};

// Two indices side by side that are i / n and i % n: of something reshaped, whose elements are contiguous.
bool is_taken_apart(const ir::Expr* before, const ir::Expr* index);
// One array access in flat form, given one whose indices are flat already. `Proved` loads that are in range unconditionally come back as Clamped.
const ir::Expr* flat_load(ir::Context& ctx, const nest::Function& f, Params& params, const ir::Expr* load);
// True if `index` lies in `shape` for all values of its dims and symbols.
bool in_range(ir::Context& ctx, const std::vector<const ir::Expr*>& index, const std::vector<const ir::Expr*>& shape);
// The Bool that it does.
const ir::Expr* range_condition(ir::Context& ctx, const std::vector<const ir::Expr*>& index,
                                const std::vector<const ir::Expr*>& shape);
// Rewrites every load below `e` to flat form.
const ir::Expr* flatten(ir::Context& ctx, const nest::Function& f, Params& params, const ir::Expr* e);

Result<FlatNest> flatten(ir::Context& ctx, const nest::Function& f, const nest::Nest& nest);
// The same with parameters that several nests share; the nest has those that there are so far.
Result<FlatNest> flatten(ir::Context& ctx, const nest::Function& f, const nest::Nest& nest, Params& params);
// Replaces dims and variables in all expressions; the caller removes the dims.
void substitute(ir::Context& ctx, FlatNest& nest, const std::unordered_map<const ir::Expr*, const ir::Expr*>& map);
class Facts;
// `e` with its loads along `d` as ones that may only be made where the conditions around them hold.
const ir::Expr* guarded(ir::Context& ctx, Facts& facts, const ir::Expr* e, const ir::Dim* d);
// Merges neighbouring map dims where every address walks through them without a gap, likewise dims of folds; dims of
// extent one disappear. Fewer, longer loops.
void collapse(ir::Context& ctx, FlatNest& nest);
// Places that folds find (ArgMax), all below 2^31, in i32 while they are folded (short_indices.cpp).
void short_indices(ir::Context& ctx, FlatNest& nest);

}  // namespace mlc::lower
