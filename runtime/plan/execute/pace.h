// Whether a run that several threads could share is better done by one.
//
// Where something else wants the CPUs, threads of a run are pushed off in the middle of their part, and all others wait for a time
// slice. That may cost more than the second thread brings. Whether it does depends on the model, the system and what runs beside, so
// it is tried: after a thread was pushed off, some runs are timed with all threads, some with one, and what is faster stays for a while.
#pragma once

#include <cstdint>

namespace mlc::exec {

class Pace {
 public:
  // Of the next run.
  bool is_alone() const { return phase_ == Phase::TryAlone || phase_ == Phase::Alone; }
  // After it: it began and ended at these times. `pushed_off_ns`: when it was last seen that a thread had been pushed off; 0: never.
  void ran(uint64_t begin_ns, uint64_t end_ns, uint64_t pushed_off_ns) {
    const bool disturbed = pushed_off_ns >= begin_ns && pushed_off_ns != 0;
    switch (phase_) {
      case Phase::Together:
        if (disturbed) enter(Phase::TryTogether);
        return;
      case Phase::TryTogether:
        disturbed_runs_ += disturbed;
        if (!add(end_ns - begin_ns)) return;
        if (disturbed_runs_ < kDisturbedRuns) return enter(Phase::Together);
        together_ns_ = mean();
        return enter(Phase::TryAlone);
      case Phase::TryAlone:
        if (!add(end_ns - begin_ns)) return;
        until_ns_ = end_ns + kStayNs;
        return enter(mean() < together_ns_ ? Phase::Alone : Phase::StayTogether);
      case Phase::Alone:
        if (end_ns >= until_ns_) enter(Phase::TryTogether);
        return;
      case Phase::StayTogether:
        if (end_ns >= until_ns_) enter(Phase::Together);
        return;
    }
  }

 private:
  enum class Phase : uint8_t { Together, TryTogether, TryAlone, Alone, StayTogether };
  // A trial spans several time slices.
  static constexpr uint64_t kTrialNs = 12'000'000, kStayNs = 300'000'000;
  static constexpr uint32_t kTrialRuns = 3;
  static constexpr uint32_t kDisturbedRuns = 2;  // of a trial; the system itself pushes threads off now and then

  void enter(Phase phase) {
    phase_ = phase;
    runs_ = disturbed_runs_ = 0, sum_ns_ = 0;
  }
  bool add(uint64_t ns) {
    sum_ns_ += ns;
    return ++runs_ >= kTrialRuns && sum_ns_ >= kTrialNs;
  }
  uint64_t mean() const { return sum_ns_ / runs_; }

  Phase phase_ = Phase::Together;
  uint32_t runs_ = 0, disturbed_runs_ = 0;
  uint64_t sum_ns_ = 0, together_ns_ = 0, until_ns_ = 0;
};

}  // namespace mlc::exec
