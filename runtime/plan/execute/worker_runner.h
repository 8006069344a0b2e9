// Segments on the workers of this process: all of them interpret the same instructions, each its range of every one (ranges.h). It owns
// the arena and the workers' scratch, and knows where constants are in memory of the host. States and arrays of a call are used there.
#pragma once

#include <memory>
#include <vector>

#include "runtime/plan/derived.h"
#include "runtime/plan/execute/segment_runner.h"
#include "runtime/plan/execute/session_memory.h"

namespace mlc::exec {

class WorkerRunner final : public SegmentRunner {
 public:
  // All of these outlive it. `derived`: shared by runners of this plan and this module, with these constants.
  WorkerRunner(const Plan& plan, const KernelModule& module, const Constants& constants, std::shared_ptr<DerivedConstants> derived, Team& team,
               SessionMemory& memory);

  const KernelSet& kernels() const override { return module_; }
  uint64_t scratch_bytes(uint32_t kernel) const override { return module_.scratch_bytes(kernel); }
  Status derive(WorkMeter& meter, Compute compute, void* executor) override;
  Status run(const SegmentCall& call) override;
  uint64_t arena_bytes() const override { return arena_.size(); }

 private:
  struct Run;
  struct HostConstants {               // of a function
    std::vector<const std::byte*> at;  // per buffer; null for other kinds
    bool are_ready = false;
  };
  Status acquire_constants(const SegmentCall& call);
  Status allocate_derived();
  Status place(const SegmentCall& call);  // everything has its address in the binding
  static void work(void* run, unsigned worker);

  const Plan& plan_;
  const KernelModule& module_;
  const Constants& constants_;
  const std::shared_ptr<DerivedConstants> derived_;
  Team& team_;
  SessionMemory& memory_;
  Ranges ranges_;                      // of the run
  AlignedBlock arena_;
  std::vector<AlignedBlock> scratch_;  // one per worker
  const std::unique_ptr<HostConstants[]> host_;  // per function
  Charge derived_charge_;
  bool is_derived_ = false;            // and counted
};

}  // namespace mlc::exec
