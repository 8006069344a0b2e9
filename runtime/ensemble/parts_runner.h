// Runs each segment of a composed plan on the part that it has its place on. What passes between segments lies on the host, as
// values of programs do, so a part that reads what another one wrote copies it from there.
//
// What a device cannot do, and everything once it is lost, runs on the first part that can from then on: all of them have the
// code of all segments.
//
// A part has an executor of its own, with its own arena, bindings, derived constants and states: a state stays with the part that used it
// last, and is brought to another one that needs it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ensemble/part.h"
#include "runtime/plan/segment_runner.h"
#include "runtime/threads/worker_pool.h"

namespace mlc::ensemble {

class PartsRunner final : public exec::SegmentRunner {
 public:
  // `place`: the part of each function of the plan, which is composed of that of the first part.
  // `tell`: a line for people whenever a function moves.
  static Result<std::unique_ptr<PartsRunner>> create(std::vector<Part> parts, std::vector<uint32_t> place, std::function<void(const std::string&)> tell);

  // For the executor of the composed plan, which works on the thread of its caller: that thread counts as a worker of the part
  // that it waits for, and not here as well.
  WorkerPool& pool() { return *pool_; }

  const KernelSet& kernels() const override { return parts_.front().executor->kernels(); }
  Status run(const exec::SegmentCall& call) override;
  uint64_t arena_bytes() const override;
  uint64_t state_bytes(uint32_t state) const override;
  Result<Bytes> read_state(uint32_t state) override { return homes_[state]->state(state); }
  void drop_state(uint32_t state) override { homes_[state] = nullptr; }

 private:
  PartsRunner(std::vector<Part> parts, std::vector<uint32_t> place, std::unique_ptr<WorkerPool> pool,
              std::function<void(const std::string&)> tell);
  Status run_on(const Part& part, const exec::SegmentCall& call);
  // Away from a part that did not do it, for `why`; false: nobody else is there.
  bool move(const exec::SegmentCall& call, const Status& why);
  Status bring_states(const exec::SegmentCall& call, const Part& to) const;

  const std::unique_ptr<WorkerPool> pool_;
  const std::vector<Part> parts_;
  std::vector<uint32_t> place_;
  std::vector<exec::Executor*> homes_;  // of each state: who has it; null: it is zeros
  const std::function<void(const std::string&)> tell_;
  std::vector<uint8_t> tried_;  // parts that did not do the call
  std::vector<exec::InputArg> inputs_;    // of the call, kept for their memory
  std::vector<exec::OutputArg> outputs_;
};

}  // namespace mlc::ensemble
