// The threads that runs of many sessions share. A run borrows as many as it needs, all at once, through its session's Team
// (team.h); runs that find too few wait, asleep, and are served in the order in which they came. So runs of one pool never
// compete for a CPU, and none holds some threads while it waits for others.
//
// The pool has one slot for each thread that may work at one time. A team takes a slot for each of its workers; the caller
// of the run is worker 0 and sits in the lowest. The threads of the other slots are started when a team first needs them,
// so there are never more than `workers` - 1, and none where every session has one worker.
//
// A child of fork() has the pools but none of their threads. A pool there is as new: nothing is borrowed, and threads are
// started when they are needed. What was running in other threads at the fork is lost in the child and is to be left alone.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/threads/waiting.h"
#include "runtime/threads/affinity.h"
#include "runtime/threads/runners.h"

namespace mlc {

class Team;

struct PoolOptions {
  unsigned workers = 1;    // that work at one time, the callers of runs among them
  std::vector<int> cpus;   // where its threads may run; empty: where the thread may that first needs them
  std::vector<int> seats;  // a CPU for each worker, where it stays if it is pinned; fewer than workers: none is pinned
  bool pin = false;        // pin every worker; else only those of teams of all workers with pin_caller
  // The first so many threads run on these of `cpus` only (fast cores of one NUMA node); later ones, which work where more is asked for, on
  // all of them.
  size_t near_workers = 0;
  std::vector<int> near_cpus;
};

class WorkerPool {
 public:
  // Starts no thread. CPUs that the system does not let us use are ignored: they are for speed.
  static Result<std::unique_ptr<WorkerPool>> create(const PoolOptions& options);
  // The pool that the process shares: made with these options for the first that joins, and gone with the last, so that
  // no thread is left behind.
  struct Leave {
    void operator()(WorkerPool*) const;
  };
  using Common = std::unique_ptr<WorkerPool, Leave>;
  static Result<Common> join_common(const PoolOptions& options);
  ~WorkerPool();  // no run uses it any more
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  unsigned workers() const { return static_cast<unsigned>(slots_.size()); }
  const Crowd& crowd() const { return crowd_; }
  Runners& runners() { return runners_; }  // for runs without a waiting thread

  // As of now, for tests.
  unsigned threads() const { return threads_.load(); }  // started so far
  unsigned waiting();                                   // runs that wait for workers

 private:
  friend class Team;

  // Whether the thread of a slot may begin the job that was left there. A thread may come late, when the caller has long gone:
  // it reads nothing of the job before it has gone through.
  enum Gate : uint32_t { kShut, kOpen, kInside };

  // Cache lines of their own for what the thread, arriving workers, and the caller wait for or write to.
  struct Slot {
    alignas(128) std::atomic<uint32_t> turn{0};  // moves when the thread has something to do
    std::atomic<uint32_t> sleepers{0};
    alignas(128) std::atomic<uint32_t> gate{kShut};
    std::atomic<uint32_t> gate_sleepers{0};  // the caller, waiting for the thread to leave
    Team* team = nullptr;  // that has work; null: the thread ends. This and the next are written before the gate opens
    unsigned worker = 0;
    bool is_offer = false;  // the thread need not come, and may come again
    alignas(128) std::atomic<uint32_t> arrived{0};  // workers of the team whose caller sits here, at the end of a job
    alignas(128) std::atomic<uint32_t> jobs_done{0};  // of that caller's
    std::atomic<uint32_t> caller_sleeps{0};
    // Of the job that has taken the slot:
    alignas(128) WorkerPool* pool = nullptr;
    pthread_t thread{};
    bool has_thread = false;
    uint32_t first_turn = 0;  // `turn` when the thread was started
    bool taken = false;       // guarded by mu_
  };
  struct Waiter {
    Team& team;
    Bell& bell;
    uint64_t since_ns;
    Waiter* next = nullptr;
    bool served = false;
  };

  explicit WorkerPool(const PoolOptions& options);

  // Borrows slots for all workers of the team. False: the meter ended the run, which has none.
  bool borrow(Team& team, WorkMeter& meter);
  void give_back(Team& team);
  bool seat(Team& team);  // if there are enough slots; mu_ is held
  void serve_waiters();   // mu_ is held, and given up for moments
  bool may_come_back(const Team& team) const;  // before the run that waits; mu_ is held
  void wait_for_turn(Slot& slot, uint32_t turn);
  Status start_thread(Slot& slot);
  bool may_stay(Seat& seat);  // the calling thread; looks whether it was pushed off, whether its team is pinned or not
  size_t number_of(const Slot& slot) const { return static_cast<size_t>(&slot - slots_.data()); }
  const int& seat_of(const Slot& slot) const { return seats_[number_of(slot)]; }
  const std::vector<int>& cpus_of(const Slot& slot) const { return number_of(slot) < near_workers_ ? near_cpus_ : cpus_; }
  static void* thread_main(void* slot);
  void work(Slot& slot);

  // All pools of the process, for the child of a fork.
  static void before_fork();
  static void after_fork();
  static void after_fork_in_child();
  void forget_threads();

  const std::vector<int> cpus_, near_cpus_, seats_;
  const size_t near_workers_;
  const bool pin_;
  WorkerPool* next_pool_ = nullptr;  // guarded by the lock of the list
  Crowd crowd_;
  std::atomic<uint64_t> pushed_off_ns_{0};  // when it was last seen that a thread had been
  std::atomic<unsigned> threads_{0};
  std::mutex mu_;
  std::vector<Slot> slots_;
  unsigned free_;                  // slots; guarded by mu_
  Waiter* waiters_ = nullptr;      // the one that came first; guarded by mu_
  // There are slots for `waiters_`, which was not notified yet: this team may have them again. Changed with mu_ held.
  std::atomic<bool> passed_over_{false};
  const Team* favoured_ = nullptr;
  Runners runners_;                // last: their runs use all of the above
};

}  // namespace mlc
