// Reads the text form of plans (packager/plan/print.h).
#pragma once

#include <string_view>

#include "base/status.h"
#include "packager/plan/encode.h"

namespace mlc::plan {

// Malformed with the line if the text is not of the form. Whether the plan makes sense is for the one verifier of plans to
// say: exec::decode_plan on the bytes of it.
Result<exec::Plan> parse(std::string_view text);

}  // namespace mlc::plan
