// An index in pieces is made of plain terms by
//   min, max   one side is less along all of the piece: taken is the one that grows with the dim
//   a mod n    a - q*n, where q is what the middle of the dim has: q*n <= a < (q + 1)*n
// What is compared is affine in the dim, so each condition is a bound of it.
#include "packager/lower/maps/pieces.h"

#include <algorithm>

#include "packager/lower/flat/body.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

class Pieces {
 public:
  Pieces(ir::Context& ctx, Facts& facts, const ir::Dim* d) : ctx_(ctx), facts_(facts), d_(d) {}

  std::optional<Piece> run(const FlatNest& nest) {
    for (const FlatWrite& w : nest.writes) {
      piece_.writes.push_back(w);
      piece_.writes.back().value = ctx_.rewrite(w.value, [&](const Expr* e) -> const Expr* {
        if (e->op == Op::Fold) return e;  // its loads depend on its own dims as well
        return e->op == Op::Load ? load(e) : nullptr;
      });
    }
    return found_ ? std::optional(std::move(piece_)) : std::nullopt;
  }

 private:
  const Expr* load(const Expr* e) {
    if (!facts_.depends(e->args[0], d_) || is_contiguous(ctx_, e->args[0], d_)) return e;
    terms_.clear();
    const Expr* at = plain(e->args[0]);
    if (!at || !is_contiguous(ctx_, at, d_)) return e;
    const Expr* check = ctx_.boolean(true);
    if (e->args.size() > 1) check = still_to_check(e->args[1]);
    if (!check) return e;
    std::vector<const Expr*> begins, ends;
    for (const Expr* term : terms_) {
      if (term->is_const() && term->i) continue;
      const auto bound = bound_of(ctx_, term, d_);
      if (!bound) return e;
      for (const Expr* b : {bound->begin, bound->end})
        if (b && !is_free(b)) return e;
      if (bound->begin) begins.push_back(bound->begin);
      if (bound->end) ends.push_back(bound->end);
    }
    piece_.begins.insert(piece_.begins.end(), begins.begin(), begins.end());
    piece_.ends.insert(piece_.ends.end(), ends.begin(), ends.end());
    found_ = true;
    if (e->args.size() == 1) return ctx_.raw(*e, {at});
    Expr node = *e;
    if (!check->is_const()) return ctx_.raw(node, {at, check});
    node.access = ir::Access::Proved;  // on this piece
    return ctx_.raw(node, {at});
  }

  // Of the condition that an index is in range what does not depend on the dim; the rest holds on the piece. Null: it is of another kind.
  const Expr* still_to_check(const Expr* in_range) {
    const Expr* check = ctx_.boolean(true);
    for (const Expr* term : conjuncts(ctx_, in_range)) {
      if (!facts_.depends(term, d_)) {
        check = ctx_.binary(Op::And, check, term);
        continue;
      }
      if (term->op != Op::Lt && term->op != Op::Le) return nullptr;
      const Expr *a = plain(term->args[0]), *b = plain(term->args[1]);
      if (!a || !b) return nullptr;
      terms_.push_back(ctx_.binary(term->op, a, b));
    }
    return check->is_const() && !check->i ? nullptr : check;
  }

  // Known where the loop over the dim begins.
  bool is_free(const Expr* e) {
    bool free = !facts_.depends(e, d_);
    ir::walk(e, [&](const Expr* x) { free &= x->op != Op::Load && x->op != Op::Fold && x->op != Op::Var; });
    return free;
  }

  // `e` on the piece, affine in the dim; null: it has none.
  const Expr* plain(const Expr* e) {
    if (!facts_.depends(e, d_) || e->op == Op::Dim) return e;
    if (e->type.dtype != DType::I64) return nullptr;
    switch (e->op) {
      case Op::Add: case Op::Sub: case Op::Mul: {
        const Expr *a = plain(e->args[0]), *b = plain(e->args[1]);
        return a && b ? ctx_.binary(e->op, a, b) : nullptr;
      }
      case Op::Min: case Op::Max: return side(e);
      case Op::FloorMod: return remainder(e);
      default: return nullptr;
    }
  }

  const Expr* side(const Expr* e) {
    const Expr *a = plain(e->args[0]), *b = plain(e->args[1]);
    if (!a || !b) return nullptr;
    if (!grows(a)) std::swap(a, b);
    if (!grows(a)) return nullptr;
    terms_.push_back(e->op == Op::Min ? ctx_.binary(Op::Le, a, b) : ctx_.binary(Op::Le, b, a));
    return a;
  }

  const Expr* remainder(const Expr* e) {
    const Expr *a = plain(e->args[0]), *n = e->args[1];
    if (!a || !is_free(n) || ir::interval_of(n).lo < 1) return nullptr;
    const Expr* middle = ctx_.substitute(a, {{ctx_.dim(d_), ctx_.floordiv(d_->extent, ctx_.integer(2))}});
    const Expr* rest = ctx_.sub(a, ctx_.mul(ctx_.floordiv(middle, n), n));
    terms_.push_back(ctx_.binary(Op::Le, ctx_.integer(0), rest));
    terms_.push_back(ctx_.binary(Op::Lt, rest, n));
    return rest;
  }

  bool grows(const Expr* e) {
    const Expr* leaf[] = {ctx_.dim(d_)};
    const auto lin = ir::linear_in(ctx_, e, leaf);
    return lin && lin->coefficients[0]->is_const() && lin->coefficients[0]->i > 0;
  }

  ir::Context& ctx_;
  Facts& facts_;
  const ir::Dim* d_;
  Piece piece_;
  std::vector<const Expr*> terms_;  // that hold on the piece
  bool found_ = false;
};

}  // namespace

std::optional<Piece> middle_piece(ir::Context& ctx, Facts& facts, const FlatNest& nest, const ir::Dim* d) {
  if (nest.where || nest.scan_dim || !nest.kept.empty()) return std::nullopt;
  if (std::any_of(nest.writes.begin(), nest.writes.end(), [](const FlatWrite& w) { return w.push || w.in_range; })) return std::nullopt;
  return Pieces(ctx, facts, d).run(nest);
}

}  // namespace mlc::lower
