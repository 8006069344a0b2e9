// Runs the program "main" of a container as mlrun does: verified, matched against this host, loaded, executed.
#pragma once

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"
#include "runtime/api/session/devices.h"
#include "runtime/loader.h"

namespace mlc::conformance {

// What runs instead of the plan and the code of a variant, with the constants of its container.
struct Instead {
  Bytes plan;
  const KernelModule* module = nullptr;  // null: nothing does
};

// `container` may be unsigned. One worker. `inputs` in the order of the program's interface.
Result<std::vector<nest::Tensor>> execute(Bytes container, const std::string& variant, const std::vector<nest::Tensor>& inputs, const Instead& instead = {});

struct OnDevice {
  std::vector<nest::Tensor> results;
  bool has_kernels = false;  // the plan launches some: else steps of the host and copies are all there is
};
// The same on a device: `variant` is one for devices of `choice`. An error where it does not run there.
Result<OnDevice> execute_on(const api::DeviceChoice& choice, Bytes container, const std::string& variant, const std::vector<nest::Tensor>& inputs);

}  // namespace mlc::conformance
