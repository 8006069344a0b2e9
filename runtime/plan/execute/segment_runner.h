// Executes the segments of a plan: the workers of this process (worker_runner.h), a device (device_runner.h) or several of both. The
// executor checks arguments, binds shapes and runs programs; values between calls are on the host.
#pragma once

#include <functional>
#include <span>

#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/plan/execute/binding.h"

namespace mlc::exec {

// A run of a bound segment: everything of the host that it reads and writes.
struct SegmentCall {
  uint32_t number = 0;               // of the function in its plan
  const Function& function;
  Executor::Binding& binding;        // `placed`, `pointers`, `generation` and `pace` are the runner's
  std::span<void* const> inputs, outputs;  // of each port, as long as the binding says; null: on the device, or of no bytes
  std::span<const InputArg> input_args;    // which say where on the device; outputs may be fewer than there are
  std::span<const OutputArg> output_args;
  std::span<AlignedBlock> states;    // on the host, counted by the session's memory; without data: zeros, or what the runner keeps
  Code broken_code;                  // of a fault that is the code's (Limits::broken_code)
  WorkMeter& meter;                  // whether the run was stopped is asked by the executor, whatever the runner answers
  Executor::Moments* moments = nullptr;  // of each instruction, if they are measured: of range 0, then of range 1, as many as workers
  const std::function<size_t(size_t)>* order = nullptr;  // see Executor::set_order; null: none
};

// What the executor does differently for runners. The values are those of devices.
struct RunnerTraits {
  // How many share the tiles of a launch: bindings are cut for them.
  unsigned workers = 1;
  // False: kernels are given the arrays of a call themselves, so these are aligned and end where Limits::confine_loads lets them.
  bool takes_any_memory = true;
  // True: after a call it has the newest states that the call uses, and the host's are released. False: states are always on the host.
  bool keeps_states = true;
};

// The halves of `run`, for callers that work meanwhile: see Executor::start.
class StartingRunner {
 public:
  virtual Result<bool> start(const SegmentCall& call) = 0;
  virtual Result<bool> wait(const SegmentCall& call, uint64_t timeout_ns) = 0;

 protected:
  ~StartingRunner() = default;
};

class SegmentRunner {
 public:
  explicit SegmentRunner(const RunnerTraits& traits = {}) : traits(traits) {}
  virtual ~SegmentRunner() = default;
  const RunnerTraits traits;

  virtual const KernelSet& kernels() const = 0;
  // Scratch that this kernel wants of each worker, beside what the plan says.
  virtual uint64_t scratch_bytes(uint32_t /*kernel*/) const { return 0; }
  // Before the first call that reads derived constants: `compute(executor)` makes the call of the function that derives them. OK if the
  // meter ended it before.
  using Compute = Status (*)(void* executor);
  virtual Status derive(WorkMeter& /*meter*/, Compute compute, void* executor) { return compute(executor); }
  // A state that no call has used is zeros. On OK the runner has what it keeps; on error states are unchanged, or unknown if the device is lost.
  virtual Status run(const SegmentCall& call) = 0;
  virtual uint64_t arena_bytes() const = 0;
  // This runner, where calls can be begun without waiting for them; null: they cannot.
  virtual StartingRunner* starting() { return nullptr; }

  // Of states that it keeps.
  virtual uint64_t state_bytes(uint32_t /*state*/) const { return 0; }           // 0: it has none
  virtual Result<Bytes> read_state(uint32_t /*state*/) { return Bytes(); }       // all of them; valid until something else is called
  virtual void drop_state(uint32_t /*state*/) {}                                 // it has none from now on
};

// Of a kernel that failed, at an instruction of the function. Of an index outside of its array the inputs of integers are named that the
// launch reads.
Status fault_status(int32_t fault, const Function& function, uint32_t instr, Code broken_code);

}  // namespace mlc::exec
