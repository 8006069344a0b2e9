#include "packager/passes/passes.h"

#include <set>

#include "packager/passes/dead_code.h"
#include "packager/passes/uses.h"

namespace mlc::passes {
namespace {

constexpr Pass kPipeline[] = {
    {"dead_code", dead_code},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

Status run(ir::Context& ctx, nest::Function& function, const Options&) {
  for (const Pass& pass : pipeline()) {
    Status status = pass.run(ctx, function);
    if (!status.ok()) return std::move(status).note(pass.name);
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
