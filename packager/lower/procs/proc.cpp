// Imperative blocks. The tree is Loop already; what is left is addresses and checks (proc_access), and which loops run in
// lanes (proc_lanes).
#include "packager/lower/procs/proc_lanes.h"
#include "packager/lower/procs/proc_unroll.h"
#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;

namespace {

class ProcLowering {
 public:
  ProcLowering(const Job& job, const nest::Function& f, const nest::Proc& p, loop::Hoisting hoist)
      : p_(p), ctx_(job.ctx), k_(job), s_(job.ctx, job.target, job.vector_bytes(), job.expand, k_.b), access_(job.ctx, f, p),
        plan_(job.ctx, job.vector_bytes(), access_, p) {
    schedule_.vector_bytes = job.vector_bytes();
    schedule_.hoist = hoist;
    schedule_.block = job.target.block_lanes;
    if (schedule_.block == 0) unrolled_ = unrolled_loops(p, [&](const Stmt& s) { return plan_.of(s) != nullptr; });
  }

  Result<Kernels> run() {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : p_.dims) extents.push_back(d->extent);
    access_.place_locals(ctx_.product(extents), schedule_.block > 0);
    k_.kernel.locals = std::move(access_.scratch);
    const size_t fixed = access_.params.list.size();
    const auto instance_at = [&](const std::vector<const Expr*>& at) {
      s_.scoped([&] {
        for (size_t k = 0; k < p_.dims.size(); ++k) s_.bind(p_.dims[k], at[k]);
        const Expr* instance = ctx_.integer(0);
        for (size_t k = 0; k < at.size(); ++k) instance = ctx_.add(ctx_.mul(instance, extents[k]), at[k]);
        access_.at_instance(instance);
        block(p_.body, 0);
      });
    };
    if (schedule_.block) k_.over_lanes(extents, schedule_.block, instance_at);
    else k_.over_tiles(extents, {}, [&](const std::vector<const Expr*>& at, const std::vector<Range>&) { instance_at(at); });
    if (access_.params.list.size() != fixed)
      return Status(Code::Internal, k_.kernel.name + ": a proc touches an array it does not declare");
    schedule_.lanes = lanes_;
    k_.kernel.schedule = schedule::print(schedule_);
    k_.kernel.params = std::move(access_.params.list);
    MLC_RETURN_IF_ERROR(s_.status());
    MLC_ASSIGN(loop::Kernel kernel, k_.finish(k_.takes(kOperationNs, extents, operations(p_.body))));
    MLC_RETURN_IF_ERROR(fits(kernel));
    Kernels r;
    r.push_back(std::move(kernel));
    return r;
  }

 private:
  Status fits(const loop::Kernel& kernel) const {
    const targets::Target& target = s_.target;
    if (!target.is_device() || target.most_bindings == 0) return ok();
    const size_t bindings = kernel.params.size() + (kernel.scalars.size() > target.pushed_scalars) + may_fault(kernel.body);
    if (bindings <= target.most_bindings) return ok();
    return Status(Code::Unsupported, "it takes " + std::to_string(bindings) + " bindings at once, a launch has at most " + std::to_string(target.most_bindings));
  }
  static bool may_fault(const std::vector<loop::StmtPtr>& stmts) {
    return std::any_of(stmts.begin(), stmts.end(), [](const loop::StmtPtr& s) {
      return s->kind == StmtKind::Fault || s->kind == StmtKind::While || may_fault(s->body) || may_fault(s->orelse);
    });
  }

  // Checks are emitted anew for each statement: variables change.
  const Expr* flat_value(const Expr* flat) {
    const Expr* r = nullptr;
    s_.scoped([&] { r = s_.value(flat); });
    return r;
  }
  const Expr* value(const Expr* e) { return flat_value(access_.flat(e)); }

  // Of one instance, as a double over symbols; loops of unknown length count as some turns.
  const Expr* operations(const std::vector<loop::StmtPtr>& stmts) {
    const auto number = [&](double n) { return ctx_.number(n, DType::F64); };
    const Expr* sum = number(0);
    const auto add = [&](const Expr* e) { sum = ctx_.binary(Op::Add, sum, e); };
    for (const loop::StmtPtr& s : stmts) {
      for (const Expr* e : {s->cond, s->value})
        if (e) add(k_.operations(e));
      if (s->kind == StmtKind::Store) add(number(1));
      if (s->body.empty() && s->orelse.empty()) continue;
      const Expr* inner = ctx_.binary(Op::Add, operations(s->body), operations(s->orelse));
      if (s->kind == StmtKind::While) inner = ctx_.binary(Op::Mul, inner, number(kTurns));
      if (s->kind == StmtKind::For) {
        const bool known = ir::is_extent(s->begin) && ir::is_extent(s->end);
        const Expr* turns = known ? ctx_.max(k_.for_plan(ctx_.sub(s->end, s->begin)), ctx_.integer(0)) : ctx_.integer(kTurns);
        const InLanes* how = plan_.of(*s);
        inner = ctx_.binary(Op::Mul, ctx_.binary(Op::Mul, inner, number(1.0 / (how ? how->lanes : 1))), ctx_.cast(DType::F64, turns));
      }
      add(inner);
    }
    return sum;
  }

