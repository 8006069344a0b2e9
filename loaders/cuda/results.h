// What a call of CUDA answered, as a Status.
#pragma once

#include <string_view>

#include "base/status.h"
#include "loaders/cuda/cuda_abi.h"

namespace mlc::cuda {

// "CUDA_ERROR_ILLEGAL_ADDRESS"; of a number that is not known, "unknown".
std::string_view name_of_code(Code32 code);

// The context does not survive it: every later call answers the same.
bool is_sticky(Code32 code);

// OK for 0 and nothing else. Resource where memory or the device is lacking; Unsupported for all other codes: another
// variant may do.
Status status_of(Code32 code, const char* call);

}  // namespace mlc::cuda
