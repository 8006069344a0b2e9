// One request of Triton: its arrays to the library, the answers back.
#pragma once

#include "base/status.h"
#include "bindings/triton/model.h"
#include "bindings/triton/sequences.h"
#include "bindings/triton/triton_api.h"

namespace mlc::triton {

struct Moments {
  uint64_t compute_begin = 0, compute_end = 0;
};

// The response gets the outputs that were asked for; sending it is the caller's. State that a model keeps between runs is that of the request's
// sequence, and begins anew with each request where the model has none.
[[nodiscard]] Status answer(const Model& model, MlcSession* session, Sequences& sequences, TRITONBACKEND_Request* request, TRITONBACKEND_Response* response, Moments& moments);

// An error of Triton as a status; it is released.
[[nodiscard]] Status from_triton(TRITONSERVER_Error* error);
// The reverse; the caller's, null where it went well.
[[nodiscard]] TRITONSERVER_Error* to_triton(const Status& status);

[[nodiscard]] uint64_t now_ns();

}  // namespace mlc::triton
