#include "packager/lower/procs/proc_lanes.h"

#include <algorithm>

#include "packager/lower/walk/templates.h"
#include "packager/nest/facts/contraction.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using nest::kPanel;

void LaneLoop::run(const ProcAccess::Loop& bounds, const SharedPart* part) {
  v_ = bounds.d;
  lane_ = access_.new_dim("lane", ctx_.integer(how_.lanes));
  for (const auto& [local, how] : how_.facts.joined) {
    const Expr* unit = s_.value(unit_of(ctx_, *ctx_.builtin(how), 0, local->type.dtype));
    std::vector<const Expr*>& partials = partials_.emplace_back();
    for (unsigned k = 0; k < how_.copies; ++k) partials.push_back(b_.local(wide(unit)));
  }
  access_.within(loop_, bounds, nullptr, [&] {
    whole_groups(part);
    if (part) b_.with_if(part->is_last, [&] { s_.scoped([&] { rest(); }); });
    else rest();
  });
}

// Groups of vectors side by side. Of a group that is shorter than a panel the place within the panel is a dim of its own, so
// that addresses in panels are seen to be neighbours.
void LaneLoop::whole_groups(const SharedPart* part) {
  const int64_t w = how_.lanes, group = w * how_.copies;
  const Expr *begin = ctx_.integer(0), *count = ctx_.floordiv(v_->extent, ctx_.integer(group)), *end = count;
  if (part) {  // groups that fill no quantum are the last worker's
    const Expr* of_quantum = ctx_.integer(part->quantum / group);
    begin = b_.let(ctx_.mul(part->begin, of_quantum));
    end = b_.let(ctx_.select(part->is_last, count, ctx_.mul(part->end, of_quantum)));
  }
  const bool split = how_.panels && group < kPanel;
  const int64_t per_panel = split ? kPanel / group : 1;
  const ir::Dim* outer = access_.new_dim("group", ctx_.ceildiv(count, ctx_.integer(per_panel)));
  const ir::Dim* inner = split ? access_.new_dim("part", ctx_.integer(per_panel)) : nullptr;
  const auto vectors_at = [&](const Expr* first) {
    std::vector<const Expr*> at;
    for (unsigned k = 0; k < how_.copies; ++k) at.push_back(ctx_.add(ctx_.add(first, ctx_.integer(k * w)), ctx_.dim(lane_)));
    vectors(at, nullptr);
  };
  const Expr* first = ctx_.mul(ctx_.integer(group * per_panel), ctx_.dim(outer));
  if (!split) return s_.with_for(outer, begin, end, 1, [&] { vectors_at(first); });
  b_.with_for(begin, end, 1, [&](const Expr* g) {
    s_.scoped([&] {
      s_.bind(outer, b_.let(ctx_.floordiv(g, ctx_.integer(per_panel))));
      s_.bind(inner, b_.let(ctx_.floormod(g, ctx_.integer(per_panel))));
      vectors_at(ctx_.add(first, ctx_.mul(ctx_.integer(group), ctx_.dim(inner))));
    });
  });
}

// Vectors that fill no group, then what fills no vector.
void LaneLoop::rest() {
  const int64_t w = how_.lanes;
  const Expr* n = v_->extent;
  const auto whole = [&](int64_t unit) { return b_.let(ctx_.mul(ctx_.floordiv(n, ctx_.integer(unit)), ctx_.integer(unit))); };
  if (how_.copies > 1) {
    const Expr* begin = whole(w * how_.copies);
    const Expr* count = b_.let(ctx_.floordiv(ctx_.sub(n, begin), ctx_.integer(w)));
    const ir::Dim* k = access_.new_dim("more", ctx_.integer(how_.copies));
    s_.with_for(k, ctx_.integer(0), count, 1, [&] {
      vectors({ctx_.add(ctx_.add(begin, ctx_.mul(ctx_.integer(w), ctx_.dim(k))), ctx_.dim(lane_))}, nullptr);
    });
  }
  const Expr* at = whole(w);
  const Expr* more = ctx_.binary(Op::Lt, at, n);
  if (more->is_const() && !more->i) return join_partials();
  if (!s_.target.has_masks) {
    join_partials();
    return s_.with_for(v_, at, n, 1, one_);
  }
  b_.with_if(more, [&] {
    s_.scoped([&] {
      const Expr* exists = loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, at, how_.lanes), wide(n));
      vectors({ctx_.add(at, ctx_.dim(lane_))}, b_.let(exists));
    });
  });
  join_partials();
}

