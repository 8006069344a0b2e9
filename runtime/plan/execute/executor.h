// Runs the functions of a plan: checks arguments, binds shapes, runs programs, and has a runner (segment_runner.h) execute segments.
//
// One executor belongs to one session and is used by one thread at a time. That a run is cancelled is seen within 100 ms
// inside portable kernels and steps of programs, and between launches of native ones. It owns the runner with its memory,
// the states and those outputs for which the caller brings no memory; plan, module, constants and pool must outlive it. Everything that depends on the shapes is computed once per set of input shapes and kept for the
// last few sets, so that a run with known shapes allocates nothing.
//
// What is safe whatever the plan says: no access outside of a buffer's memory by copies, no launch with a
// buffer that reaches beyond the arena, a tensor, an input or an output. What kernels do inside their buffers is theirs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/loader.h"
#include "runtime/memory/aligned_block.h"
#include "runtime/plan/execute/session_memory.h"
#include "runtime/threads/team.h"
#include "schema/plan/plan.h"

namespace mlc::device {
struct Range;
}

namespace mlc::exec {

// The tensors of the container. Called from several workers at once.
class Constants {
 public:
  virtual ~Constants() = default;
  // The verified bytes of a copy, 64-byte aligned and readable to the next multiple of 64.
  virtual Result<const std::byte*> acquire(uint32_t tensor, uint32_t copy) const = 0;
  // A hint that these bytes of a copy will be acquired: does that part of the work, unless another thread does it already,
  // and does not wait. Failures are reported by `acquire`.
  virtual void prepare(uint32_t /*tensor*/, uint32_t /*copy*/, uint64_t /*offset*/, uint64_t /*length*/) const {}
};

// An element of an array of strings, as inputs bring and outputs give them. Any bytes; meant to be UTF-8.
struct Text {
  const char* data = nullptr;
  uint64_t bytes = 0;
};

// An input: borrowed for the length of a run. Copied only if it is not 64-byte aligned, or where loads are confined.
struct InputArg {
  DType dtype = DType::None;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  uint64_t bytes = 0;  // at least what dtype and shape make; a string counts as a Text, which `data` has then
  // A list of arrays, or of such lists: list_depth not 0. Nothing of the above is looked at then.
  std::span<const InputArg> items = {};
  uint8_t list_depth = 0;
  // Where it is stored in memory of the device that the function runs on, instead of `data`: of segments alone, and of inputs that shapes
  // do not depend on. Null: it does not.
  const device::Range* on_device = nullptr;
};

// An output. `data` null: the executor's memory is used and valid until the next run or the end of the executor. Lists
// and what strings (arrays of Text) point to always are in the executor's memory.
struct OutputArg {
  void* data = nullptr;
  uint64_t capacity = 0;
  // Filled by run:
  DType dtype = DType::None;
  std::span<const int64_t> shape;  // valid as `data` is, but until the next run at most
  uint64_t bytes = 0;
  std::span<const OutputArg> items = {};  // of a list; valid until the next run
  uint8_t list_depth = 0;
  const device::Range* on_device = nullptr;  // where it goes instead of `data`: as of inputs
};

// What a session may hold and one run may do. Beyond it a run ends: E6006 memory (Resource), E6004 time (Cancelled), E6005
// work or steps (Resource).
struct Limits {
  static constexpr uint64_t kMostSteps = uint64_t{1} << 36;  // days of the shortest steps that there are

