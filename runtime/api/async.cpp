#include <utility>

#include "base/futex.h"
#include "base/on_exit.h"
#include "base/out_of_memory.h"
#include "runtime/api/run.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"

namespace mlc::api {
namespace {

void run_and_tell(void* session) {
  auto* const s = static_cast<MlcSession*>(session);
  AsyncRun& run = s->async;
  MlcError* error = nullptr;
  int code = MLC_OK;
  const bool enough = has_memory_for([&] {
    Status status = run_tensors(s, run.options, run.inputs, run.num_inputs, run.outputs, run.num_outputs);
    if (!status.ok()) code = fail(std::move(status), &error);
  });
  if (!enough) code = fail_without_memory(&error);
  if (run.options.cancel) run.options.cancel->release();
  const MlcDone done = run.done;
  void* const user = run.user;
  s->is_running.store(false, std::memory_order_release);  // from here on `run` may be another one
  done(user, code, error);
  // Nothing is read there any more: who releases the session waits for this.
  const std::atomic<uint32_t>* const not_done = &s->not_done;
  s->not_done.fetch_sub(1, std::memory_order_acq_rel);
  futex_wake(not_done);
}

}  // namespace

namespace table {

int run_async(MlcSession* s, const MlcRunOptions* o, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out,
              MlcDone done, void* user, MlcError** error) {
  if (!s || !done) return fail(Status(Code::Usage, "run_async: no session, or no function to call at the end"), error);
  auto options = read_options(o, "MlcRunOptions");
  if (!options) return fail(std::move(options).status(), error);
  if (s->is_running.exchange(true, std::memory_order_acquire)) return fail(goes_on(), error);
  if (options->cancel) options->cancel->hold();
  s->not_done.fetch_add(1, std::memory_order_relaxed);
  bool is_started = false;
  const OnExit undo([&] {
    if (is_started) return;
    if (options->cancel) options->cancel->release();
    s->not_done.fetch_sub(1, std::memory_order_relaxed);
    s->is_running.store(false, std::memory_order_release);
  });
  AsyncRun& run = s->async;
  run.options = *options;
  if (options->program) {
    run.program = options->program;
    run.options.program = run.program.c_str();
  }
  run.inputs = in;
  run.num_inputs = num_in;
  run.outputs = out;
  run.num_outputs = num_out;
  run.done = done;
  run.user = user;
  Status started = s->session->pool().runners().start(&run_and_tell, s);
  is_started = started.ok();
  return is_started ? int{MLC_OK} : fail(std::move(started), error);
}

}  // namespace table
}  // namespace mlc::api
