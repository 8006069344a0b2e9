// Runs that go on by themselves: begun by one function, told at the end to a function of the caller, or by run_wait to its caller.
#include <utility>

#include "base/on_exit.h"
#include "base/out_of_memory.h"
#include "base/system/clock.h"
#include "base/system/futex.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"
#include "runtime/api/table/run.h"

namespace mlc::api {
namespace {

void set_phase(MlcSession* s, Phase phase) { s->phase.store(static_cast<uint32_t>(phase), std::memory_order_release); }

void release_token(AsyncRun& run) {
  if (run.options.cancel) std::exchange(run.options.cancel, nullptr)->release();
}

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
  release_token(run);
  if (const MlcDone done = run.done) {
    void* const user = run.user;
    set_phase(s, Phase::Idle);  // from here on `run` may be another one
    done(user, code, error);
  } else {
    run.code = code;
    run.error = error;
    set_phase(s, Phase::Over);
    futex_wake(&s->phase);
  }
  // Nothing is read there any more: the thread that releases the session waits for this.
  const std::atomic<uint32_t>* const not_done = &s->not_done;
  s->not_done.fetch_sub(1, std::memory_order_acq_rel);
  futex_wake(not_done);
}

// On a thread of the library.
Status start_on_thread(MlcSession* s) {
  s->not_done.fetch_add(1, std::memory_order_relaxed);
  bool is_started = false;
  const OnExit undo([&] {
    if (!is_started) s->not_done.fetch_sub(1, std::memory_order_relaxed);
  });
  Status started = s->sessions->main().pool().runners().start(&run_and_tell, s);
  is_started = started.ok();
  return started;
}

// Whether the run is over, after this time at most.
bool is_over(MlcSession* s, uint64_t timeout_ns) {
  AsyncRun& run = s->async;
  if (run.is_on_device) {
    bool goes_on = false;
    run.code = MLC_OK;
    const bool enough = has_memory_for([&] {
      auto over = wait_for_device(s, timeout_ns);
      if (!over.ok()) run.code = fail(std::move(over).status(), &run.error);
      else goes_on = !*over;
    });
    if (!enough) run.code = fail_without_memory(&run.error);
    if (goes_on) return false;
    run.is_on_device = false;
    release_token(run);
    set_phase(s, Phase::Over);
  }
  const uint64_t begin = now_ns();
  while (s->is_in(Phase::Going)) {
    const uint64_t passed = now_ns() - begin;
    if (passed >= timeout_ns) return false;
    futex_wait(s->phase, static_cast<uint32_t>(Phase::Going), timeout_ns == kForever ? kForever : timeout_ns - passed);
  }
  return true;
}

int begin(MlcSession* s, const MlcRunOptions* o, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out, MlcDone done,
          void* user, MlcError** error) {
  auto options = read_options(o, "MlcRunOptions");
  if (!options) return fail(std::move(options).status(), error);
  auto idle = static_cast<uint32_t>(Phase::Idle);
  if (!s || !s->phase.compare_exchange_strong(idle, static_cast<uint32_t>(Phase::Going), std::memory_order_acquire)) return fail(is_idle(s), error);
  if (options->cancel) options->cancel->hold();
  AsyncRun& run = s->async;
  bool is_begun = false;
  const OnExit undo([&] {
    if (is_begun) return;
    release_token(run);
    set_phase(s, Phase::Idle);
  });
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
  if (!run.done) {
    auto submitted = start_on_device(s);
    if (!submitted) return fail(std::move(submitted).status(), error);
    run.is_on_device = is_begun = *submitted;
  }
  if (is_begun) return MLC_OK;
  Status begun = start_on_thread(s);
  is_begun = begun.ok();
  return is_begun ? int{MLC_OK} : fail(std::move(begun), error);
}

bool is_begun(const MlcSession* s) { return s && !s->is_in(Phase::Idle) && !s->async.done; }

}  // namespace

void end_runs(MlcSession* s) {
  if (is_begun(s) && is_over(s, kForever)) table::error_release(s->async.error);
  while (const uint32_t runs = s->not_done.load(std::memory_order_acquire)) futex_wait(s->not_done, runs);
}

namespace table {

int run_async(MlcSession* s, const MlcRunOptions* o, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out,
              MlcDone done, void* user, MlcError** error) {
  if (!done) return fail(Status(Code::Usage, "run_async: no function to call at the end"), error);
  return begin(s, o, in, num_in, out, num_out, done, user, error);
}

int run_start(MlcSession* s, const MlcRunOptions* o, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out, MlcError** error) {
  return begin(s, o, in, num_in, out, num_out, nullptr, nullptr, error);
}

int run_wait(MlcSession* s, uint64_t timeout_ns, MlcError** error) {
  if (!is_begun(s)) return fail(Status(Code::Usage, "run_wait: no run was begun by run_start"), error);
  if (!is_over(s, timeout_ns)) return MLC_NO;
  AsyncRun& run = s->async;
  MlcError* const why = std::exchange(run.error, nullptr);
  if (error) *error = why;
  else error_release(why);
  const int code = run.code;
  set_phase(s, Phase::Idle);
  return code;
}

int run_done(MlcSession* s) { return !is_begun(s) || is_over(s, 0); }

}  // namespace table
}  // namespace mlc::api
