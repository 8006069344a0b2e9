// Which thread executes which part of a run next.
//
// A run has as many ranges as workers. Of every instruction range r executes share r, where there is one, and each range
// executes its instructions in order. An instruction waits until all ranges have done the first so many (`after`): what it
// reads and overwrites is there then. As `after` is never more than the instruction's own number, the range that is
// furthest behind can always go on: no list of numbers makes a run stand still.
//
// A thread executes its own range. While that waits, it executes the next instruction of a range that no thread holds: the
// one whose thread has not come yet, or was preempted. So a wait is for work and not for threads. A thread that
// finds nothing spins for a short time and then sleeps; threads of a team leave the run until they are called back, so that its
// end need not wait for a thread that has no CPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/system/futex.h"
#include "runtime/threads/team.h"

namespace mlc::exec {

// What an instruction is to ranges.
struct Turn {
  uint32_t after = 0;   // at most its own number
  uint32_t shares = 1;  // ranges that have a part in it, the first ones
};

class Ranges {
 public:
  explicit Ranges(unsigned count) : count_(count), ranges_(new Range[count]) {}

  // Before threads come. `turns`: one per instruction, outlives the run. `team`: whose offered job the threads are in; null: they
  // are others, and all of them come. Allocates nothing.
  void start(std::span<const Turn> turns, const Crowd& crowd, Team* team = nullptr);

  // One for each time that a thread comes. Range 0 is that of a thread which does not leave.
  struct Thread {
    uint32_t own = 0;        // its range
    // What it is to execute, after `next` said so:
    uint32_t range = 0, step = 0;
    // Of Ranges:
    bool holds = false;      // `range` is held by this thread
    uint32_t reached = 0;    // all ranges are known to have done so many
    uint32_t behind = 0;     // the first range that is not known to have done `wanted`
    uint32_t wanted = 0;
  };
  // To be called first.
  void come(const Thread& t);
  // Says that the thread's instruction is done, if it had one, and waits for another. False: the run is over, or it has nothing
  // for this thread, which is called back.
  bool next(Thread& t);
  // Ends the run: `next` says so to all threads.
  void halt();

  // For tests: executes all instructions on this thread. Of n ranges that may go on `choose(n)` says which does.
  void in_order(const std::function<size_t(size_t)>& choose, const std::function<bool(uint32_t range, uint32_t step)>& execute);

 private:
  struct alignas(128) Range {
    std::atomic<uint32_t> done{0};  // instructions; written by its holder
    std::atomic<bool> held{false};
    bool is_away = false;  // its thread is, and is counted; of that thread
  };

  uint32_t skip(uint32_t range, uint32_t step) const;  // the first from `step` on in which it has a part
  bool have_done(Thread& t, uint32_t after);
  uint32_t least_done() const;
  bool lets_others_go_on(uint32_t before) const;
  void wake();
  bool may_go_on(Thread& t, uint32_t range);
  bool is_over(Thread& t);
  bool take(Thread& t, uint32_t range);
  bool help(Thread& t);
  void move_to(uint32_t range, uint32_t step);
  void release(Thread& t);
  bool wait_for_work(Thread& t);

  const unsigned count_;
  const std::unique_ptr<Range[]> ranges_;
  std::span<const Turn> turns_;
  const Crowd* crowd_ = nullptr;
  alignas(128) std::atomic<bool> halted_{false};
  Team* team_ = nullptr;
  alignas(128) std::atomic<uint32_t> idle_{0};  // threads that sleep or are away
  Bell bell_;
};

}  // namespace mlc::exec
