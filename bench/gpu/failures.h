// Errors that a device or its driver must answer, made on purpose.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "bench/gpu/bed.h"

namespace mlc::bench {

// `kind`: "image", "memory" or "lost". Adds `answers` (what was said) and, where the kind cannot be made here, `skipped`.
// An error if something was not answered as the loaders' contract says (runtime/device.h).
Status fail_on_purpose(Bed& bed, const std::string& kind, nlohmann::ordered_json& out);

}  // namespace mlc::bench
