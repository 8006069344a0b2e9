// The workers of one session: how many its runs want, and, while one of them needs more than its caller, the threads that
// the pool has lent it. They run one job after the other together: one fork per run of a model, not one per operator.
//
//   team.start_run();                 the calling thread works; it is worker 0 of what follows
//   team.gather(meter);               waits for its turn to have all workers; may be left out where worker 0 is enough
//   team.run(job, context);           as often as needed
//   team.dismiss();                   the others may work for another team; before calling what may run another session
//   team.end_run();
#pragma once

#include <pthread.h>

#include <memory>
#include <span>

#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/threads/waiting.h"
#include "runtime/threads/affinity.h"
#include "runtime/threads/worker_pool.h"

namespace mlc {

struct TeamOptions {
  TeamOptions(WorkerPool& pool, unsigned workers = 0, bool pin_caller = false)  // not explicit: a pool is a team of all
      : pool(pool), workers(workers), pin_caller(pin_caller) {}

  WorkerPool& pool;    // outlives the team
  unsigned workers;    // 0, or more than the pool has: all
  // Callers stay on the CPU that the pool has for them, where it pins workers. It does so as well, unasked, where the team is
  // all there are: no thread of it can be in the way of another then.
  bool pin_caller;
};

class Team {
 public:
  explicit Team(const TeamOptions& options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned workers() const { return workers_; }
  const Crowd& crowd() const;
  // When it was last seen that a thread of the pool had been pushed off its CPU; 0: never.
  uint64_t pushed_off_ns() const;

  void start_run();
  void end_run();

  // Nothing if the workers are here already. Cancelled: the meter, which says why, ended the run; Resource: a thread
  // cannot be started. No worker is here then.
  Status gather(WorkMeter& meter);
  // Nothing if they are not here.
  void dismiss();

  // Calls job(context, worker) once on every worker and returns when all have returned. Not from inside a job. Allocates
  // nothing.
  using Job = void (*)(void* context, unsigned worker);
  void run(Job job, void* context);
  // Calls job(context, 0), and job(context, worker) on those of the others that come before that has returned; a worker that does not
  // come, because the system has given its CPU away, is not waited for. Returns when all that came have returned.
  void offer(Job job, void* context);
  // From inside an offered job: it is called again on every worker whose call has returned. Worker 0 has none that could.
  void call_back();

 private:
  friend class WorkerPool;
  bool may_caller_stay();
  void pin_caller(const int& seat, bool stays);
  void leave_job(Job job, void* context, bool is_offer);  // where the others find it

  WorkerPool& pool_;
  const unsigned workers_;
  const bool is_pinned_;
  const bool pins_caller_;
  int caller_cpu_ = -1;        // where `caller_` is pinned to; -1: it is not
  Seat caller_seat_;
  pthread_t caller_{};
  const std::unique_ptr<WorkerPool::Slot*[]> slots_;  // of the workers
  bool is_here_ = false;                              // the workers are: `slots_` are theirs
  uint64_t run_since_ns_ = 0;                         // the run that they are here for
  Job job_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace mlc
