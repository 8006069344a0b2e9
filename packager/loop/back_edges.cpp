#include "packager/loop/back_edges.h"

#include <algorithm>

#include "packager/loop/index_bounds.h"

namespace mlc::loop {
namespace {

using ir::Expr;
using ir::Op;

// Of the loops that an operation becomes for one of its lanes. A remainder doubles once for each power of two between the exponents,
// then once for each bit of the mantissa; a power squares for each bit of its exponent.
int64_t turns_of(const Expr& e) {
  const DType t = e.type.dtype;
  if (e.op == Op::Pow && !is_float(t)) return 65;
  if ((e.op == Op::FloorMod || e.op == Op::TruncMod) && is_float(t)) return t == DType::F64 ? 2101 : 280;
  return 0;
}

// Numbers of turns are doubles: these do not overflow.
class Turns {
 public:
  Turns(ir::Context& ctx, const Kernel& kernel) : ctx_(ctx), kernel_(kernel), bounds_(ctx) { declare_locals(kernel.body); }

  const Expr* run() {
    const Expr* turns = block(kernel_.body);
    if (!turns) return nullptr;
    return ctx_.cast(DType::I64, ctx_.binary(Op::Min, turns, number(static_cast<double>(kManyTurns))));
  }

 private:
  using Block = std::vector<StmtPtr>;

  void declare_locals(const Block& stmts) {
    for (const StmtPtr& s : stmts) {
      if (s->kind == StmtKind::Local) bounds_.declare_local(s->var);
      declare_locals(s->body);
      declare_locals(s->orelse);
    }
  }

  const Expr* number(double n) { return ctx_.number(n, DType::F64); }
  const Expr* sum(const Expr* a, const Expr* b) { return a && b ? ctx_.binary(Op::Add, a, b) : nullptr; }
  const Expr* product(const Expr* a, const Expr* b) { return a && b ? ctx_.binary(Op::Mul, a, b) : nullptr; }

  // At least 0, as a number of turns; null: not known.
  const Expr* as_turns(const Expr* bound) {
    const Expr* known = bound ? ir::with_value(ctx_, ctx_.max(bound, ctx_.integer(0))) : nullptr;
    return known ? ctx_.cast(DType::F64, known) : nullptr;
  }

  const Expr* turns_of_all(const Stmt& s) {
    double turns = s.kind == StmtKind::FoldLanes ? 6 : 0;  // from 32 subgroups on to one
    const auto add = [&](const Expr* e) {
      if (e) ir::walk(e, [&](const Expr* x) { turns += static_cast<double>(turns_of(*x) * x->type.lanes); });
    };
    for (const Expr* e : {s.begin, s.end, s.cond, s.bound, s.value}) add(e);
    for (const Expr* e : s.index) add(e);
    return number(turns);
  }

  bool is_tiles(const Stmt& s) const { return s.begin == kernel_.tile_begin && s.end == kernel_.tile_end; }

  // The turns that its body is done, and what its variable is there.
  const Expr* enter(const Stmt& s) {
    if (s.kind == StmtKind::While) return sum(as_turns(bounds_.upper(s.bound)), number(1));  // in the last one it faults
    if (is_tiles(s)) {
      bounds_.bind(s.var, {ctx_.integer(0), ctx_.sub(kernel_.tiles, ctx_.integer(1))});
      return number(1);  // a block has one
    }
    bounds_.bind(s.var, {bounds_.lower(s.begin), bounds_.upper(ctx_.sub(s.end, ctx_.integer(1)))});
    if (s.for_kind == ForKind::Lanes) return number(1);
    const Expr* length = bounds_.upper(ctx_.sub(s.end, s.begin));
    return as_turns(length ? ctx_.ceildiv(length, ctx_.integer(s.step)) : nullptr);
  }
  bool is_loop(const Stmt& s) const {
    return s.kind == StmtKind::While || (s.kind == StmtKind::For && s.for_kind == ForKind::Serial && !is_tiles(s));
  }

  const Expr* block(const Block& stmts) {
    const Expr* all = number(0);
    for (size_t k = 0; k < stmts.size(); ++k) {
      define(stmts, k);
      all = sum(all, statement(*stmts[k]));
      if (!all) return nullptr;
    }
    return all;
  }

