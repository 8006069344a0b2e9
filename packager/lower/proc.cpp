// Imperative blocks. The tree is Loop already; what is left is addresses, checks, and memory for the block's arrays:
// those of constant size live in scratch, the others in a workspace with one part per instance.
#include "packager/lower/templates.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;

namespace {

class ProcLowering {
 public:
  ProcLowering(const Job& job, const nest::Function& f, const nest::Proc& p)
      : f_(f), p_(p), ctx_(job.ctx), k_(job), s_(job.ctx, job.target, job.expand, k_.b), params_(f) {}

  Result<Kernels> run() {
    for (uint32_t a : p_.reads) params_.of(a);
    for (uint32_t a : p_.writes) params_.of(a, true);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : p_.dims) extents.push_back(d->extent);
    place_locals(ctx_.product(extents));
    const size_t fixed = params_.list.size();
    for (Local& l : locals_)
      if (l.constant) l.buffer += static_cast<uint32_t>(fixed);
    k_.kernel.schedule = "proc";
    k_.over_tiles(extents, {}, [&](const std::vector<const Expr*>& at, const std::vector<Range>&) {
      s_.scoped([&] {
        for (size_t k = 0; k < p_.dims.size(); ++k) s_.bind(p_.dims[k], at[k]);
        instance_ = ctx_.integer(0);
        for (size_t k = 0; k < at.size(); ++k) instance_ = ctx_.add(ctx_.mul(instance_, extents[k]), at[k]);
        block(p_.body, 0);
      });
    });
    if (params_.list.size() != fixed)
      return Status(Code::Internal, k_.kernel.name + ": a proc touches an array it does not declare");
    k_.kernel.params = std::move(params_.list);
    MLC_RETURN_IF_ERROR(s_.status());
    MLC_ASSIGN(loop::Kernel kernel, k_.finish());
    Kernels r;
    r.push_back(std::move(kernel));
    return r;
  }

 private:
  struct Local {
    bool constant = false;
    uint32_t buffer = 0;  // among the kernel's locals if constant, else the number of the workspace parameter
    const Expr* elements = nullptr;  // of one instance
  };

  void place_locals(const Expr* instances) {
    uint32_t constants = 0, workspaces = 0;
    for (const loop::LocalArray& l : p_.locals) {
      Local place;
      place.elements = ctx_.product(l.shape);
      place.constant = place.elements->is_const() && place.elements->i <= kMaxScratchElements;
      if (place.constant) {
        place.buffer = constants++;
        loop::LocalArray local;
        local.name = l.name;
        local.dtype = l.dtype;
        local.count = place.elements;
        k_.kernel.locals.push_back(std::move(local));
      } else {
        place.buffer = static_cast<uint32_t>(params_.list.size());
        loop::Param w;
        w.name = l.name;
        w.dtype = l.dtype;
        w.written = true;
        w.role = loop::Role::Workspace;
        w.array = workspaces++;
        w.elements = ctx_.mul(instances, place.elements);
        params_.list.push_back(std::move(w));
      }
      locals_.push_back(place);
    }
  }

  const Expr* local_address(uint32_t local, const std::vector<const Expr*>& index) {
    const Expr* at = nest::address(ctx_, {}, p_.locals[local].shape, index);
    const Local& place = locals_[local];
    return place.constant ? at : ctx_.add(ctx_.mul(instance_, place.elements), at);
  }

  const Expr* flat(const Expr* e) {
    return ctx_.rewrite(e, [&](const Expr* x) -> const Expr* {
      if (x->op != Op::Load) return nullptr;
      if (x->array < nest::kFirstLocal) {
        std::vector<const Expr*> index;
        for (const Expr* a : x->args) index.push_back(flat(a));
        return flat_load(ctx_, f_, params_, ctx_.raw(*x, std::move(index)));
      }
      uint32_t local = x->array - nest::kFirstLocal;
      std::vector<const Expr*> index;
      for (const Expr* a : x->args) index.push_back(flat(a));
      Expr node = *x;
      node.array = locals_[local].buffer;
      node.access = Access::Checked;
      const Expr* ok = range_condition(ctx_, index, p_.locals[local].shape);
      return ctx_.raw(node, {local_address(local, index), ok});
    });
  }
  // Checks are emitted anew for each statement: variables change.
  const Expr* value(const Expr* e) {
    const Expr* r = nullptr;
    s_.scoped([&] { r = s_.value(flat(e)); });
    return r;
  }

  void block(const std::vector<loop::StmtPtr>& stmts, int depth) {
    if (depth > 100) return s_.fail("blocks nested too deeply");
    for (const loop::StmtPtr& s : stmts) stmt(*s, depth);
  }

  void stmt(const Stmt& s, int depth) {
    switch (s.kind) {
      case StmtKind::For: {
        const Expr *begin = value(s.begin), *end = value(s.end);
        k_.b.with_for_var(s.var, begin, end, s.step, [&] { block(s.body, depth + 1); });
        return;
      }
      case StmtKind::While: {  // the condition may need checks, which are statements
        const Expr* bound = value(s.bound);
        const Expr* go = k_.b.local(value(s.cond));
        k_.b.with_while(go, bound, [&] {
          block(s.body, depth + 1);
          k_.b.assign(go, value(s.cond));
        });
        return;
      }
      case StmtKind::If:
        k_.b.with_if(value(s.cond), [&] { block(s.body, depth + 1); }, [&] { block(s.orelse, depth + 1); });
        return;
      case StmtKind::Let:
      case StmtKind::Local:
      case StmtKind::Assign: {
        const Expr* v = value(s.value);
        Stmt& out = k_.b.append(s.kind);
        out.var = s.var;
        out.value = v;
        return;
      }
      case StmtKind::Store: {
        std::vector<const Expr*> index;
        for (const Expr* i : s.index) index.push_back(flat(i));
        const Expr* v = value(s.value);
        uint32_t buffer;
        const Expr *at, *ok;
        if (s.array >= nest::kFirstLocal) {
          uint32_t local = s.array - nest::kFirstLocal;
          buffer = locals_[local].buffer;
          at = local_address(local, index);
          ok = range_condition(ctx_, index, p_.locals[local].shape);
        } else {
          const nest::Array& array = f_.arrays[s.array];
          buffer = params_.of(s.array, true);
          at = nest::address(ctx_, array.layout, array.shape, index);
          ok = range_condition(ctx_, index, array.shape);
        }
        s_.scoped([&] {
          k_.b.fault(ctx_.unary(Op::Not, s_.value(ok)), 1);
          k_.b.store(buffer, s_.value(at), v);
        });
        return;
      }
      case StmtKind::Fault: k_.b.fault(value(s.cond), s.fault); return;
    }
  }

  static constexpr int64_t kMaxScratchElements = 4096;
  const nest::Function& f_;
  const nest::Proc& p_;
  ir::Context& ctx_;
  Skeleton k_;
  Body s_;
  Params params_;
  std::vector<Local> locals_;
  const Expr* instance_ = nullptr;
};

}  // namespace

Result<Kernels> lower_proc(const Job& job, const nest::Function& f, const nest::Proc& proc) {
  return ProcLowering(job, f, proc).run();
}

}  // namespace mlc::lower
