#include "tests/conformance/model_tool.h"

#include <cstdio>

#include "packager/compile/expand.h"
#include "packager/import/onnx.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"

namespace mlc::conformance {
namespace {

std::string described(const nest::Array& array) {
  std::string text = array.name + ": " + std::string(name_of(array.dtype)) + "[";
  for (size_t axis = 0; axis < array.shape.size(); ++axis) text += (axis ? ", " : "") + ir::to_string(array.shape[axis]);
  return text + "]";
}

}  // namespace

int run_model(const lang::Library& library, const ModelOptions& options) {
  auto model = import::import_onnx(options.model);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().text().c_str());
    return 1;
  }
  for (model::Port& port : model->graph.inputs)
    for (size_t axis = 0; axis < port.shape.size(); ++axis) {
      if (!std::holds_alternative<std::string>(port.shape[axis])) continue;
      const auto fixed = options.dims.find(compile::free_axis_name(port, axis));
      if (fixed != options.dims.end()) port.shape[axis] = fixed->second;
    }
  Status known = compile::check_operators(library, *model);
  if (!known.ok()) std::printf("%s\n", known.text().c_str());
  ir::Context ctx;
  auto function = compile::expand_model(ctx, library, *model, "main");
  if (!function.ok()) {
    std::printf("%s\n", function.status().text().c_str());
    return 1;
  }
  if (options.print) std::printf("%s\n", nest::print(*function).c_str());
  if (options.shapes)
    for (const nest::Array& array : function->arrays)
      if (array.kind == nest::Array::Kind::Temp) std::printf("%s\n", described(array).c_str());
  bool verified = true;
  if (options.check)
    for (const std::string& error : nest::verify(ctx, *function)) std::printf("verify: %s\n", error.c_str()), verified = false;
  size_t checked = 0;
  for (const nest::Statement& statement : function->body)
    if (statement.nest)
      for (const nest::Write& write : statement.nest->writes)
        ir::walk(write.value, [&](const ir::Expr* e) { checked += e->op == ir::Op::Load && e->access == ir::Access::Checked; });
  std::printf("%zu nodes, %zu statements, %zu arrays, %zu run-time checks, %zu checked reads\n", model->graph.nodes.size(), function->body.size(),
              function->arrays.size(), function->checks.size(), checked);
  for (const auto& c : function->checks) std::printf("  check %s: %s\n", ir::to_string(c.condition).c_str(), c.message.c_str());
  for (uint32_t id : function->outputs) std::printf("  output %s\n", described(function->arrays[id]).c_str());
  return known.ok() && verified ? 0 : 1;
}

}  // namespace mlc::conformance
