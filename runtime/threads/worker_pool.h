// Worker threads that are created and pinned once and then run the same job together, again and again: one fork per
// run of a model, not one per operator. Worker 0 is the thread that calls `run`.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/threads/barrier.h"

namespace mlc {

struct PoolOptions {
  unsigned workers = 1;        // including the caller
  std::vector<int> cpus;       // worker w >= 1 is pinned to cpus[w]; with too few entries workers stay unpinned
  bool pin_caller = false;     // pin the thread that creates the pool to cpus[0] as well
};

class WorkerPool {
 public:
  // Resource if the threads cannot be started. CPUs that cannot be pinned to are ignored: pinning is for speed.
  static Result<std::unique_ptr<WorkerPool>> create(const PoolOptions& options);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  unsigned workers() const { return workers_; }
  Barrier& barrier() { return barrier_; }

  // Calls job(context, worker) once on every worker and returns when all have returned. Not from two threads at once,
  // and not from inside a job. Allocates nothing.
  using Job = void (*)(void* context, unsigned worker);
  void run(Job job, void* context);

 private:
  explicit WorkerPool(unsigned workers) : workers_(workers), barrier_(workers) {}
  struct Start {
    WorkerPool* pool;
    unsigned worker;
    int cpu;
  };
  static void* thread_main(void* start);
  void work(unsigned worker);

  const unsigned workers_;
  Barrier barrier_;
  std::vector<Start> starts_;
  std::vector<pthread_t> threads_;
  Job job_ = nullptr;        // written before `epoch_` moves, read after
  void* context_ = nullptr;
  bool stop_ = false;
  alignas(128) std::atomic<uint32_t> epoch_{0};
  alignas(128) std::atomic<uint32_t> sleepers_{0};
};

}  // namespace mlc
