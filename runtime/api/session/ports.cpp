#include "runtime/api/session/ports.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace mlc::api {
namespace {

// What symbols are constants.
using Constants = std::unordered_map<exec::Symbol, int64_t>;

Status check_port(const format::Port& said, const exec::Port& port, const Constants& constants) {
  if (said.name != port.name) return Status(Code::Malformed, "the plan has '{}' in place of '{}'", port.name, said.name);
  if (said.dtype != port.dtype) return Status(Code::Malformed, "'{}' is {} in the plan and {} in the manifest", port.name, name_of(port.dtype), name_of(said.dtype));
  if (said.list_depth != port.list_depth)
    return Status(Code::Malformed, "'{}': lists {} deep in the plan and {} in the manifest", port.name, port.list_depth, said.list_depth);
  if (said.list_depth > 0) return ok();
  if (said.dims.size() != port.axes())
    return Status(Code::Malformed, "'{}' has {} axes in the plan and {} in the manifest", port.name, port.axes(), said.dims.size());
  for (size_t axis = 0; axis < port.shape.size(); ++axis) {
    const auto constant = constants.find(port.shape[axis]);
    const std::optional<int64_t> extent = said.dims[axis].extent;
    if (extent && (constant == constants.end() || constant->second != *extent))
      return Status(Code::Malformed, "'{}': axis {} is {} in the manifest, and not in the plan", port.name, axis, *extent);
  }
  return ok();
}

Status check_ports(const std::vector<format::Port>& said, const std::vector<exec::Port>& ports, const Constants& constants, const char* what) {
  if (said.size() != ports.size()) return Status(Code::Malformed, "the plan has {} {}, the manifest {}", ports.size(), what, said.size());
  for (size_t i = 0; i < ports.size(); ++i) MLC_RETURN_IF_ERROR(check_port(said[i], ports[i], constants));
  return ok();
}

}  // namespace

const std::vector<format::Port>& ports_of(const format::Method& method, bool is_output) {
  if (is_output) return method.core_outputs.empty() ? method.outputs : method.core_outputs;
  return method.core_inputs.empty() ? method.inputs : method.core_inputs;
}

Status check_ports(const format::Manifest& manifest, std::span<const uint32_t> methods, const exec::Plan& plan) {
  for (const uint32_t number : methods) {
    const format::Method& method = manifest.methods[number];
    const auto index = plan.find(method.name);
    if (!index) return Status(Code::Malformed, "the plan has no program '{}'", method.name);
    const exec::Function& function = plan.functions[*index];
    Constants constants;
    for (const exec::SymbolInstr& s : function.shape)
      if (s.op == exec::SymbolOp::Const) constants.emplace(s.dst, s.imm);
    Status status = check_ports(ports_of(method, false), function.inputs, constants, "inputs");
    if (status.ok()) status = check_ports(ports_of(method, true), function.outputs, constants, "outputs");
    if (!status.ok()) return std::move(status).note("program '{}'", method.name);
  }
  return ok();
}

Status check_results(const format::Manifest& manifest, const exec::Function& function, std::span<const exec::OutputArg> results) {
  if (!function.is_program()) return ok();
  const auto method = std::find_if(manifest.methods.begin(), manifest.methods.end(), [&](const format::Method& m) { return m.name == function.name; });
  if (method == manifest.methods.end()) return ok();
  const std::vector<format::Port>& said = ports_of(*method, true);
  for (size_t i = 0; i < said.size() && i < results.size(); ++i)
    for (size_t axis = 0; axis < said[i].dims.size() && said[i].list_depth == 0; ++axis) {
      const std::optional<int64_t> extent = said[i].dims[axis].extent;
      if (extent && (axis >= results[i].shape.size() || results[i].shape[axis] != *extent))
        return Status(Code::Malformed, "'{}': axis {} has not the extent {} that the manifest promises", said[i].name, axis, *extent);
    }
  return ok();
}

}  // namespace mlc::api
