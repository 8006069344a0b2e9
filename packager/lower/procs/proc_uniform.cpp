#include "packager/lower/procs/proc_uniform.h"

#include <bit>
#include <cmath>
#include <utility>

#include "packager/ir/typical.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;

namespace {

DType unsigned_like(DType t) {
  switch (bytes_of(t)) {
    case 1: return DType::U8;
    case 2: return DType::U16;
    case 4: return DType::U32;
    default: return DType::U64;
  }
}

// Levels of a tree, each of which fetches and joins words of four bytes.
double fold_operations(unsigned lanes, DType t) { return 2.0 * std::bit_width(lanes - 1) * std::max(1U, bytes_of(t) / 4); }
double fold_operations(unsigned lanes, const std::vector<const Expr*>& vars) {
  double sum = 0;
  for (const Expr* v : vars) sum += fold_operations(lanes, v->type.dtype);
  return sum;
}

// Of a While one: what it takes beside its loops is certain, how many of its turns come to them is not.
double typical_turns(const Stmt& s) {
  if (s.kind != StmtKind::For) return 1;
  const bool known = ir::is_extent(s.begin) && ir::is_extent(s.end);
  return known ? std::max(0.0, estimate(s.end) - estimate(s.begin)) : static_cast<double>(ir::Guess::Any);
}

const Expr* zero_of(ir::Context& ctx, DType t) {
  return is_float(t) ? ctx.number(0, t) : t == DType::Bool ? ctx.boolean(false) : ctx.integer(0, t);
}

}  // namespace

void UniformWalk::run(const std::vector<loop::StmtPtr>& stmts, const Expr* lane) {
  lane_ = lane;
  is_first_ = b_.let(ctx_.binary(Op::Eq, lane, ctx_.integer(0)));
  block(stmts);
}

UniformWalk::Way UniformWalk::way_of(const nest::Uniform& facts, const Stmt& s) {
  if (facts.shared.contains(&s)) return Way::Shared;
  if (facts.searched.contains(&s)) return Way::Searched;
  if (facts.open.contains(&s)) return Way::Walked;
  if (!facts.touches_stored(s)) return Way::Alike;
  if (s.kind == StmtKind::If && !facts.reads_stored(s.cond)) return Way::Walked;
  return s.kind == StmtKind::Let || s.kind == StmtKind::Local ? Way::Defined : Way::First;
}

void UniformWalk::block(const std::vector<loop::StmtPtr>& stmts) {
  for (const loop::StmtPtr& s : stmts) walk(*s);
}

void UniformWalk::walk(const Stmt& s) {
  switch (way_of(facts_, s)) {
    case Way::Shared: return shared(s);
    case Way::Searched: return searched(s);
    case Way::Alike: return plain_(s);
    case Way::Walked: return walked(s);
    case Way::Defined: return defined(s);
    case Way::First: return by_first(nest::assigned_by(s), [&] { plain_(s); });
  }
}

const Expr* UniformWalk::value(const Expr* flat) {
  const Expr* r = nullptr;
  s_.scoped([&] { r = s_.value(flat); });
  return r;
}

void UniformWalk::walked(const Stmt& s) {
  const auto inside = [&](const std::vector<loop::StmtPtr>& stmts) { s_.scoped([&] { block(stmts); }); };
  if (s.kind == StmtKind::If) {
    const Expr* holds = access_.flat(s.cond);
    const auto arm = [&](const Expr* fact, const std::vector<loop::StmtPtr>& stmts) {
      return [&, fact] { access_.where(fact, [&] { inside(stmts); }); };
    };
    return b_.with_if(value(holds), arm(holds, s.body), arm(ctx_.logical_not(holds), s.orelse));
  }
  if (s.kind == StmtKind::While) {
    const Expr* bound = value(access_.flat(s.bound));
    const Expr* go = b_.local(value(access_.flat(s.cond)));
    return b_.with_while(go, bound, [&] {
      inside(s.body);
      b_.assign(go, value(access_.flat(s.cond)));
    });
  }
  const ProcAccess::Loop bounds = access_.loop_of(s);
  if (bounds.d) return access_.within(s, bounds, nullptr, [&] { s_.with_for(bounds.d, ctx_.integer(0), bounds.d->extent, 1, [&] { block(s.body); }); });
  const Expr *begin = value(bounds.begin), *end = value(bounds.end);
  b_.with_for_var(s.var, begin, end, s.step, [&] { access_.within(s, bounds, s.var, [&] { inside(s.body); }); });
}

