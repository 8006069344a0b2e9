#include "packager/passes/passes.h"

#include <set>

#include "packager/passes/dead_code.h"
#include "packager/passes/uses.h"

namespace mlc::passes {

std::vector<NamedPass> all_passes() { return {{"dead-code", dead_code}}; }
std::vector<std::string> default_pipeline() { return {"dead-code"}; }

Status run(ir::Context& ctx, nest::Function& function, const Options& options) {
  for (const std::string& name : options.pipeline)
    for (const NamedPass& pass : all_passes()) {
      if (pass.name != name) continue;
      Status status = pass.pass(ctx, function);
      if (!status.ok()) return std::move(status).note(name);
    }
  return ok();
}

std::vector<uint32_t> used_constants(const nest::Function& function) {
  std::set<uint32_t> used;
  for (const nest::Statement& statement : function.body)
    for (uint32_t array : arrays_read(statement)) used.insert(array);
  used.insert(function.outputs.begin(), function.outputs.end());
  std::vector<uint32_t> constants;
  for (uint32_t array : used)
    if (function.arrays[array].kind == nest::Array::Kind::Const) constants.push_back(array);
  return constants;
}

}  // namespace mlc::passes
