#include "packager/lower/lower.h"

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

}  // namespace

Result<std::vector<loop::Kernel>> lower(ir::Context& ctx, const nest::Function& function,
                                        const nest::Statement& statement, const targets::Target& target,
                                        const MathExpander& expand) {
  Job job{ctx, target, expand, kernel_name(statement.source)};
  if (statement.proc) return lower_proc(job, function, *statement.proc);
  if (!statement.nest || statement.nest->writes.empty()) return Status(Code::Internal, "a statement without writes");
  MLC_ASSIGN(FlatNest flat, flatten(ctx, function, *statement.nest));
  split_phases(ctx, flat);
  collapse(ctx, flat);
  MLC_ASSIGN(auto contracted, contraction(job, flat));
  if (contracted) return std::move(*contracted);
  MLC_ASSIGN(auto slid, stencil(job, flat));
  if (slid) return std::move(*slid);
  return generic(job, flat);
}

}  // namespace mlc::lower
