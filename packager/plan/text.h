// Reads the text form of plans (packager/plan/print.h), and writes what was read as a segment.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/plan/plan.h"

namespace mlc::plan {

// Malformed with the line if the text is not of the form. Whether the plan makes sense is for the one verifier of plans to
// say: exec::decode_plan on the bytes of it.
Result<exec::Plan> parse(std::string_view text);

// The bytes of a plan segment.
std::vector<std::byte> encode(const exec::Plan& plan);

}  // namespace mlc::plan
