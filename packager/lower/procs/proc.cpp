// Imperative blocks. The tree is Loop already; what is left is addresses and checks (proc_access), and which loops run in
// lanes (proc_lanes).
#include <map>
#include <numeric>

#include "packager/lower/procs/proc_lanes.h"
#include "packager/lower/procs/proc_uniform.h"
#include "packager/lower/procs/proc_unroll.h"
#include "packager/lower/walk/templates.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/facts/phases.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;

namespace {

class ProcLowering {
 public:
  // `shares`: several workers, or lanes of a device, may have an instance together.
  ProcLowering(const Job& job, const nest::Function& f, const nest::Proc& p, loop::Hoisting hoist, bool shares)
      : job_(job), p_(p), ctx_(job.ctx), k_(job), s_(job.ctx, job.target, job.vector_bytes(), job.expand, k_.b), access_(job.ctx, f, p),
        plan_(job, access_, p) {
    schedule_.vector_bytes = job.vector_bytes();
    schedule_.hoist = hoist;
    schedule_.block = job.target.block_lanes;
    if (shares) find_phases();
    if (schedule_.block > 0 && phases_) schedule_.block = lanes_of_instance(job.target);
    if (schedule_.block > 0 && shares && !phases_) find_uniform();
    if (schedule_.block == 0 && !phases_) unrolled_ = unrolled_loops(p, [&](const Stmt& s) { return plan_.of(s) != nullptr; });
  }

  Result<Kernels> run() {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : p_.dims) extents.push_back(d->extent);
    using Locals = ProcAccess::Locals;
    access_.place_locals(ctx_.product(extents), phases_ || uniform_ ? Locals::Instance : schedule_.block > 0 ? Locals::Interleaved : Locals::Worker);
    k_.kernel.locals = std::move(access_.scratch);
    const size_t fixed = access_.params.list.size();
    const auto instance_at = [&](const std::vector<const Expr*>& at, const std::function<void()>& body) {
      s_.scoped([&] {
        for (size_t k = 0; k < p_.dims.size(); ++k) s_.bind(p_.dims[k], at[k]);
        const Expr* instance = ctx_.integer(0);
        for (size_t k = 0; k < at.size(); ++k) instance = ctx_.add(ctx_.mul(instance, extents[k]), at[k]);
        access_.at_instance(instance);
        body();
      });
    };
    const auto all = [&] { block(p_.body, 0); };
    const auto in_lanes = [&](const std::vector<const Expr*>& at, const Expr* lane) { instance_at(at, [&] { phases_ ? all_turns(lane) : alike(lane); }); };
    if (schedule_.block && (phases_ || uniform_)) k_.over_blocks(extents, schedule_.block, in_lanes);
    else if (schedule_.block) k_.over_lanes(extents, schedule_.block, [&](const std::vector<const Expr*>& at) { instance_at(at, all); });
    else if (!phases_) k_.over_tiles(extents, {}, [&](const std::vector<const Expr*>& at, const std::vector<Range>&) { instance_at(at, all); });
    else k_.over_turns(extents, number_of_turns(), parts_, [&](const std::vector<const Expr*>& at, const Range& of_turns, const Range& of_parts) {
      instance_at(at, [&] { turns(of_turns, of_parts); });
    });
    if (access_.params.list.size() != fixed)
      return Status(Code::Internal, k_.kernel.name + ": a proc touches an array it does not declare");
    schedule_.lanes = lanes_;
    k_.kernel.schedule = schedule::print(schedule_);
    k_.kernel.params = std::move(access_.params.list);
    MLC_RETURN_IF_ERROR(s_.status());
    if (uniform_) pass_by_faults(k_.kernel.body, [](loop::StmtPtr fault) { return fault; });
    if (lane_ && may_fault(k_.kernel.body)) return Status(Code::Unsupported, "lanes that wait for each other cannot stop");
    MLC_ASSIGN(loop::Kernel kernel, k_.finish(k_.takes(job_.operation_ns(), extents, operations(p_.body))));
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

