// A device variant without a device: its plan is run as a processor's is, the instructions of its module by an executor.
#pragma once

#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"

namespace mlc::conformance {

// Runs the program "main" by this plan and this module of SPIR-V or PTX; constants are those of `container`, which has the portable variant
// beside. `subgroup`: lanes of one, of SPIR-V.
Result<std::vector<nest::Tensor>> execute_images(Bytes container, Bytes plan, Bytes module, const std::vector<nest::Tensor>& inputs, uint32_t subgroup);

}  // namespace mlc::conformance
