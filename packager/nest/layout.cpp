#include "packager/nest/layout.h"

namespace mlc::nest {

bool Layout::is_row_major() const {
  if (is_part()) return false;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i] != Piece{static_cast<uint8_t>(i), 1, 0}) return false;
  return true;
}

Layout row_major(unsigned rank) {
  Layout l;
  for (unsigned i = 0; i < rank; ++i) l.pieces.push_back({static_cast<uint8_t>(i), 1, 0});
  return l;
}

Layout permuted(std::vector<uint8_t> axes) {
  Layout l;
  for (uint8_t a : axes) l.pieces.push_back({a, 1, 0});
  return l;
}

namespace {
Layout explicit_pieces(const Layout& layout, size_t rank) {
  return layout.pieces.empty() ? row_major(static_cast<unsigned>(rank)) : layout;
}
}  // namespace

std::vector<const ir::Expr*> piece_extents(ir::Context& ctx, const Layout& layout, const std::vector<const ir::Expr*>& shape) {
  std::vector<const ir::Expr*> extents;
  for (const Piece& p : explicit_pieces(layout, shape.size()).pieces)
    extents.push_back(p.extent ? ctx.integer(p.extent) : ctx.ceildiv(shape[p.axis], ctx.integer(p.divisor)));
  return extents;
}

const ir::Expr* stored_elements(ir::Context& ctx, const Layout& layout, const std::vector<const ir::Expr*>& shape) {
  return ctx.product(piece_extents(ctx, layout, layout.is_part() ? layout.within : shape));
}

const ir::Expr* address(ir::Context& ctx, const Layout& layout, const std::vector<const ir::Expr*>& shape,
                        const std::vector<const ir::Expr*>& index) {
  Layout l = explicit_pieces(layout, shape.size());
  auto extents = piece_extents(ctx, l, l.is_part() ? l.within : shape);
  const ir::Expr* at = ctx.integer(0);
  for (size_t i = 0; i < l.pieces.size(); ++i) {
    const Piece& p = l.pieces[i];
    const ir::Expr* place = l.is_part() ? ctx.add(index[p.axis], l.at[p.axis]) : index[p.axis];
    const ir::Expr* part = ctx.floordiv(place, ctx.integer(p.divisor));
    if (p.extent) part = ctx.floormod(part, ctx.integer(p.extent));
    at = ctx.add(ctx.mul(at, extents[i]), part);
  }
  return at;
}

std::string to_string(const Layout& layout, unsigned rank) {
  std::string s;
  for (const Piece& p : explicit_pieces(layout, rank).pieces) {
    s += "[" + std::to_string(p.axis);
    if (p.divisor != 1) s += "/" + std::to_string(p.divisor);
    if (p.extent) s += "%" + std::to_string(p.extent);
    s += "]";
  }
  return s;
}

}  // namespace mlc::nest