// Few turns that all lanes make are written out, so that they wait for memory once.
void UniformWalk::in_turns(const ir::Dim* d, const std::function<void()>& body) {
  constexpr int64_t kWrittenOut = 4;
  const int64_t turns = d->extent->is_const() && d->extent->i % lanes_ == 0 ? d->extent->i / lanes_ : 0;
  if (turns < 1 || turns > kWrittenOut) return s_.with_for(d, lane_, d->extent, lanes_, body);
  Stmt& out = b_.append(StmtKind::For);
  out.for_kind = loop::ForKind::Unroll;
  out.var = ctx_.fresh_var({DType::I64, 1});
  out.begin = ctx_.integer(0);
  out.end = ctx_.integer(turns);
  b_.within(out.body, [&] {
    s_.scoped([&] {
      s_.bind(d, ctx_.add(lane_, ctx_.mul(ctx_.integer(lanes_), out.var)));
      body();
    });
  });
}

// Neighbouring lanes have neighbouring iterations.
void UniformWalk::shared(const Stmt& s) {
  const bool meets = facts_.touches_stored(s);
  const auto& joined = facts_.shared.at(&s).joined;
  const ProcAccess::Loop bounds = access_.loop_of(s);
  const Expr *begin = bounds.d ? nullptr : value(bounds.begin), *end = bounds.d ? nullptr : value(bounds.end);
  if (meets) b_.append(StmtKind::Barrier);
  std::vector<const Expr*> partials;
  for (const auto& [local, how] : joined) partials.push_back(b_.local(value(unit_of(ctx_, *ctx_.builtin(how), 0, local->type.dtype))));
  s_.scoped([&] {
    for (size_t k = 0; k < joined.size(); ++k) s_.define(joined[k].local, partials[k]);
    const auto body = [&] {
      for (const loop::StmtPtr& inner : s.body) plain_(*inner);
    };
    if (bounds.d) return access_.within(s, bounds, nullptr, [&] { in_turns(bounds.d, body); });
    b_.with_for_var(s.var, ctx_.add(begin, lane_), end, lanes_, [&] { access_.within(s, bounds, s.var, [&] { s_.scoped(body); }); });
  });
  for (size_t k = 0; k < joined.size(); ++k) {
    const Expr* total = b_.fold_lanes(*lanes_op(joined[k].how), partials[k]);
    b_.assign(joined[k].local, value(s_.join(*ctx_.builtin(joined[k].how), {joined[k].local}, {total})[0]));
  }
  if (meets) b_.append(StmtKind::Barrier);
}

// Whether an iteration does anything: its conditions, without what they decide on.
void UniformWalk::test(const std::vector<loop::StmtPtr>& stmts, const Expr* found) {
  if (!facts_.is_conditional(stmts)) return b_.assign(found, ctx_.boolean(true));
  for (const loop::StmtPtr& s : stmts) {
    if (s->kind == StmtKind::Let) {
      s_.define(s->var, b_.let(value(access_.flat(s->value))));
      continue;
    }
    const Expr* holds = access_.flat(s->cond);
    const auto arm = [&](const Expr* fact, const std::vector<loop::StmtPtr>& inside) {
      return [&, fact] { access_.where(fact, [&] { s_.scoped([&] { test(inside, found); }); }); };
    };
    if (s->orelse.empty()) b_.with_if(value(holds), arm(holds, s->body));
    else b_.with_if(value(holds), arm(holds, s->body), arm(ctx_.logical_not(holds), s->orelse));
  }
}

// As many iterations at once as there are lanes. One whose conditions cannot be told without a fault is taken to do something: in its turn there is
// one or not. Where what does something is so near that the search spares little, more of its neighbours are made before the next search.
void UniformWalk::searched(const Stmt& s) {
  const ProcAccess::Loop bounds = access_.loop_of(s);
  const Expr* begin = bounds.d ? ctx_.integer(0) : value(bounds.begin);
  const Expr* end = bounds.d ? value(bounds.d->extent) : value(bounds.end);
  const Expr *most = ctx_.integer(lanes_), *one = ctx_.integer(1);
  const auto at = [&](const Expr* place, const std::function<void()>& body) {
    s_.scoped([&] {
      if (bounds.d) s_.bind(bounds.d, place);
      access_.within(s, bounds, bounds.d ? nullptr : place, body);
    });
  };
  const Expr *next = b_.local(begin), *neighbours = b_.local(one);
  b_.with_while(ctx_.binary(Op::Lt, next, end), b_.let(ctx_.max(ctx_.sub(end, begin), one)), [&] {
    const Expr* found = b_.local(ctx_.boolean(false));
    const Expr* mine = b_.let(ctx_.add(next, lane_));
    b_.with_if(ctx_.binary(Op::Lt, mine, end), [&] {
      at(mine, [&] { test(s.body, found); });
      pass_by_faults(b_.block(), [&](loop::StmtPtr fault) {
        fault->kind = StmtKind::Assign;
        fault->var = found;
        fault->value = ctx_.boolean(true);
        fault->cond = nullptr;
        fault->fault = 0;
        return fault;
      });
    });
    const Expr* own = ctx_.select(found, ctx_.cast(DType::I32, lane_), ctx_.integer(lanes_, DType::I32));
    const Expr* first = b_.let(ctx_.cast(DType::I64, b_.fold_lanes(Op::Min, own)));
    b_.assign(neighbours, ctx_.select(ctx_.binary(Op::Le, first, neighbours), ctx_.min(ctx_.add(neighbours, neighbours), most), one));
    const Expr* from = b_.let(ctx_.min(ctx_.add(next, first), end));
    b_.assign(next, ctx_.select(ctx_.binary(Op::Lt, first, most), ctx_.min(ctx_.add(from, neighbours), end), from));
    b_.with_for(from, next, 1, [&](const Expr* place) { at(place, [&] { block(s.body); }); });
  });
}

