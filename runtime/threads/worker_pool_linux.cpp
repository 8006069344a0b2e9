#include <sched.h>

#include <cstring>
#include <string>

#include "base/compose.h"
#include "runtime/threads/worker_pool.h"

namespace mlc {
namespace {

void pin_this_thread(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Result<std::unique_ptr<WorkerPool>> WorkerPool::create(const PoolOptions& options) {
  if (options.workers < 1 || options.workers > 4096) return Status(Code::Usage, "number of workers out of range");
  std::unique_ptr<WorkerPool> pool(new WorkerPool(options.workers));
  const bool pin = options.cpus.size() >= options.workers;
  pool->starts_.reserve(options.workers);
  for (unsigned w = 1; w < options.workers; ++w) {
    pool->starts_.push_back({pool.get(), w, pin ? options.cpus[w] : -1});
    pthread_t thread;
    if (const int error = pthread_create(&thread, nullptr, &thread_main, &pool->starts_.back()); error != 0) {
      // Those already started wait for a job that needs everybody; the destructor only ends them.
      return Status(Code::Resource, "worker {} of {} could not be started: {}", w, options.workers,
                    std::strerror(error));
    }
    pool->threads_.push_back(thread);
  }
  if (options.pin_caller && pin) pin_this_thread(options.cpus[0]);
  return pool;
}

WorkerPool::~WorkerPool() {
  stop_ = true;
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  wake_all(epoch_, sleepers_);
  for (pthread_t t : threads_) pthread_join(t, nullptr);
}

void* WorkerPool::thread_main(void* start) {
  const Start& s = *static_cast<Start*>(start);
  pin_this_thread(s.cpu);
  s.pool->work(s.worker);
  return nullptr;
}

void WorkerPool::work(unsigned worker) {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(epoch_, seen, sleepers_);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    job_(context_, worker);
    barrier_.wait();
  }
}

void WorkerPool::run(Job job, void* context) {
  if (workers_ == 1) return job(context, 0);
  job_ = job;
  context_ = context;
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  wake_all(epoch_, sleepers_);
  job(context, 0);
  barrier_.wait();
}

}  // namespace mlc
