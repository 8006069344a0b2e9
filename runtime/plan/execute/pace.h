// Whether a run that several threads could share is better done by one.
//
// Where something else wants the CPUs, threads of a run are pushed off in the middle of their part, and all others wait for a time
// slice. That may cost more than the second thread brings. Whether it does depends on the model, the system and what runs beside, so
// it is tried: after a thread was pushed off, some runs are timed with all threads, some with one, and what is faster stays for a while.
// A trial with one thread may make runs twice as long. So it is made only where runs with all threads have become longer than those that
// nothing disturbed, and trials lose a twentieth of the time at most.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mlc::exec {

class Pace {
 public:
  // Of the next run.
  bool is_alone() const { return phase_ == Phase::TryAlone || phase_ == Phase::Alone; }
  // After it: it began and ended at these times. `pushed_off_ns`: when it was last seen that a thread had been pushed off; 0: never.
  void ran(uint64_t begin_ns, uint64_t end_ns, uint64_t pushed_off_ns) {
    if (first_ns_ == 0) first_ns_ = begin_ns;
    const bool disturbed = pushed_off_ns >= begin_ns && pushed_off_ns != 0;
    if (!is_alone() && !disturbed) best_ns_ = best_ns_ == 0 ? end_ns - begin_ns : std::min(best_ns_, end_ns - begin_ns);
    switch (phase_) {
      case Phase::Together:
        if (disturbed) enter(Phase::TryTogether);
        return;
      case Phase::TryTogether:
        disturbed_runs_ += disturbed;
        if (!add(end_ns - begin_ns)) return;
        if (disturbed_runs_ < kDisturbedRuns) return enter(Phase::Together);
        together_ns_ = mean();
        if (is_worth_trial(end_ns)) return enter(Phase::TryAlone);
        until_ns_ = end_ns + stay();
        return enter(Phase::StayTogether);
      case Phase::TryAlone:
        if (!add(end_ns - begin_ns)) return;
        alone_ns_ = mean();
        lost_ns_ += runs_ * loss();
        until_ns_ = end_ns + stay();
        return enter(alone_ns_ < together_ns_ ? Phase::Alone : Phase::StayTogether);
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
  // A trial spans several time slices; a single run does where it is this long.
  static constexpr uint64_t kTrialNs = 12'000'000, kLongNs = 24'000'000, kStayNs = 300'000'000;
  static constexpr uint32_t kTrialRuns = 3;
  static constexpr uint64_t kStayRuns = 12;
  static constexpr uint64_t kNoticeable = 10;    // a tenth longer
  static constexpr uint64_t kTrialsShare = 20;   // a twentieth
  static constexpr uint32_t kDisturbedRuns = 2;  // of a trial; the system itself pushes threads off now and then

  void enter(Phase phase) {
    phase_ = phase;
    runs_ = disturbed_runs_ = 0, sum_ns_ = 0;
  }
  bool add(uint64_t ns) {
    sum_ns_ += ns;
    return ++runs_ >= kTrialRuns ? sum_ns_ >= kTrialNs : phase_ == Phase::TryAlone && sum_ns_ >= kLongNs;
  }
  // After runs with all threads that were disturbed.
  bool is_worth_trial(uint64_t now_ns) const {
    if (best_ns_ != 0 && together_ns_ < best_ns_ + best_ns_ / kNoticeable) return false;
    const uint64_t runs = together_ns_ >= kLongNs ? 1 : std::max<uint64_t>(kTrialRuns, kTrialNs / together_ns_);
    return kTrialsShare * (lost_ns_ + runs * loss()) <= now_ns - first_ns_;
  }
  // Of a run in a trial with one thread; twice as long as with all, if none was made.
  uint64_t loss() const { return alone_ns_ == 0 ? together_ns_ : alone_ns_ - std::min(alone_ns_, together_ns_); }
  uint64_t mean() const { return sum_ns_ / runs_; }
  uint64_t stay() const { return std::max(kStayNs, kStayRuns * together_ns_); }

  Phase phase_ = Phase::Together;
  uint32_t runs_ = 0, disturbed_runs_ = 0;
  uint64_t sum_ns_ = 0, together_ns_ = 0, until_ns_ = 0;
  uint64_t best_ns_ = 0;                         // with all threads and undisturbed; 0: no run was
  uint64_t alone_ns_ = 0;                        // with one thread, in the last trial; 0: there was none
  uint64_t first_ns_ = 0, lost_ns_ = 0;          // when the first run began; by trials with one thread
};

}  // namespace mlc::exec