void LaneLoop::join_partials() {
  for (size_t j = 0; j < partials_.size(); ++j) {
    const auto& [local, how] = how_.facts.joined[j];
    const ir::Combiner& c = *ctx_.builtin(how);
    std::vector<const Expr*> total{partials_[j][0]};
    for (size_t k = 1; k < partials_[j].size(); ++k) total = {b_.let(s_.join(c, total, {partials_[j][k]})[0])};
    b_.assign(local, s_.join(c, {local}, {b_.let(s_.across_lanes(c, total)[0])})[0]);
  }
}

void LaneLoop::vectors(const std::vector<const Expr*>& at, const Expr* tail) {
  s_.vectorised(lane_, how_.lanes, tail, [&] {
    s_.bind(lane_, ctx_.integer(0));
    copies_.assign(at.size(), {});
    for (size_t k = 0; k < at.size(); ++k) {
      copies_[k].is[ctx_.dim(v_)] = at[k];
      for (size_t j = 0; j < partials_.size(); ++j) {
        const Expr* local = how_.facts.joined[j].local;
        const Expr* name = copies_[k].is[local] = ctx_.fresh_var(local->type);
        s_.define(name, partials_[j][k]);
      }
    }
    block(loop_.body);
  });
}

void LaneLoop::block(const std::vector<loop::StmtPtr>& stmts) {
  for (const loop::StmtPtr& s : stmts) stmt(*s);
}

void LaneLoop::stmt(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::Let:
    case StmtKind::Local: return define(s);
    case StmtKind::Assign: return assign(s);
    case StmtKind::Store: return store(s);
    case StmtKind::If: return branch(s);
    case StmtKind::For: return inner_loop(s);
    case StmtKind::Barrier:
    case StmtKind::ClusterBarrier:
    case StmtKind::Peer:
    case StmtKind::LoadMatrices:
    case StmtKind::GroupMma:
    case StmtKind::Matrix:
    case StmtKind::FoldLanes:
    case StmtKind::Mma:
    case StmtKind::Tiles:
    case StmtKind::Copy:
    case StmtKind::CloseCopies:
    case StmtKind::WaitCopies:
    case StmtKind::Prefetch: return;
    case StmtKind::While:
    case StmtKind::Fault: return s_.fail("a statement that does not run in lanes");
  }
}

// Each copy has a variable of its own, unless nothing varies.
void LaneLoop::define(const Stmt& s) {
  const Expr* flat = access_.flat(s.value);
  const bool single = s.kind == StmtKind::Let && !varies(s.value) && !masked();
  std::vector<const Expr*> values;
  s_.scoped([&] {
    for (const Copy& c : copies_) {
      const Expr* v = s_.value(of(c, flat), c.mask);
      values.push_back(s.kind == StmtKind::Local ? wide(v) : v);
      if (single) break;
    }
  });
  for (size_t k = 0; k < values.size(); ++k) {
    Stmt& out = b_.append(s.kind);
    out.var = ctx_.fresh_var(values[k]->type);
    out.value = values[k];
    const Expr* name = single ? s.var : copies_[k].is[s.var] = ctx_.fresh_var(s.var->type);
    s_.define(name, out.var);
  }
}

