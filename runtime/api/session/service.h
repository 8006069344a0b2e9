// Services of the application, from the C table to what plans call.
#pragma once

#include "runtime/api/mlc.h"
#include "runtime/plan/execute/service.h"

namespace mlc::api {

// `service.name` is copied.
exec::Service service_of(const MlcService& service);

}  // namespace mlc::api
