#include <algorithm>
#include <unordered_set>

#include "packager/loop/verify.h"
#include "packager/lower/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

Skeleton::Skeleton(const Job& job) : b(job.ctx, kernel.body), ctx(job.ctx) {
  kernel.name = job.name;
  kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  kernel.tiles = ctx.integer(1);
}

void Skeleton::over_tiles(const std::vector<const Expr*>& extents,
                          const std::function<void(const std::vector<const Expr*>&)>& body) {
  kernel.tiles = ctx.integer(1);
  for (const Expr* e : extents) kernel.tiles = ctx.mul(kernel.tiles, e);
  b.with_for(kernel.tile_begin, kernel.tile_end, 1, [&](const Expr* t) {
    std::vector<const Expr*> index(extents.size());
    const Expr* left = t;
    size_t outermost = 0;
    while (outermost < extents.size() && extents[outermost]->is_int(1)) ++outermost;
    for (size_t k = extents.size(); k-- > 0;) {
      if (extents[k]->is_int(1)) {
        index[k] = ctx.integer(0);
      } else if (k == outermost) {
        index[k] = left;
      } else {
        // A tile exists, hence no extent is zero here; max says so where the hardware would trap.
        const Expr* n = ctx.max(extents[k], ctx.integer(1));
        index[k] = b.let(ctx.floormod(left, n));
        left = b.let(ctx.floordiv(left, n));
      }
    }
    body(index);
  });
}

namespace {

void collect_symbols(const Expr* e, std::unordered_set<const Expr*>& seen, std::vector<const ir::Sym*>& out) {
  if (!e) return;
  std::vector<const Expr*> stack{e};
  while (!stack.empty()) {
    const Expr* x = stack.back();
    stack.pop_back();
    if (!seen.insert(x).second) continue;
    if (x->op == Op::Sym && std::find(out.begin(), out.end(), x->sym) == out.end()) out.push_back(x->sym);
    for (const Expr* a : x->args) stack.push_back(a);
  }
}

void collect_symbols(const std::vector<loop::StmtPtr>& block, std::unordered_set<const Expr*>& seen,
                     std::vector<const ir::Sym*>& out) {
  for (const loop::StmtPtr& s : block) {
    for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) collect_symbols(e, seen, out);
    for (const Expr* e : s->index) collect_symbols(e, seen, out);
    collect_symbols(s->body, seen, out);
    collect_symbols(s->orelse, seen, out);
  }
}

}  // namespace

Result<loop::Kernel> Skeleton::finish(const Body& body) {
  if (!body.error().empty()) return Status(Code::Unsupported, body.error());
  if (body.facts.overflow()) return Status(Code::Unsupported, "it has loops over more than 64 axes at once");
  std::unordered_set<const Expr*> seen;
  collect_symbols(kernel.tiles, seen, kernel.scalars);
  for (const loop::Param& p : kernel.params) collect_symbols(p.elements, seen, kernel.scalars);
  collect_symbols(kernel.body, seen, kernel.scalars);
  MLC_RETURN_IF_ERROR(loop::verify(kernel));
  return std::move(kernel);
}

}  // namespace mlc::lower
