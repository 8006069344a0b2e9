// A layout is a value: where the element at given indices is stored in memory. It lists pieces of axes from outermost to
// innermost; a piece is (index[axis] / divisor) % extent, the outermost piece of an axis has no modulus. Row-major is one
// piece per axis in order; channels last is another order of the same; panel-16 of a K x N matrix is
//   {n / 16} {k} {n % 16}     written "[1/16][0][1%16]".
// A split axis is padded up to a multiple of its split; padding elements are zero. An array that is a part of another one lies
// within its memory: its elements are those of the other one from `at` on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "packager/ir/context.h"

namespace mlc::nest {

struct Piece {
  uint8_t axis = 0;
  int64_t divisor = 1;
  int64_t extent = 0;  // 0: all that is left of the axis (the outermost piece of it)
  friend bool operator==(const Piece&, const Piece&) = default;
};

struct Layout {
  std::vector<Piece> pieces;  // empty: row-major
  // Of a part: the shape of the whole, and where the part begins, per axis. Both empty: an array with memory of its own.
  std::vector<const ir::Expr*> within, at;
  bool is_part() const { return !within.empty(); }
  friend bool operator==(const Layout&, const Layout&) = default;
  bool is_row_major() const;
};

Layout row_major(unsigned rank);
Layout permuted(std::vector<uint8_t> axes_outer_to_inner);

// Extents of the pieces, outermost first, for an array of this shape; their product is the number of elements stored, but for a part.
std::vector<const ir::Expr*> piece_extents(ir::Context& ctx, const Layout& layout, const std::vector<const ir::Expr*>& shape);
// Of a part: of the whole.
const ir::Expr* stored_elements(ir::Context& ctx, const Layout& layout, const std::vector<const ir::Expr*>& shape);
// Linear element address of `index` (one expression per axis).
const ir::Expr* address(ir::Context& ctx, const Layout& layout, const std::vector<const ir::Expr*>& shape,
                        const std::vector<const ir::Expr*>& index);
std::string to_string(const Layout& layout, unsigned rank);  // "[1/16][0][1%16]"; row-major of rank 2: "[0][1]"

}  // namespace mlc::nest
