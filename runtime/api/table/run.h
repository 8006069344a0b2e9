// One run with tensors of the caller, for `run` and those that go on by themselves.
#pragma once

#include "runtime/api/session/handles.h"

namespace mlc::api {

// `options` are whole: what read_options made of the caller's. Usage where session or tensors are missing.
Status run_tensors(MlcSession* session, const MlcRunOptions& options, const MlcTensor* inputs, uint32_t num_inputs,
                   MlcTensor* outputs, uint32_t num_outputs);
// Its first and last part: binds the tensors to the ports of a function, and shows what a run of it gave.
Result<uint32_t> bind_tensors(MlcSession* session, const MlcRunOptions& options, const MlcTensor* inputs, uint32_t num_inputs,
                              const MlcTensor* outputs, uint32_t num_outputs);
Status show_outputs(MlcSession* session, uint32_t function, MlcTensor* outputs, uint32_t num_outputs);

void end_runs(MlcSession* session);  // waits for all that goes on
Status is_idle(const MlcSession* session);  // Usage where a run of it goes on, or there is none

// Runs on devices without a thread; of libmlrt-gpu, libmlrt answers false. Of the session's `async`, which is filled: whether it was
// submitted. And whether it is over, after this time at most.
Result<bool> start_on_device(MlcSession* session);
Result<bool> wait_for_device(MlcSession* session, uint64_t timeout_ns);

// Arrays in memory that the application holds (places.cpp); of libmlrt-gpu, libmlrt says that there is none. Of one run: `clear_places`
// before its tensors are bound, `place_tensor` for each that names memory, of `in` or of `out`, `settle_places` behind it.
void clear_places(MlcSession* session);
Status place_tensor(MlcSession* session, const MlcTensor& tensor, uint32_t function, uint32_t port, exec::InputArg* in, exec::OutputArg* out);
Status settle_places(MlcSession* session);
bool has_copied_places(const MlcSession* session);

}  // namespace mlc::api
