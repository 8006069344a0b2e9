#include "runtime/plan/device/substitute.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/compose.h"

namespace mlc::exec {

Status Substitute::run(const SegmentCall& call, DeviceStates& states, const Status& why, bool for_all) {
  if (!std::exchange(asked_, true)) {
    auto other = open_();
    if (other.ok()) other_ = std::move(*other);
    else refused_ = std::move(other).status();
  }
  if (!refused_.ok()) {
    Status s = refused_;
    s.message = compose("'{}': {}; {}", call.function.name, why.message, refused_.message);
    return s;
  }
  const std::string& who = call.function.name;
  if (!told_.contains("") && told_.insert(for_all ? std::string() : who).second)
    tell_(for_all ? compose("the processor ({}) goes on in place of the device: {}", other_.name, why.message)
                  : compose("'{}' runs on the processor ({}): {}", who, other_.name, why.message));
  return run_other(call, states);
}

Status Substitute::run_other(const SegmentCall& call, DeviceStates& states) {
  const Function& f = call.function;
  const auto number = other_.plan->find(f.name);
  if (!number) return Status(Code::Internal, "variant '{}' has no '{}'", other_.name, f.name);
  Executor& executor = *other_.executor;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<InputArg> inputs;
  shapes.reserve(f.inputs.size());
  for (size_t k = 0; k < f.inputs.size(); ++k) {
    auto& shape = shapes.emplace_back();
    for (const Symbol s : f.inputs[k].shape) shape.push_back(call.binding.symbols[s]);
    inputs.push_back({f.inputs[k].dtype, shape, call.inputs[k], call.binding.input_bytes[k]});
  }
  std::vector<OutputArg> outputs(f.outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) outputs[k].data = call.outputs[k], outputs[k].capacity = call.binding.output_bytes[k];

  MLC_RETURN_IF_ERROR(states.bring_to(executor, call));
  const WorkLimits& limits = call.meter.limits();
  WorkLimits left = limits;
  if (limits.time_ns != WorkLimits::kNone) left.time_ns = limits.time_ns - std::min(limits.time_ns, call.meter.ns_used());
  const Status status = executor.run(*number, inputs, outputs, {call.meter.cancelled(), left});
  if (!call.meter.poll()) return ok();  // the caller reports why it was stopped
  MLC_RETURN_IF_ERROR(status);
  for (size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k].bytes != call.binding.output_bytes[k]) return Status(Code::Internal, "variant '{}' gives output {} of '{}' {} bytes, {} are expected", other_.name, k, f.name, outputs[k].bytes, call.binding.output_bytes[k]);
    else if (outputs[k].data != call.outputs[k] && outputs[k].bytes > 0) std::memcpy(call.outputs[k], outputs[k].data, outputs[k].bytes);
  states.keep_at(executor, call.binding.states);
  return ok();
}

}  // namespace mlc::exec