  void block(const std::vector<loop::StmtPtr>& stmts, int depth) {
    if (depth > 100) return s_.fail("blocks nested too deeply");
    for (const loop::StmtPtr& s : stmts) stmt(*s, depth);
  }

  void loop(const Stmt& s, int depth) {
    const ProcAccess::Loop bounds = access_.loop_of(s);
    const auto body = [&] { block(s.body, depth + 1); };
    if (!bounds.d) {
      const Expr *begin = flat_value(bounds.begin), *end = flat_value(bounds.end);
      return k_.b.with_for_var(s.var, begin, end, s.step, [&] { s_.scoped([&] { access_.within(s, bounds, s.var, body); }); });
    }
    if (unrolled_.contains(&s)) {
      Stmt& out = k_.b.append(StmtKind::For);
      out.for_kind = loop::ForKind::Unroll;
      out.var = ctx_.fresh_var({DType::I64, 1});
      out.begin = ctx_.integer(0);
      out.end = bounds.d->extent;
      return access_.within(s, bounds, nullptr, [&] {
        k_.b.within(out.body, [&] {
          s_.scoped([&] {
            s_.bind(bounds.d, out.var);
            body();
          });
        });
      });
    }
    const InLanes* how = plan_.of(s);
    if (how && access_.room_for(LaneLoop::kDims)) {
      lanes_ = std::max(lanes_, how->lanes);
      return LaneLoop(s_, k_.b, access_, s, *how, body).run(bounds);
    }
    access_.within(s, bounds, nullptr, [&] { s_.with_for(bounds.d, ctx_.integer(0), bounds.d->extent, 1, body); });
  }

  void stmt(const Stmt& s, int depth) {
    switch (s.kind) {
      case StmtKind::For: return loop(s, depth);
      case StmtKind::While: {  // the condition may need checks, which are statements
        const Expr* bound = value(s.bound);
        const Expr* go = k_.b.local(value(s.cond));
        k_.b.with_while(go, bound, [&] {
          s_.scoped([&] { block(s.body, depth + 1); });
          k_.b.assign(go, value(s.cond));
        });
        return;
      }
      case StmtKind::If: {
        const Expr* holds = access_.flat(s.cond);
        const auto arm = [&](const Expr* fact, const std::vector<loop::StmtPtr>& stmts) {
          return [&, fact] { s_.scoped([&] { access_.where(fact, [&] { block(stmts, depth + 1); }); }); };
        };
        return k_.b.with_if(flat_value(holds), arm(holds, s.body), arm(ctx_.logical_not(holds), s.orelse));
      }
      case StmtKind::Let:
      case StmtKind::Local:
      case StmtKind::Assign: {
        const Expr* v = value(s.value);
        Stmt& out = k_.b.append(s.kind);
        out.var = s.var;
        out.value = v;
        return;
      }
      case StmtKind::Store: return s_.scoped([&] { emit_write(s_, k_.b, access_.write(s), nullptr); });
      case StmtKind::Fault: k_.b.fault(value(s.cond), s.fault); return;
      case StmtKind::Barrier:
      case StmtKind::FoldLanes:
      case StmtKind::Mma:
      case StmtKind::Prefetch: return;
    }
  }

  static constexpr int64_t kTurns = 16;  // of a loop whose length is not known before

  const nest::Proc& p_;
  ir::Context& ctx_;
  Skeleton k_;
  Body s_;
  ProcAccess access_;
  LanePlan plan_;
  std::unordered_set<const Stmt*> unrolled_;
  unsigned lanes_ = 1;
  schedule::Schedule schedule_{.family = schedule::Family::Proc};
};

}  // namespace

Result<Kernels> lower_proc(const Job& job, const nest::Function& f, const nest::Proc& proc, loop::Hoisting hoist) {
  return ProcLowering(job, f, proc, hoist).run();
}

}  // namespace mlc::lower