  // Whether workers share an instance, and in how many parts. A turn of a phase takes longer than their meeting behind it, or none do; lanes of
  // a device, where instances alone would fill few of these.
  void find_phases() {
    auto found = nest::phases_of(ctx_, p_);
    is_recurrence_ = found.has_value();
    if (!found || !access_.room_for(static_cast<unsigned>(found->shared.size()) + 1)) return;
    const double turns = std::max(1.0, estimate(found->carried->end) - estimate(found->carried->begin));
    double instances = 1;
    for (const ir::Dim* d : p_.dims) instances *= estimate(d->extent);
    if (schedule_.block > 0 ? instances > job_.device().busy_points : plan_.operations(*found->carried) < job_.processor().meeting_operations * turns * found->inside) return;
    std::vector<const Stmt*> loops{found->carried};
    loops.insert(loops.end(), found->shared.begin(), found->shared.end());
    for (const Stmt* s : loops)
      if (!access_.loop_of(*s).d) return;
    // Loops of equal bounds have equal parts, so that what one stores and another one reads is the same worker's.
    std::map<std::pair<const Expr*, const Expr*>, int64_t> quanta;
    for (const Stmt* s : found->shared) {
      const InLanes* how = plan_.of(*s);
      int64_t& quantum = quanta.emplace(std::pair(s->begin, s->end), nest::kPanel).first->second;
      quantum = std::lcm(quantum, how ? static_cast<int64_t>(how->lanes) * how->copies : 1);
    }
    for (const Stmt* s : found->shared) {
      const int64_t quantum = quanta.at({s->begin, s->end});
      shared_[s].quantum = quantum;
      const Expr* parts = ctx_.max(ctx_.ceildiv(access_.loop_of(*s).d->extent, ctx_.integer(quantum)), ctx_.integer(1));
      parts_ = parts_ ? ctx_.min(parts_, parts) : parts;
    }
    phases_ = std::move(found);
  }

  // Few instances that have loops to share: a block for each, of as many lanes as fold together by instructions alone, which no Vulkan promises
  // of a number of lanes. They are few as long as all blocks run at once: then none waits for another one, and each is done sooner. Recurrences
  // have their own way, or have too many instances for it.
  void find_uniform() {
    const targets::DeviceRow& machine = job_.device();
    if (job_.target.llvm_cpu.empty() || is_recurrence_) return;
    const auto lanes = static_cast<unsigned>(machine.warp_lanes);
    double instances = 1;
    for (const ir::Dim* d : p_.dims) instances *= estimate(d->extent);
    if (instances > machine.multiprocessors * machine.warps) return;
    nest::Uniform found = nest::uniform_of(ctx_, p_, [&](const Stmt& loop, const nest::Independent* facts) {
      return UniformWalk::spared_by(loop, facts, lanes, plan_) > 0;
    });
    if (UniformWalk::spared(found, p_.body, lanes, plan_) <= 0) return;
    uniform_ = std::move(found);
    schedule_.block = lanes;
  }

  void alike(const Expr* lane) {
    UniformWalk(s_, k_.b, access_, *uniform_, schedule_.block, [&](const Stmt& s) { stmt(s, 1); }).run(p_.body, lane);
  }

  const Expr* number_of_turns() {
    const Expr* inside = ctx_.mul(ctx_.integer(phases_->inside), access_.loop_of(*phases_->carried).d->extent);
    return ctx_.add(ctx_.integer(phases_->before + phases_->behind), inside);
  }

  void find_parts(const Range& of) {
    const Expr* is_last = k_.b.let(ctx_.binary(Op::Eq, of.end, parts_));
    for (const Stmt* s : phases_->shared) {
      SharedPart& part = shared_.at(s);
      const Expr* whole = ctx_.floordiv(access_.loop_of(*s).d->extent, ctx_.integer(part.quantum));
      const Expr* each = ctx_.ceildiv(whole, parts_);
      part.begin = k_.b.let(ctx_.min(whole, ctx_.mul(each, of.begin)));
      part.end = k_.b.let(ctx_.min(whole, ctx_.mul(each, of.end)));
      part.is_last = is_last;
    }
  }