  // Of arena, scratch, states, outputs, copies of inputs and values of programs together.
  uint64_t max_memory_bytes = uint64_t{1} << 46;
  uint64_t max_steps = kMostSteps;  // of programs in one run, iterations of loops included
  WorkLimits work;                  // of one run: kernels and programs together
  // Kernels may read on to the end of a line of 64 bytes. Of an array that ends within one they see a copy with zeros
  // behind it then, never what lies behind it in the caller's memory; and nothing of what an output held before.
  bool confine_loads = false;
  // Whose mistake it is when a kernel breaks the rules of kernels: ours, or that of an untrusted file.
  Code broken_code = Code::Internal;
  const Allocator* allocator = nullptr;  // for all that max_memory_bytes counts but heap; outlives the executor; null: the system
};
// Of one run.
struct RunOptions {
  CancelFlag* cancelled = nullptr;  // ends the run when it is set; null: never cancelled
  std::optional<WorkLimits> work;                // instead of the session's
};
struct SegmentCall;
class SegmentRunner;
struct DerivedConstants;
struct Service;

// Null if there is none of this name.
const Service* find_service(std::span<const Service> services, std::string_view name);

class Executor {
 public:
  // `services` (service.h) outlive the executor. NoVariant if the plan needs one that is not among them. `derived` (derived.h):
  // shared by executors of this plan and this module, with these constants; null: this one computes its own.
  static Result<std::unique_ptr<Executor>> create(const Plan& plan, const KernelModule& module,
                                                  const Constants& constants, const TeamOptions& team, const Limits& limits,
                                                  std::span<const Service> services = {},
                                                  std::shared_ptr<DerivedConstants> derived = nullptr);
  // As above, with another runner than this process' workers.
  static Result<std::unique_ptr<Executor>> create(const Plan& plan, std::unique_ptr<SegmentRunner> runner, const TeamOptions& team,
                                                  const Limits& limits, std::span<const Service> services = {});
  ~Executor();
  Executor(const Executor&) = delete;

  // `function` indexes plan.functions: a segment, or a program (program.h). As many inputs as it has, in order; outputs may be fewer (the rest is computed
  // and dropped). InputMismatch (all inputs that do not fit), Resource, Internal (a kernel faulted), Cancelled; a limit
  // that was reached is named.
  Status run(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs, const RunOptions& options = {});

  // The halves of `run`, for segments on a device (executor_start.cpp, which libmlrt has not). `start` begins a run and returns; false:
  // it began nothing, and `run` does it. What it was given stays, and nothing else is called, until `wait` has answered true or
  // an error. False: it goes on after so long.
  Result<bool> start(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs, const RunOptions& options = {});
  Result<bool> wait(uint64_t timeout_ns, std::span<OutputArg> outputs);

  // The shapes of all outputs for these inputs, without running. Their data is looked at only where shapes depend on
  // it. Unsupported for programs: there only a run determines it.
  Status infer(uint32_t function, std::span<const InputArg> inputs, std::vector<std::vector<int64_t>>& shapes);

  void reset_states();  // to zeros, of whatever length the next run wants
  uint32_t num_states() const { return static_cast<uint32_t>(states_.size()); }
  DType state_type(uint32_t index) const;
  uint64_t state_bytes(uint32_t index) const;  // 0: no run has used it, and a run will find zeros
  // Valid until the next run or set_states. What a device answers where it lies there.
  Result<Bytes> state(uint32_t index);
  // To these bytes, which are copied; of none: to zeros; no value: as they are. Resource, and all are what they were. A run that
  // wants one of another length fails.
  Status set_states(std::span<const std::optional<Bytes>> values);

  // Counts memory of the executor's user against what its session may hold. Resource, E6006.
  Status charge(std::string_view what, uint64_t bytes, Charge& out);
  // What it holds and may hold. The limit may be changed between runs, to no less than is held.
  MemoryBudget& budget() { return memory_.budget; }

  unsigned workers() const { return team_.workers(); }
  const KernelSet& kernels() const;
  uint64_t arena_bytes() const;

  // What each instruction of the functions run so far took; for a program those of all segments. Off by default.
  void set_profiling(bool on) { profiling_ = on; }
  static constexpr uint64_t kNotKnown = UINT64_MAX;
  // What an instruction does for the shapes of the last run, as the plan says, and how it was cut among the workers.
  struct Figures {
    uint64_t operations = kNotKnown, read = kNotKnown, written = kNotKnown;  // bytes
    bool of_bytes = false;     // mostly products of 8 bits
    uint32_t workers = 0;      // that took part
    uint64_t tiles = 0;
    uint32_t num_cuts = 0;
    std::array<uint64_t, kMaxCuts> units{}, chunks{};  // of each cut
  };
  struct ProfileEntry {
    std::string_view name, function;
    uint64_t ns = 0;         // of all runs together: in range 0 (ranges.h), with what it waits for then
    uint64_t runs = 0;
    uint64_t waited_ns = 0;  // of all runs and ranges together: for others, each with its own part done
    InstrOp op = InstrOp::None;
    uint32_t kernel = 0;
    Figures figures;
  };
  // Instructions of a segment that are known; 0: no run has been measured.
  uint64_t profile_size(uint32_t segment) const;
  // Nothing behind the last.
  std::optional<ProfileEntry> profile(uint32_t function, uint64_t index) const;
  // A range at an instruction of the last run, on the clock of now_ns; there are as many as workers. All 0: it had no part in it.
  struct Moments {
    uint64_t begin = 0, done = 0, left = 0;  // its part is done; it goes on to the next one
  };
  // Nothing behind the last instruction and the last worker.
  std::optional<Moments> moments(uint32_t function, uint64_t index, unsigned worker) const;

