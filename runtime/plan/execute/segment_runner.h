// Executes the segments of a plan in place of this process' workers: a device (device_runner.h). The executor checks
// arguments, binds shapes and runs programs as it does for workers; values between calls are on the host. States lie where the runner
// has its memory, from the first call that uses them on.
#pragma once

#include <span>

#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/plan/execute/binding.h"

namespace mlc::exec {

// A run of a bound segment: everything of the host that it reads and writes.
struct SegmentCall {
  uint32_t number = 0;               // of the function in its plan
  const Function& function;
  Executor::Binding& binding;        // `placed` is the runner's
  std::span<void* const> inputs, outputs;  // of each port, as long as the binding says; null: on the device, or of no bytes
  std::span<const InputArg> input_args;    // which say where on the device; outputs may be fewer than there are
  std::span<const OutputArg> output_args;
  std::span<const AlignedBlock> states;    // newer values than those that the runner has, to begin with; without data: none
  Code broken_code;                  // of a fault that is the code's (Limits::broken_code)
  WorkMeter& meter;                  // whether the run was stopped is asked by the executor
  Executor::Moments* moments = nullptr;  // of each instruction, if they are measured
};

class SegmentRunner {
 public:
  virtual ~SegmentRunner() = default;
  virtual const KernelSet& kernels() const = 0;
  // A state that no call has used is zeros. On OK the runner owns the states of the call; on error they are unchanged, or unknown if the device is lost.
  // Derived constants of its plan are computed by a call of the function that derives them, before the first call that
  // reads them.
  virtual Status run(const SegmentCall& call) = 0;
  virtual uint64_t arena_bytes() const = 0;

  // The halves of `run`, for callers that work meanwhile: see Executor::start.
  virtual Result<bool> start(const SegmentCall& /*call*/) { return false; }
  virtual Result<bool> wait(const SegmentCall& /*call*/, uint64_t /*timeout_ns*/) { return true; }

  virtual uint64_t state_bytes(uint32_t state) const = 0;               // 0: it has none
  virtual Result<Bytes> read_state(uint32_t state) = 0;                 // all of them; valid until something else is called
  virtual void drop_state(uint32_t state) = 0;                          // it has none from now on
};

}  // namespace mlc::exec
