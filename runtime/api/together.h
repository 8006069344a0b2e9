// What sessions on devices keep. Of libmlrt-gpu.
#pragma once

#include <memory>
#include <vector>

#include "runtime/api/session.h"
#include "runtime/device.h"
#include "runtime/plan/device_constants.h"

namespace mlc::api {

// Of a session on one device.
struct OnDevice {
  device::Device* device = nullptr;
  std::shared_ptr<device::Module> module;
  exec::DeviceConstants* weights = nullptr;  // the model's
};

// Of a session on several.
struct Together {
  std::vector<PlacedStage> stages;
};

}  // namespace mlc::api
