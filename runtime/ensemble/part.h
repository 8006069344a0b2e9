// One of those that compute a run together: the processor, or a device, with the variant that it runs.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/plan/execute/executor.h"

namespace mlc::ensemble {

struct Part {
  std::string name;     // "cpu", "gpu0"
  std::string variant;
  std::shared_ptr<void> owner;         // of what follows
  const exec::Plan* plan = nullptr;
  exec::Executor* executor = nullptr;
  device::Device* device = nullptr;    // null: the processor

  // Whether it answers: a device that was lost does not any more.
  bool is_alive() const { return !device || device->make_recorder().ok(); }
};

}  // namespace mlc::ensemble
