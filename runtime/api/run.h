// One run with tensors of the caller, for `run` and `run_async`.
#pragma once

#include "runtime/api/handles.h"

namespace mlc::api {

// `options` are whole: what read_options made of the caller's. Usage where session or tensors are missing.
Status run_tensors(MlcSession* session, const MlcRunOptions& options, const MlcTensor* inputs, uint32_t num_inputs,
                   MlcTensor* outputs, uint32_t num_outputs);

Status goes_on();  // why a session cannot be run now

}  // namespace mlc::api
