// Who executes the segments of a plan in place of this process' workers: a device (device_runner.h). The executor checks
// arguments, binds shapes, keeps states and runs programs as it does for workers; values between calls lie on the host.
#pragma once

#include <span>

#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/plan/binding.h"

namespace mlc::exec {

// A run of a bound segment: everything of the host that it reads and writes.
struct SegmentCall {
  uint32_t number = 0;               // of the function in its plan
  const Function& function;
  Executor::Binding& binding;        // `placed` is the runner's
  std::span<void* const> inputs, outputs;  // of each port, as long as the binding says
  std::span<const AlignedBlock> states;    // as long as the binding says; read and written
  Code broken_code;                  // of a fault that is the code's (Limits::broken_code)
  WorkMeter& meter;                  // whether the run was stopped is asked by the executor
  Executor::Moments* moments = nullptr;  // of each instruction, if they are measured
};

class SegmentRunner {
 public:
  virtual ~SegmentRunner() = default;
  virtual const KernelSet& kernels() const = 0;
  // Derived constants of its plan are computed by a call of the function that derives them, before the first call that
  // reads them.
  virtual Status run(const SegmentCall& call) = 0;
  virtual uint64_t arena_bytes() const = 0;
};

}  // namespace mlc::exec
