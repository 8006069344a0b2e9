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

// A kernel under construction: `tiles` and the loop over them are its skeleton.
struct Skeleton {
  explicit Skeleton(const Job& job);
  // for t in tile_begin .. tile_end, decoded into one index per extent (outermost first). An extent may be any product.
  void over_tiles(const std::vector<const ir::Expr*>& extents,
                  const std::function<void(const std::vector<const ir::Expr*>&)>& body);
  // Collects scalars, verifies.
  Result<loop::Kernel> finish(const Body& body);

  loop::Kernel kernel;
  loop::Builder b;
  ir::Context& ctx;
};

// Elements of work (vector operations) that a tile should have: some ten microseconds.
constexpr double kTileWork = 20'000;

// The dim along which the write is contiguous, or null.
const ir::Dim* contiguous_dim(ir::Context& ctx, const FlatNest& nest);
// Lanes for vectors of what `nest` computes on: by the widest type among its values.
unsigned natural_lanes(const targets::Target& target, const FlatNest& nest);

// Stores what the nest writes at the dims as bound in `s`; `mask` restricts lanes or is null.
void emit_writes(Body& s, loop::Builder& b, const FlatNest& nest, const ir::Expr* mask);

}  // namespace mlc::lower
