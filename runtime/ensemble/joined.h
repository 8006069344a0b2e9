// Neighbouring segments as one: what they pass to each other stays in the arena of the runner, and a device makes one
// recording of them.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "schema/plan/plan.h"

namespace mlc::ensemble {

// A segment that does what steps first .. end - 1 of a program do, calls of segments all of them. Its inputs and outputs are the
// values below, in this order.
struct Joined {
  exec::Function function;
  std::vector<uint32_t> inputs, outputs;
};
// Unsupported where a segment reads extents from elements that another one of them computes.
Result<Joined> joined(const exec::Plan& plan, const exec::Function& program, size_t first, size_t end, std::string name);

}  // namespace mlc::ensemble
