// Maps that read along a dim in pieces: a clamped, mirrored or repeated index is a plain one but for the borders. Vectors of neighbours
// are loads there, not gathers.
#pragma once

#include "packager/lower/flat/facts.h"
#include "packager/lower/flat/flat.h"

namespace mlc::lower {

// The piece of `d` in the middle of which most points lie: max(begins) <= d < min(ends). There `writes` say the same as those of the nest.
struct Piece {
  std::vector<const ir::Expr*> begins, ends;  // free of `d`
  std::vector<FlatWrite> writes;
};
// Nothing if no load becomes one of neighbours.
std::optional<Piece> middle_piece(ir::Context& ctx, Facts& facts, const FlatNest& nest, const ir::Dim* d);

}  // namespace mlc::lower
