// The templates and what they share. Each takes a flat nest and either makes kernels or declines (nullopt).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "packager/lower/body.h"
#include "packager/lower/flat.h"
#include "packager/lower/lower.h"

namespace mlc::lower {

struct Job {
  ir::Context& ctx;
  const targets::Target& target;
  const MathExpander& expand;
  std::string name;  // of the kernel
};

using Kernels = std::vector<loop::Kernel>;

Result<Kernels> generic(const Job& job, const FlatNest& nest);
Result<std::optional<Kernels>> contraction(const Job& job, const FlatNest& nest);
Result<std::optional<Kernels>> stencil(const Job& job, const FlatNest& nest);
Result<std::optional<Kernels>> transpose(const Job& job, const FlatNest& nest);
Result<Kernels> lower_proc(const Job& job, const nest::Function& f, const nest::Proc& proc);

// An axis along which a kernel may be cut anywhere between quanta, and what a tile reads for each of these.
struct Axis {
  const ir::Expr* units = nullptr;
  const ir::Expr* bytes = nullptr;  // null: nothing that others do not read as well
};
// The quanta of an axis that a tile has.
struct Range {
  const ir::Expr *begin = nullptr, *end = nullptr;
};

// A kernel under construction: `tiles`, cuts and the loop over them are its skeleton.
struct Skeleton {
  explicit Skeleton(const Job& job);
  // for t in tile_begin .. tile_end, decoded into one index per extent and one range per axis (outermost first). An extent
  // may be any product.
  void over_tiles(const std::vector<const ir::Expr*>& extents, const std::vector<Axis>& axes,
                  const std::function<void(const std::vector<const ir::Expr*>&, const std::vector<Range>&)>& body);
  // Says what all tiles take: so many nanoseconds for each point of `extents`.
  void takes(double nanoseconds, const std::vector<const ir::Expr*>& extents, const ir::Expr* operations = nullptr);
  // `e` if the plan can work it out whatever the symbols are, else what it is guessed to be.
  const ir::Expr* for_plan(const ir::Expr* e);
  // Operations on scalars that one evaluation of `e` takes, as a double over symbols.
  const ir::Expr* operations(const ir::Expr* e);
  // Collects scalars, verifies.
  Result<loop::Kernel> finish(const Body& body);

  loop::Kernel kernel;
  loop::Builder b;
  ir::Context& ctx;

 private:
  std::vector<const ir::Expr*> decoded(const ir::Expr* tile, const std::vector<const ir::Expr*>& counts);
};

constexpr size_t kMostCuts = 3;  // of one launch, in a plan

// What one operation on vectors takes, roughly: there are up to four at once, and some wait for memory.
constexpr double kOperationNs = 0.5;

// The points lo .. hi of a dim of `extent` points that lie in `range`, whose quanta are `quantum` points.
Range points_of(Skeleton& k, const Range& range, int64_t quantum, const ir::Expr* extent);

// The dim along which the write is contiguous, or null.
const ir::Dim* contiguous_dim(ir::Context& ctx, const FlatNest& nest);
// Lanes for vectors of what `nest` computes on: by the widest type among its values.
unsigned natural_lanes(const targets::Target& target, const FlatNest& nest);

// Stores what is written, one array or all of the nest, at the dims as bound in `s`; `mask` restricts lanes or is null.
void emit_write(Body& s, loop::Builder& b, const FlatWrite& write, const ir::Expr* mask);
void emit_writes(Body& s, loop::Builder& b, const FlatNest& nest, const ir::Expr* mask);

}  // namespace mlc::lower
