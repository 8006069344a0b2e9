// Threads that take a whole run off the hands of the thread that asked for it. There are never more of them than runs that
// go on at one time; as many as `keep` stay for later ones.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/status.h"

namespace mlc {

class Runners {
 public:
  // The threads run on these CPUs, which outlive them.
  Runners(unsigned keep, std::span<const int> cpus) : keep_(keep), cpus_(cpus) {}
  ~Runners();  // waits for the jobs that are still going on
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  using Job = void (*)(void* context);
  // Calls job(context) on a thread that has nothing else to do. Resource: there is none and none can be started.
  Status start(Job job, void* context);

  unsigned threads();  // as of now, for tests
  void forget();       // in the child of a fork: all threads are gone

  // Whether the calling thread is one of these, or of those of another object of this kind.
  static bool on_runner();

 private:
  enum class State : uint8_t { Working, Idle, Ended };
  struct Runner {
    Runners* owner;
    Runner* next;          // guarded by mu_, as is the next
    State state = State::Working;
    Job job;               // null: the thread ends. This and the next written before `turn` moves
    void* context;
    std::atomic<uint32_t> turn{0};
    pthread_t thread{};
  };

  static void* thread_main(void* runner);
  void work(Runner& runner);
  void reap();          // those that have ended; mu_ is held

  const unsigned keep_;
  const std::span<const int> cpus_;
  std::mutex mu_;
  Runner* all_ = nullptr;  // guarded by mu_, as are the next two
  unsigned idle_ = 0;
  bool stop_ = false;
};

}  // namespace mlc