  // Devices: a block of lanes has an instance, each of them every so many iterations of a shared loop.
  // Every device by PTX has blocks of 1,024 lanes, by Vulkan not every one of more than 128.
  static unsigned lanes_of_instance(const targets::Target& target) { return target.llvm_cpu.empty() ? target.block_lanes : kLanesOfInstance; }

  void all_turns(const Expr* lane) {
    const nest::Phases& p = *phases_;
    lane_ = lane;
    const auto phases = [&](uint32_t begin, uint32_t end, const std::vector<loop::StmtPtr>& stmts) {
      for (uint32_t phase = begin; phase < end; ++phase) {
        s_.scoped([&] { block_of(stmts, phase); });
        k_.b.append(StmtKind::Barrier);
      }
    };
    common(p_.body);
    phases(0, p.before, p_.body);
    const ProcAccess::Loop bounds = access_.loop_of(*p.carried);
    access_.within(*p.carried, bounds, nullptr, [&] {
      s_.with_for(bounds.d, ctx_.integer(0), bounds.d->extent, 1, [&] {
        common(p.carried->body);
        phases(p.before, p.before + p.inside, p.carried->body);
      });
    });
    phases(p.before + p.inside, p.count(), p_.body);
  }

  // The turns and the parts that a tile has of an instance.
  void turns(const Range& of_turns, const Range& of_parts) {
    const auto number = [&](uint32_t n) { return ctx_.integer(n); };
    const nest::Phases& p = *phases_;
    const Stmt& carried = *p.carried;
    find_parts(of_parts);
    common(p_.body);
    const ProcAccess::Loop bounds = access_.loop_of(carried);
    const Expr* of_loop = ctx_.mul(number(p.inside), bounds.d->extent);
    k_.b.with_for(of_turns.begin, of_turns.end, 1, [&](const Expr* turn) {
      const auto phases = [&](uint32_t begin, uint32_t end, const Expr* which, const Expr* first, const std::vector<loop::StmtPtr>& stmts) {
        for (uint32_t phase = begin; phase < end; ++phase) {
          const auto body = [&] { s_.scoped([&] { block_of(stmts, phase); }); };
          k_.b.with_if(ctx_.binary(Op::Eq, which, ctx_.add(first, number(phase - begin))), body);
        }
      };
      phases(0, p.before, turn, number(0), p_.body);
      const Expr* at = k_.b.let(ctx_.sub(turn, number(p.before)));
      const Expr* inside = ctx_.binary(Op::And, ctx_.binary(Op::Le, number(0), at), ctx_.binary(Op::Lt, at, of_loop));
      k_.b.with_if(inside, [&] {
        access_.within(carried, bounds, nullptr, [&] {
          s_.scoped([&] {
            s_.bind(bounds.d, k_.b.let(ctx_.floordiv(at, number(p.inside))));
            common(carried.body);
            phases(p.before, p.before + p.inside, k_.b.let(ctx_.floormod(at, number(p.inside))), number(0), carried.body);
          });
        });
      });
      phases(p.before + p.inside, p.count(), at, of_loop, p_.body);
    });
  }

  bool is_common(const Stmt& s) const { return &s != phases_->carried && !phases_->of.contains(&s) && !phases_->opened.contains(&s); }

  void common(const std::vector<loop::StmtPtr>& stmts) {
    for (const loop::StmtPtr& s : stmts)
      if (is_common(*s)) stmt(*s, 1);
  }

  bool has_phase(const Stmt& s, uint32_t phase) const {
    const auto of = phases_->of.find(&s);
    if (of != phases_->of.end()) return of->second == phase;
    return phases_->opened.contains(&s) && std::any_of(s.body.begin(), s.body.end(), [&](const loop::StmtPtr& x) { return has_phase(*x, phase); });
  }

