// Runs that a device does while no thread waits for it. Of libmlrt-gpu.
#include "runtime/api/table/run.h"

namespace mlc::api {

Result<bool> start_on_device(MlcSession* s) {
  AsyncRun& run = s->async;
  if (s->sessions->of(run.options.program).device().empty()) return false;
  MLC_ASSIGN(run.function, bind_tensors(s, run.options, run.inputs, run.num_inputs, run.outputs, run.num_outputs));
  if (has_copied_places(s)) return false;
  CancelFlag* const cancelled = run.options.cancel ? &run.options.cancel->cancelled : nullptr;
  return s->session->start(run.function, s->inputs, s->outputs, {cancelled, run.options.time_limit_ns});
}

Result<bool> wait_for_device(MlcSession* s, uint64_t timeout_ns) {
  MLC_ASSIGN(const bool over, s->session->wait(timeout_ns, s->outputs));
  if (over) MLC_RETURN_IF_ERROR(show_outputs(s, s->async.function, s->async.outputs, s->async.num_outputs));
  return over;
}

Result<bool> Session::start(uint32_t function, std::span<const exec::InputArg> inputs, std::span<exec::OutputArg> outputs, const RunOptions& options) {
  MLC_RETURN_IF_ERROR(model_.container().unchanged());
  return executor_->start(function, inputs, outputs, how(options));
}

Result<bool> Session::wait(uint64_t timeout_ns, std::span<exec::OutputArg> outputs) {
  MLC_ASSIGN(const bool over, executor_->wait(timeout_ns, outputs));
  if (over) MLC_RETURN_IF_ERROR(model_.container().unchanged());
  return over;
}

}  // namespace mlc::api