// What is assigned; a + x*y in one rounding where the hardware has it.
const Expr* LaneLoop::next_of(const Copy& c, const Stmt& s, const Expr* flat, const Expr* old) {
  if (s_.target.has_fma && flat->op == Op::Add && is_float(flat->type.dtype))
    for (int side : {0, 1}) {
      const Expr* product = flat->args[static_cast<size_t>(1 - side)];
      if (flat->args[static_cast<size_t>(side)] != s.var || product->op != Op::Mul) continue;
      const Expr *x = s_.value(of(c, product->args[0]), c.mask), *y = s_.value(of(c, product->args[1]), c.mask);
      return loop::vec_fma(ctx_, wide(x), wide(y), old);
    }
  return wide(s_.value(of(c, flat), c.mask));
}

void LaneLoop::assign(const Stmt& s) {
  const Expr* flat = access_.flat(s.value);
  const bool joined = how_.facts.joins(s.var);
  std::vector<const Expr*> olds, values;
  s_.scoped([&] {
    for (const Copy& c : copies_) {
      const Expr* old = s_.value(c.is.at(s.var));
      const Expr* next = next_of(c, s, flat, old);
      // Lanes that do not exist count for nothing.
      const Expr* mask = joined ? s_.both(c.mask, s_.tail()) : c.mask;
      olds.push_back(old);
      values.push_back(mask ? loop::vec_select(ctx_, mask, next, old) : next);
    }
  });
  for (size_t k = 0; k < values.size(); ++k) b_.assign(olds[k], values[k]);
}

void LaneLoop::store(const Stmt& s) {
  const FlatWrite flat = access_.write(s);
  for (const Copy& c : copies_)
    s_.scoped([&] {
      FlatWrite w = flat;
      w.value = of(c, w.value);
      w.address = of(c, w.address);
      if (w.in_range) w.in_range = of(c, w.in_range);
      emit_write(s_, b_, w, c.mask);
    });
}

void LaneLoop::branch(const Stmt& s) {
  const Expr* flat = access_.flat(s.cond);
  const auto arm = [&](const Expr* holds, const std::vector<loop::StmtPtr>& stmts) {
    access_.where(holds, [&] { block(stmts); });
  };
  const Expr* fails = ctx_.logical_not(flat);
  if (!varies(s.cond) && !masked()) {
    const Expr* go = nullptr;
    s_.scoped([&] { go = s_.value(of(copies_[0], flat)); });
    return b_.with_if(go, [&] { s_.scoped([&] { arm(flat, s.body); }); }, [&] { s_.scoped([&] { arm(fails, s.orelse); }); });
  }
  std::vector<const Expr*> outer, holds;
  for (const Copy& c : copies_) {
    outer.push_back(c.mask);
    s_.scoped([&] { holds.push_back(b_.let(wide(s_.value(of(c, flat), c.mask)))); });
  }
  for (size_t k = 0; k < copies_.size(); ++k) copies_[k].mask = b_.let(s_.both(outer[k], holds[k]));
  arm(flat, s.body);
  for (size_t k = 0; k < copies_.size(); ++k)
    copies_[k].mask = b_.let(s_.both(outer[k], loop::vec_unary(ctx_, Op::Not, holds[k])));
  arm(fails, s.orelse);
  for (size_t k = 0; k < copies_.size(); ++k) copies_[k].mask = outer[k];
}

void LaneLoop::inner_loop(const Stmt& s) {
  const ProcAccess::Loop bounds = access_.loop_of(s);
  if (bounds.d) {
    access_.within(s, bounds, nullptr, [&] { s_.with_for(bounds.d, ctx_.integer(0), bounds.d->extent, 1, [&] { block(s.body); }); });
    return;
  }
  const Expr *begin = nullptr, *end = nullptr;
  s_.scoped([&] { begin = s_.value(of(copies_[0], bounds.begin)), end = s_.value(of(copies_[0], bounds.end)); });
  b_.with_for(begin, end, s.step, [&](const Expr* var) {
    s_.scoped([&] { access_.within(s, bounds, var, [&] { block(s.body); }); });
  });
}

}  // namespace mlc::lower
