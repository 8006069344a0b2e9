// How much a run may still do. One meter belongs to a run and is shared by all its workers; each thread draws from it in
// batches through an account of its own, so that counting costs next to nothing.
//
// Work is counted in units. A unit is about what an instruction of portable code takes, a few nanoseconds and never more
// than half a microsecond; spec/untrusted.md says what costs how many. A worker that draws kBatch units and then draws again has
// looked at the flag and at the deadline within about 15 ms.
//
// Threads: `start` while no worker runs; everything else from all workers at once. The flag that cancels a run is the
// caller's, who may set it from any thread at any time.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cancel_flag.h"

namespace mlc {

struct WorkLimits {
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t units = kNone;
  uint64_t time_ns = kNone;  // of the run, on the monotonic clock
};

// For moving so many bytes.
constexpr uint64_t units_of(uint64_t bytes) { return 1 + bytes / 64; }

class WorkMeter {
 public:
  // Why a run must end.
  enum class Stop : uint8_t { None = 0, Cancelled, Time, Work };

  static constexpr uint64_t kBatch = uint64_t{1} << 15;

  WorkMeter() = default;  // without limits
  WorkMeter(const WorkMeter&) = delete;

  // Begins a run: the clock starts. The run ends when `cancelled` is set, be it before it begins; null: never. It outlives
  // the run.
  void start(const WorkLimits& limits, CancelFlag* cancelled = nullptr);

  // A run that waits for another thread sleeps on this, and that thread rings it when the wait is over.
  Bell& bell() { return cancelled_ ? cancelled_->bell() : bell_; }
  // Sleeps until the bell has been rung since its `count` was taken, the run is cancelled, or time is up: `poll` tells.
  void sleep(uint32_t count);

  // Whether the run may go on, with a look at the clock where there is a deadline.
  bool poll() {
    if (why() != Stop::None) return false;
    if (cancelled_ && cancelled_->is_set()) {
      stop(Stop::Cancelled);
      return false;
    }
    return limits_.time_ns == WorkLimits::kNone || in_time();
  }
  // The same, and takes units for work that is about to be done: `most`, or what is left if that is at least `least`,
  // which is not 0. Answers how many; 0: the run must end. What is not used may be given back.
  uint64_t draw(uint64_t least, uint64_t most) {
    if (!poll()) return 0;
    return limits_.units == WorkLimits::kNone ? most : draw_limited(least, most);
  }
  bool take(uint64_t units) { return draw(units, units) != 0; }
  void give_back(uint64_t units) {
    if (limits_.units != WorkLimits::kNone) left_.fetch_add(units, std::memory_order_relaxed);
  }

  Stop why() const { return why_.load(std::memory_order_relaxed); }  // None: it may go on, as far as workers have checked
  const WorkLimits& limits() const { return limits_; }
  CancelFlag* cancelled() const { return cancelled_; }  // null: never cancelled
  uint64_t units_used() const;  // 0 without a limit: not counted then
  uint64_t ns_used() const;
  uint64_t started_ns() const { return started_ns_; }  // by base/system/clock.h; 0: not started

 private:
  void stop(Stop why) {
    Stop none = Stop::None;
    why_.compare_exchange_strong(none, why, std::memory_order_relaxed);
  }
  bool in_time();
  uint64_t draw_limited(uint64_t least, uint64_t most);

  WorkLimits limits_;
  CancelFlag* cancelled_ = nullptr;
  uint64_t started_ns_ = 0;
  Bell bell_;
  alignas(64) std::atomic<Stop> why_{Stop::None};
  alignas(64) std::atomic<uint64_t> left_{0};  // a line of its own: workers write to it
};

// One thread's account with a meter.
class WorkAccount {
 public:
  explicit WorkAccount(WorkMeter& meter) : meter_(meter) {}
  WorkAccount(const WorkAccount&) = delete;
  ~WorkAccount() { close(); }

  // To be called before the work that it counts, at least once for every kBatch units. False: the run must end.
  bool spend(uint64_t units) {
    if (units > left_) return refill(units);
    left_ -= units;
    return true;
  }
  // Gives back what is left; the account may be used again.
  void close() {
    meter_.give_back(left_);
    left_ = 0;
  }

 private:
  bool refill(uint64_t units);

  WorkMeter& meter_;
  uint64_t left_ = 0;
};

}  // namespace mlc
