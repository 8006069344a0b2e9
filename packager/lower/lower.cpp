#include "packager/lower/lower.h"

#include <algorithm>

#include "packager/lower/templates.h"

namespace mlc::lower {

namespace {

std::string kernel_name(const std::string& source) {
  std::string name;
  for (char c : source)
    name +=
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ? c : '_';
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.empty() ? "kernel" : name.substr(0, 100);
}

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
  if (rung.vector_parts == 0) return generic(job, flat);
  MLC_ASSIGN(auto contracted, contraction(job, flat));
  if (contracted) return std::move(*contracted);
  MLC_ASSIGN(auto slid, stencil(job, flat));
  if (slid) return std::move(*slid);
  MLC_ASSIGN(auto turned, transpose(job, flat));
  if (turned) return std::move(*turned);
  return generic(job, flat);
}

}  // namespace

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
