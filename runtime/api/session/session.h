// One variant of a model, loaded, with its workers and memory. Used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/api/mlc.h"
#include "runtime/api/session/model.h"
#include "runtime/api/session/untrusted.h"
#include "runtime/plan/execute/executor.h"
#include "runtime/threads/worker_pool.h"

namespace mlc::device {
class Device;
}

namespace mlc::ensemble {
struct Part;
}

namespace mlc::api {

struct Together;

struct SessionOptions {
  std::string variant, require;
  uint32_t group = 0;  // of the programs that will be run (Model::group_of)
  unsigned threads = 0;
  WorkerPool* pool = nullptr;  // outlives the session; null: that of the process
  bool pin_caller = false;
  bool profile = false;
  // For several devices together (libmlrt-gpu); borrowed for the length of `create`. Null: nothing is said.
  const char* objective = nullptr;  // "latency", "memory" or "throughput"
  const char* placement = nullptr;  // runtime/ensemble/placement.h
  bool is_part = false;             // of such a session
  bool on_several() const { return (objective || placement) && !is_part; }
  LimitOptions limits;
  std::optional<Allocator> allocator;  // none: the system's memory
};

struct RunOptions {
  CancelFlag* cancelled = nullptr;  // null: never cancelled
  uint64_t time_ns = 0;                          // 0: what the session's options say
};

// Some segments, and where they run.
struct PlacedStage {
  std::string segments, device, variant;
  uint64_t ns = 0, copies_ns = 0;  // that it was reckoned to take, with its copies; 0: not measured
  std::string mode, why;
};

class Session {
 public:
  // Tries the candidates best first. One that cannot be loaded here is left out and named in `note`; damage or a broken
  // signature ends the attempt, because such a file must not be used at all. `model` must outlive the session.
  static Result<std::unique_ptr<Session>> create(const Model& model, const SessionOptions& options);

  const Model& model() const { return model_; }
  const format::Variant& variant() const { return model_.manifest().variants[variant_]; }
  void tell(const std::string& line) {  // once
    if (note_.find(line) == note_.npos) note_ += (note_.empty() ? "" : "; ") + line;
  }
  // Runs may add to it.
  const std::string& note() {
    if (hear_device_) hear_device_();
    return note_;
  }
  const std::string& device() const { return device_; }  // "gpu0"; empty: the processor
  // With libmlrt-gpu only: that all runs are on; null: the processor, or several.
  device::Device* device_of_runs() const;
  unsigned threads() const { return executor_->workers(); }
  WorkerPool& pool() { return *pool_; }
  // A stage of runs on several devices together. MLC_NOT_FOUND behind the last.
  int stage(uint32_t index, MlcStage* out) const;
  uint32_t num_stages() const;
  // What a profile numbers so: the executor that measured it, and the device. Nothing is known there behind the last.
  struct Profiled {
    const exec::Executor& executor;
    uint32_t function;
    uint32_t index;
    const std::string& device;
  };
  Profiled profiled(uint32_t function, uint32_t index) const;
  exec::Executor& executor() { return *executor_; }
  const exec::Executor& executor() const { return *executor_; }
  const exec::Plan& plan() const { return plan_; }
  const Allocator* allocator() const { return allocator_ ? &*allocator_ : nullptr; }  // null: the system's memory

  // Executor::run, and E6001 instead of answers from a mapped file that has changed.
  Status run(uint32_t function, std::span<const exec::InputArg> inputs, std::span<exec::OutputArg> outputs,
             const RunOptions& options = {});
  // Executor::start and wait, likewise. With libmlrt-gpu only.
  Result<bool> start(uint32_t function, std::span<const exec::InputArg> inputs, std::span<exec::OutputArg> outputs, const RunOptions& options);
  Result<bool> wait(uint64_t timeout_ns, std::span<exec::OutputArg> outputs);

  // Index in the plan of a program; null: of the model's main one. An error that names those there are.
  Result<uint32_t> function(const char* program) const;

 private:
  Session(const Model& model, uint32_t group) : model_(model), group_(group) {}
  // The best that `matcher` has left.
  static Result<std::unique_ptr<Session>> load_best(const Model& model, Matcher& matcher, const SessionOptions& options);
  // What does what a device cannot (devices.cpp): the best of the variants for processors, as far as the options allow one.
  static Result<std::unique_ptr<Session>> create_on_processor(const Model& model, SessionOptions options);
  Status load(Compatible token, const SessionOptions& options);
  Status load_plan(uint32_t num_kernels);
  Status load_on_processor(Compatible token, VerifiedBytes module, const SessionOptions& options);
  Status load_for_device(Compatible token, VerifiedBytes module, const SessionOptions& options);
  // With libmlrt-gpu only: several sessions, a variant each, that compute runs of this one together.
  Status load_together(const SessionOptions& options);
  Status load_parts(const SessionOptions& options, const std::vector<std::string>& lost, std::vector<std::shared_ptr<Session>>& sessions, std::vector<ensemble::Part>& parts);
  Result<std::shared_ptr<Together>> put_together(const SessionOptions& options, const SessionOptions& of_part, std::span<const std::shared_ptr<Session>> sessions,
                                                 std::vector<ensemble::Part>& parts);
  Result<std::shared_ptr<Together>> open_together(const SessionOptions& options);
  Result<std::shared_ptr<Together>> join_together(const SessionOptions& options);  // with others of the model, if they may
  Result<std::shared_ptr<Session>> load_part(Matcher matcher, const NamedDevice* device, const SessionOptions& options);
  Status start_on_device(const SessionOptions& options);
  Status start_part(exec::Plan plan, const SessionOptions& options);  // another plan for the variant that is loaded
  exec::Limits limits_of(const SessionOptions& options) const;
  exec::RunOptions how(const RunOptions& options) const;
  // An untrusted plan uses no service that its variant does not declare.
  Status check_declared() const;

  // The weights of the container as the executor asks for them.
  class Weights final : public exec::Constants {
   public:
    explicit Weights(const container::Container& container) : container_(container) {}
    Result<const std::byte*> acquire(uint32_t tensor, uint32_t copy) const override;
    void prepare(uint32_t tensor, uint32_t copy, uint64_t offset, uint64_t length) const override;

   private:
    const container::Container& container_;
  };

  const Model& model_;
  const uint32_t group_;
  uint32_t variant_ = 0;
  std::string note_, device_;
  std::optional<Allocator> allocator_;
  WorkerPool::Common common_pool_;  // none: the application's is used
  WorkerPool* pool_ = nullptr;
  std::unique_ptr<Weights> weights_;
  exec::Plan plan_;
  std::unique_ptr<KernelModule> module_;  // null: on a device
  std::shared_ptr<void> on_devices_;      // what libmlrt-gpu keeps (together.h)
  std::function<void()> hear_device_;     // notes what its device remarks; empty: on the processor, or on several
  bool is_together_ = false;              // on several
  std::unique_ptr<exec::Executor> executor_;  // last: it refers to all of the above
};

}  // namespace mlc::api
