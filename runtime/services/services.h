// The services that mlrun offers to models: what to put into MlcOpenOptions. What each does is in spec/services.md.
#pragma once

#include <span>

#include "runtime/api/mlc.h"

namespace mlc::services {

// Valid for the length of the process; may be called by several threads.
std::span<const MlcService> all();

}  // namespace mlc::services
