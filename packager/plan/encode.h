// The one writer of plan segments: from checked values (schema/plan/plan.h) to the bytes of schema/plan.fbs.
#pragma once

#include <cstddef>
#include <vector>

#include "schema/plan/plan.h"

namespace mlc::plan {

// The bytes of a plan segment. Equal plans give equal bytes. What decode_plan makes of other fields is not written. Whether the plan
// makes sense is for exec::decode_plan on these bytes to say.
std::vector<std::byte> encode(const exec::Plan& plan);

}  // namespace mlc::plan