  // For tests, of workers: one thread executes what all of them would, in an order that `choose` makes (Ranges::in_order). Null: off.
  void set_order(std::function<size_t(size_t)> choose) { order_ = std::move(choose); }

  struct Binding;  // internal, see binding.h

 private:
  friend class ProgramRunner;
  struct FunctionState;
  struct Profiled;  // an instruction of a segment
  std::optional<Profiled> find_profiled(uint32_t function, uint64_t index) const;
  struct Run;
  Executor(const Plan& plan, const TeamOptions& team, const Limits& limits);
  // Whether all that the plan asks for is there.
  Status check_plan(std::span<const Service> services);

  Status run_with_team(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs);
  Status run_function(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs);
  Status check_call(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) const;
  Status why_stopped() const;  // of a run that the meter ended
  Status with_memory_used(Status status) const;  // E6006, where memory was not enough
  Status check_arguments(const Function& f, std::span<const InputArg> inputs) const;
  Status check_lists(const Function& f, std::span<const InputArg> inputs) const;  // of a program, behind the above
  Status read_elements(const Function& f, std::span<const InputArg> inputs);
  Result<Binding*> bind(uint32_t function, std::span<const InputArg> inputs);
  Status room_for_binding(uint32_t function, std::unique_ptr<Binding>& out);
  Status fill_binding(uint32_t function, std::span<const InputArg> inputs, Binding& out);
  // Arguments are checked, and `binding` is theirs. `values`: they are values of a program, whose memory is the session's.
  Status run_segment(uint32_t function, Binding& binding, std::span<const InputArg> inputs, std::span<OutputArg> outputs,
                     bool values = false);
  Status place_arguments(uint32_t function, Binding& binding, std::span<const InputArg> inputs, std::span<OutputArg> outputs, bool values);
  void give_outputs(uint32_t function, const Binding& binding, std::span<OutputArg> outputs) const;
  SegmentCall call_of(uint32_t function, Binding& binding);
  Status execute(uint32_t function, Binding& binding);  // arguments have their places
  void release_states(const Binding& binding);  // the runner has newer ones, if it keeps any
  // Whether kernels may be given this memory of the caller as it is.
  bool may_lend(const void* data, uint64_t bytes) const {
    return data && reinterpret_cast<uintptr_t>(data) % 64 == 0 && (!limits_.confine_loads || bytes % 64 == 0);
  }
  // Before the first run that reads them: all derived constants are there.
  Status derive_constants();
  static Status compute_derived(void* executor);
  Status check_kernels(uint32_t function);

  const Plan& plan_;
  Team team_;
  const Limits limits_;
  std::span<const Service> services_;
  SessionMemory memory_;  // of all that follows together, which is gone before it
  std::unique_ptr<SegmentRunner> runner_;  // never null; of the bindings of functions_
  bool is_derived_ = false;
  std::vector<AlignedBlock> states_;  // as SegmentCall has them
  std::vector<FunctionState> functions_;
  std::unique_ptr<ProgramRunner> programs_;     // null if the plan has none
  std::vector<int64_t> elements_;               // of the inputs of the function that is being bound
  WorkMeter meter_;  // of the run
  bool profiling_ = false;
  std::pair<uint32_t, Binding*> started_{};  // function and binding of the run that `start` began
  std::function<size_t(size_t)> order_;  // null: none
};

}  // namespace mlc::exec
