#include "packager/lower/lower.h"

#include <algorithm>

#include "packager/lower/templates.h"

namespace mlc::lower {

std::string kernel_name(const std::string& source) {
  std::string name;
  for (char c : source)
    name +=
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ? c : '_';
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.empty() ? "kernel" : name.substr(0, 100);
}

namespace {

struct Rung {
  unsigned vector_parts;  // vectors of the target's width divided by this; 0: none
  loop::Hoisting hoisting;
};
constexpr Rung kLadder[kRungs] = {{1, loop::Hoisting::All},       {1, loop::Hoisting::Innermost}, {2, loop::Hoisting::Innermost},
                                  {4, loop::Hoisting::Innermost}, {0, loop::Hoisting::Innermost}, {0, loop::Hoisting::None}};

Result<std::vector<loop::Kernel>> lower_on(const Rung& rung, const Job& job, const nest::Function& function,
                                           const nest::Statement& statement) {
  if (statement.proc) return lower_proc(job, function, *statement.proc);
  if (!statement.nest || statement.nest->writes.empty()) return Status(Code::Internal, "a statement without writes");
  MLC_ASSIGN(FlatNest flat, flatten(job.ctx, function, *statement.nest));
  split_phases(job.ctx, flat);
  collapse(job.ctx, flat);
  Kernels kernels;
  const bool templates = rung.vector_parts > 0;
  if (templates) MLC_RETURN_IF_ERROR(pack_columns(job, flat, kernels));
  MLC_ASSIGN(loop::Kernel kernel, kernel_of(job, flat, templates));
  kernels.push_back(std::move(kernel));
  return kernels;
}

}  // namespace

StagePtr stage_of(const Job& job, const FlatNest& nest, Skeleton& k, bool templates) {
  if (templates)
    for (auto* make : {contraction, decoded, stencil, transpose})
      if (StagePtr stage = make(job, nest, k)) return stage;
  return generic(job, nest, k);
}

Result<loop::Kernel> kernel_of(const Job& job, const FlatNest& nest, bool templates) {
  Skeleton k(job);
  k.kernel.params = nest.params;
  const StagePtr stage = stage_of(job, nest, k, templates);
  k.kernel.schedule = stage->schedule;
  std::vector<const ir::Expr*> extents;
  for (const ir::Dim* d : stage->batch) extents.push_back(d->extent);
  k.over_tiles(extents, stage->axes, [&](const std::vector<const ir::Expr*>& at, const std::vector<Range>& ranges) { stage->emit(at, ranges); });
  MLC_RETURN_IF_ERROR(stage->status());
  return k.finish(stage->work);
}

Result<std::vector<loop::Kernel>> lower(ir::Context& ctx, const nest::Function& function,
                                        const nest::Statement& statement, const targets::Target& target,
                                        const MathExpander& expand, unsigned rung) {
  if (rung >= kRungs) return Status(Code::Internal, "a lowering that does not exist");
  const Rung& how = kLadder[rung];
  targets::Target narrow = target;
  narrow.vector_bytes = how.vector_parts == 0 ? 1 : std::max(8u, target.vector_bytes / how.vector_parts);
  const Job job{ctx, narrow, expand, kernel_name(statement.source)};
  MLC_ASSIGN(std::vector<loop::Kernel> kernels, lower_on(how, job, function, statement));
  for (loop::Kernel& kernel : kernels) kernel.hoisting = how.hoisting;
  return kernels;
}

}  // namespace mlc::lower
