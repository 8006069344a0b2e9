// Executes what a device cannot: another variant of the same container, on the processor. Variants have the same functions and the
// same states, and what passes between calls is on the host, so a call is done there as if it had not begun on the device. States that
// it uses go along.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/status.h"
#include "runtime/plan/device/device_states.h"
#include "runtime/plan/execute/segment_runner.h"
#include "schema/plan/plan.h"

namespace mlc::exec {

// Of one session, which it lives no longer than.
class Substitute {
 public:
  struct Other {
    const Plan* plan = nullptr;
    Executor* executor = nullptr;  // on the processor
    std::string name;              // of the variant
  };
  // `open` is asked once, when the first call needs it: why there is none (the caller forbids it), or one that lives as long as this.
  // `tell`: a line for people, the first time for each function, and once where all of them go the same way.
  Substitute(std::function<Result<Other>()> open, std::function<void(std::string line)> tell) : open_(std::move(open)), tell_(std::move(tell)) {}

  // `states`: the device's. `why`: what it said; `for_all`: it says so of every call. The code is that of the run, or of `open` with both reasons.
  Status run(const SegmentCall& call, DeviceStates& states, const Status& why, bool for_all);

 private:
  Status run_other(const SegmentCall& call, DeviceStates& states);

  const std::function<Result<Other>()> open_;
  const std::function<void(std::string)> tell_;
  bool asked_ = false;
  Status refused_;
  Other other_;
  std::set<std::string> told_;  // names of functions; "" for all
};

}  // namespace mlc::exec
