// Runs on a device that are waited for only when their end is asked for. Of mlc_plan_device.
#include <utility>

#include "runtime/plan/execute/binding.h"
#include "runtime/plan/execute/segment_runner.h"

namespace mlc::exec {

Result<bool> Executor::start(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs, const RunOptions& options) {
  StartingRunner* const runner = runner_->starting();
  if (!runner || profiling_ || plan_.functions[function].is_program()) return false;
  meter_.start(options.work.value_or(limits_.work), options.cancelled);
  if (!meter_.poll()) return with_memory_used(why_stopped());
  MLC_RETURN_IF_ERROR(check_call(function, inputs, outputs));
  auto binding = bind(function, inputs);
  if (!binding.ok()) return with_memory_used(std::move(binding).status());
  MLC_RETURN_IF_ERROR(with_memory_used(place_arguments(function, **binding, inputs, outputs, false)));
  auto begun = runner->start(call_of(function, **binding));
  if (!begun.ok()) return with_memory_used(std::move(begun).status());
  started_ = {function, *binding};
  return *begun;
}

Result<bool> Executor::wait(uint64_t timeout_ns, std::span<OutputArg> outputs) {
  const auto [function, binding] = started_;
  auto over = runner_->starting()->wait(call_of(function, *binding), timeout_ns);
  if (over.ok() && !*over) return false;
  MLC_RETURN_IF_ERROR(with_memory_used(why_stopped()));
  if (!over.ok()) return with_memory_used(std::move(over).status());
  release_states(*binding);
  give_outputs(function, *binding, outputs);
  return true;
}

}  // namespace mlc::exec