  void block_of(const std::vector<loop::StmtPtr>& stmts, uint32_t phase) {
    for (const loop::StmtPtr& s : stmts) {
      if (!has_phase(*s, phase)) continue;
      if (!phases_->opened.contains(s.get())) {
        stmt(*s, 1);
        continue;
      }
      const Expr* holds = access_.flat(s->cond);
      k_.b.with_if(flat_value(holds), [&] { s_.scoped([&] { access_.where(holds, [&] { block_of(s->body, phase); }); }); });
    }
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
    const auto shared = shared_.find(&s);
    if (lane_ && shared != shared_.end()) {
      access_.within(s, bounds, nullptr, [&] { s_.with_for(bounds.d, lane_, bounds.d->extent, schedule_.block, body); });
      return;
    }
    const SharedPart* part = phases_ && shared != shared_.end() ? &shared->second : nullptr;
    if (how && access_.room_for(LaneLoop::kDims)) {
      lanes_ = std::max(lanes_, how->lanes);
      return LaneLoop(s_, k_.b, access_, s, *how, body).run(bounds, part);
    }
    const Expr *begin = ctx_.integer(0), *end = bounds.d->extent;
    if (part) {
      begin = k_.b.let(ctx_.mul(part->begin, ctx_.integer(part->quantum)));
      end = k_.b.let(ctx_.select(part->is_last, end, ctx_.mul(part->end, ctx_.integer(part->quantum))));
    }
    access_.within(s, bounds, nullptr, [&] { s_.with_for(bounds.d, begin, end, 1, body); });
  }

  // What becomes of a local under the name that it has among lanes. What is joined to a Bool is computed whatever that is, if it cannot fault:
  // loads of several turns are then under way at once.
  const Expr* joined(const Stmt& s, const Expr* name) {
    const Expr* e = s.value;
    if ((e->op != Op::Or && e->op != Op::And) || (e->args[0] == s.var) == (e->args[1] == s.var)) return value(e);
    const Expr* more = access_.flat(e->args[e->args[0] == s.var ? 1 : 0]);
    bool faults = false;
    ir::walk(more, [&](const Expr* x) { faults |= x->op == Op::Load && x->access == ir::Access::Checked; });
    return faults ? value(e) : ctx_.binary(e->op, name, k_.b.let(flat_value(more)));
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
        const Expr* name = s.kind == StmtKind::Assign ? flat_value(s.var) : s.var;
        const Expr* v = name == s.var ? value(s.value) : joined(s, name);
        Stmt& out = k_.b.append(s.kind);
        out.var = name;
        out.value = v;
        return;
      }
      case StmtKind::Store: return s_.scoped([&] { emit_write(s_, k_.b, access_.write(s), nullptr); });
      case StmtKind::Fault: k_.b.fault(value(s.cond), s.fault); return;
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
    }
  }

  static constexpr unsigned kLanesOfInstance = 512;
  static constexpr int64_t kTurns = 16;  // of a loop whose length is not known before

  const Job& job_;
  const nest::Proc& p_;
  ir::Context& ctx_;
  Skeleton k_;
  Body s_;
  ProcAccess access_;
  LanePlan plan_;
  std::optional<nest::Phases> phases_;  // none: a worker has all of an instance
  bool is_recurrence_ = false;
  std::optional<nest::Uniform> uniform_;  // devices: the lanes of a block have an instance, which is no recurrence
  std::unordered_map<const Stmt*, SharedPart> shared_;
  const Expr* parts_ = nullptr;         // most workers of an instance
  const Expr* lane_ = nullptr;          // devices: of the block that has the instance
  std::unordered_set<const Stmt*> unrolled_;
  unsigned lanes_ = 1;
  schedule::Schedule schedule_{.family = schedule::Family::Proc};
};

}  // namespace

Result<Kernels> lower_proc(const Job& job, const nest::Function& f, const nest::Proc& proc, loop::Hoisting hoist) {
  auto shared = ProcLowering(job, f, proc, hoist, true).run();
  if (shared || !job.target.is_device()) return shared;
  return ProcLowering(job, f, proc, hoist, false).run();
}

}  // namespace mlc::lower
