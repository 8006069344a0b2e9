#include "packager/passes/weights/proc_weights.h"

#include <algorithm>
#include <functional>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/facts/independent.h"
#include "packager/nest/proc.h"

namespace mlc::passes {
namespace {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using nest::kPanel;

class Weights {
 public:
  Weights(ir::Context& ctx, const nest::Function& f) : ctx_(ctx), f_(f) {}

  // Inner loops first: those are the ones that run in lanes.
  void block(const std::vector<loop::StmtPtr>& stmts) {
    for (const loop::StmtPtr& s : stmts) {
      block(s->body);
      block(s->orelse);
      if (s->kind == StmtKind::For && nest::independent(ctx_, *s)) inside(s->body, *s, {});
    }
  }

  std::vector<WeightLayout> layouts() const {
    std::vector<WeightLayout> all;
    for (const Roles& r : found_) {
      WeightLayout w{r.array, {}};
      const auto piece = [&](int axis, int64_t divisor, int64_t extent) {
        w.layout.pieces.push_back({static_cast<uint8_t>(axis), divisor, extent});
      };
      for (int axis = 0; axis < static_cast<int>(f_.arrays[r.array].shape.size()); ++axis)
        if (axis != r.n && axis != r.k) piece(axis, 1, 0);
      if (r.panels) piece(r.n, kPanel, 0);
      piece(r.k, 1, 0);
      piece(r.n, 1, r.panels ? kPanel : 0);
      all.push_back(std::move(w));
    }
    return all;
  }

 private:
  struct Roles {
    uint32_t array = 0;
    int n = -1, k = -1;   // axes
    bool panels = true;  // all loops begin at one
  };

  // `folded`: variables of the loops between `columns` and here.
  void inside(const std::vector<loop::StmtPtr>& stmts, const Stmt& columns, std::vector<const Expr*> folded) {
    for (const loop::StmtPtr& s : stmts) {
      for (const Expr* root : {s->cond, s->value})
        if (root && !folded.empty()) ir::walk(root, [&](const Expr* e) {
          if (e->op == Op::Load && e->array < nest::kFirstLocal) look(e, columns, folded);
        });
      std::vector<const Expr*> inner = folded;
      if (s->kind == StmtKind::For) inner.push_back(s->var);
      inside(s->body, columns, inner);
      inside(s->orelse, columns, inner);
    }
  }

  void look(const Expr* load, const Stmt& columns, const std::vector<const Expr*>& folded) {
    const nest::Array& a = f_.arrays[load->array];
    if (a.kind != nest::Array::Kind::Const || bits_of(a.dtype) < 8) return;
    if (!std::all_of(a.shape.begin(), a.shape.end(), [](const Expr* e) { return e->is_const(); })) return;
    Roles r{.array = load->array};
    const Expr* offset = nullptr;
    for (size_t axis = 0; axis < load->args.size(); ++axis) {
      const Expr* index = load->args[axis];
      if (std::find(folded.begin(), folded.end(), index) != folded.end()) r.k = static_cast<int>(axis);
      if (!ir::depends_on(index, columns.var)) continue;
      const Expr* leaf[] = {columns.var};
      const auto linear = ir::linear_in(ctx_, index, leaf);
      if (r.n >= 0 || !linear || !linear->coefficients[0]->is_int(1)) return;
      r.n = static_cast<int>(axis);
      offset = linear->rest;
    }
    if (r.n < 0 || r.k < 0) return;
    offset = ctx_.add(offset, columns.begin);
    r.panels = ir::divisor_of(offset) % kPanel == 0 && a.shape[static_cast<size_t>(r.n)]->i % kPanel == 0;
    const auto known = std::find_if(found_.begin(), found_.end(), [&](const Roles& o) { return o.array == r.array; });
    if (known == found_.end()) found_.push_back(r);
    else if (known->n == r.n && known->k == r.k) known->panels &= r.panels;
  }

  ir::Context& ctx_;
  const nest::Function& f_;
  std::vector<Roles> found_;
};

}  // namespace

std::vector<WeightLayout> weights_of(ir::Context& ctx, const nest::Function& f, const nest::Proc& proc) {
  Weights w(ctx, f);
  w.block(proc.body);
  return w.layouts();
}

}  // namespace mlc::passes