void UniformWalk::defined(const Stmt& s) {
  Stmt& out = b_.append(StmtKind::Local);
  out.var = s.var;
  out.value = zero_of(ctx_, s.var->type.dtype);
  by_first({s.var}, [&] { b_.assign(value(s.var), value(access_.flat(s.value))); });
}

// What is assigned has another name there: only what all lanes know has its own.
void UniformWalk::by_first(const std::vector<const Expr*>& assigned, const std::function<void()>& body) {
  std::vector<const Expr*> names;
  for (const Expr* var : assigned) names.push_back(b_.local(var));
  if_first([&] {
    s_.scoped([&] {
      for (size_t k = 0; k < assigned.size(); ++k) s_.define(assigned[k], names[k]);
      body();
    });
  });
  for (size_t k = 0; k < assigned.size(); ++k) b_.assign(assigned[k], of_first(names[k]));
}

// Statements of the first lane that follow each other stand under one condition.
void UniformWalk::if_first(const std::function<void()>& body) {
  loop::Block& block = b_.block();
  if (!block.empty() && block.back()->kind == StmtKind::If && block.back()->cond == is_first_) return b_.within(block.back()->body, body);
  b_.with_if(is_first_, body);
}

// Bit by bit: a number joined with zeros.
const Expr* UniformWalk::of_first(const Expr* value) {
  const DType t = value->type.dtype;
  if (t == DType::Bool) return b_.fold_lanes(Op::Or, ctx_.binary(Op::And, is_first_, value));
  if (!is_float(t)) return b_.fold_lanes(Op::Add, ctx_.select(is_first_, value, ctx_.integer(0, t)));
  const ir::Type bits{unsigned_like(t), 1};
  const Expr* raw = b_.fold_lanes(Op::Add, ctx_.select(is_first_, ctx_.convert(Op::Bitcast, bits, value), ctx_.integer(0, bits.dtype)));
  return ctx_.convert(Op::Bitcast, value->type, raw);
}

double UniformWalk::spared_by(const Stmt& s, const nest::Independent* facts, unsigned lanes, const LanePlan& plan) {
  const double one = fold_operations(lanes, DType::I32);
  if (facts) {
    std::vector<const Expr*> joined;
    for (const nest::Independent::Joined& j : facts->joined) joined.push_back(j.local);
    return plan.operations(s) * (1 - 1.0 / lanes) - one - fold_operations(lanes, joined);
  }
  const double turns = typical_turns(s), searches = std::ceil(turns / lanes);
  return (turns - searches) * plan.operations_of_conditions(s.body) - one * searches;
}

double UniformWalk::spared(const nest::Uniform& facts, const std::vector<loop::StmtPtr>& stmts, unsigned lanes, const LanePlan& plan) {
  double sum = 0;
  for (const loop::StmtPtr& s : stmts) switch (way_of(facts, *s)) {
    case Way::Shared: sum += spared_by(*s, &facts.shared.at(s.get()), lanes, plan); break;
    case Way::Searched: sum += spared_by(*s, nullptr, lanes, plan) + spared(facts, s->body, lanes, plan); break;
    case Way::Alike: break;
    case Way::Defined: sum -= fold_operations(lanes, s->var->type.dtype); break;
    case Way::First: sum -= fold_operations(lanes, nest::assigned_by(*s)); break;
    case Way::Walked: sum += typical_turns(*s) * (spared(facts, s->body, lanes, plan) + spared(facts, s->orelse, lanes, plan));
  }
  return sum;
}

void pass_by_faults(loop::Block& block, const std::function<loop::StmtPtr(loop::StmtPtr)>& instead) {
  for (size_t k = 0; k < block.size(); ++k) {
    pass_by_faults(block[k]->body, instead);
    pass_by_faults(block[k]->orelse, instead);
    if (block[k]->kind != StmtKind::Fault) continue;
    auto branch = std::make_unique<Stmt>();
    branch->kind = StmtKind::If;
    branch->cond = block[k]->cond;
    for (size_t j = k + 1; j < block.size(); ++j) branch->orelse.push_back(std::move(block[j]));
    block.resize(k + 1);
    branch->body.push_back(instead(std::move(block[k])));
    block[k] = std::move(branch);
    return pass_by_faults(block[k]->orelse, instead);
  }
}

}  // namespace mlc::lower