  const Expr* statement(const Stmt& s) {
    if (s.kind == StmtKind::If) return sum(turns_of_all(s), sum(block(s.body), block(s.orelse)));
    if (s.kind != StmtKind::For && s.kind != StmtKind::While) return s.kind == StmtKind::Prefetch ? number(0) : turns_of_all(s);
    const Expr* turns = enter(s);
    if (turns && turns->is_const() && turns->f == 0) return number(is_loop(s) ? 1 : 0);
    const Expr* body = block(s.body);
    if (!is_loop(s)) return sum(turns_of_all(s), product(turns, body));
    // A condition is asked once more than the body is done.
    const Expr* once = turns_of_all(s);
    return sum(product(sum(turns, number(1)), sum(once, number(1))), product(turns, body));
  }

  // What a let or a local is in what follows it in its block.
  void define(const Block& stmts, size_t at) {
    const Stmt& s = *stmts[at];
    if (s.kind == StmtKind::Let && s.var->type == kIndex) bounds_.let(s.var, s.value);
    if (s.kind != StmtKind::Local || s.var->type != kIndex) return;
    const IndexBounds::Range first = bounds_.range(s.value);
    Changes c{first.lo, first.hi, ctx_.integer(0), ctx_.integer(0)};
    for (size_t k = at + 1; k < stmts.size(); ++k) changes(*stmts[k], s.var, ctx_.integer(1), c);
    bounds_.bind(s.var, {c.lo && c.down ? ctx_.add(c.lo, c.down) : nullptr, c.hi && c.up ? ctx_.add(c.hi, c.up) : nullptr});
  }

  // What a local is set to, and how far it is moved from there altogether; null: any number.
  struct Changes {
    const Expr *lo, *hi, *down, *up;
  };
  // `times`: that the statement is done, an extent; null: any number.
  void changes(const Stmt& s, const Expr* var, const Expr* times, Changes& c) {
    if (s.kind == StmtKind::Assign && s.var == var) return assigned(s.value, var, times, c);
    if (s.kind == StmtKind::Let && s.var->type == kIndex) bounds_.let(s.var, s.value);
    const Expr* inner = times;
    if (s.kind == StmtKind::While || s.kind == StmtKind::For) inner = times_inside(s, times);
    for (const StmtPtr& child : s.body) changes(*child, var, inner, c);
    for (const StmtPtr& child : s.orelse) changes(*child, var, times, c);
  }
  const Expr* times_inside(const Stmt& s, const Expr* times) {
    const Expr* length = nullptr;
    if (s.kind == StmtKind::While) {
      length = bounds_.upper(s.bound);
    } else {
      enter(s);
      if (is_tiles(s) || s.for_kind == ForKind::Lanes) return times;
      length = bounds_.upper(ctx_.sub(s.end, s.begin));
    }
    return length && times ? ctx_.mul(times, ctx_.max(length, ctx_.integer(0))) : nullptr;
  }
  void assigned(const Expr* value, const Expr* var, const Expr* times, Changes& c) {
    const Expr* step = ctx_.sub(value, var);
    const Expr *up = bounds_.upper(step), *down = bounds_.lower(step);
    if (up && down) {
      c.up = c.up && times ? ctx_.add(c.up, ctx_.mul(times, ctx_.max(up, ctx_.integer(0)))) : nullptr;
      c.down = c.down && times ? ctx_.add(c.down, ctx_.mul(times, ctx_.min(down, ctx_.integer(0)))) : nullptr;
      return;
    }
    const IndexBounds::Range to = bounds_.range(value);
    c.lo = c.lo && to.lo ? ctx_.min(c.lo, to.lo) : nullptr;
    c.hi = c.hi && to.hi ? ctx_.max(c.hi, to.hi) : nullptr;
  }

  ir::Context& ctx_;
  const Kernel& kernel_;
  IndexBounds bounds_;
};

}  // namespace

const Expr* back_edges(ir::Context& ctx, const Kernel& kernel) { return Turns(ctx, kernel).run(); }

}  // namespace mlc::loop
