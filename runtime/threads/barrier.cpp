#include <time.h>

#include "base/futex.h"
#include "runtime/threads/barrier.h"

namespace mlc {
namespace {

constexpr int64_t kSpinNs = 50'000;
constexpr unsigned kSpinsPerClock = 64;  // reading the clock costs more than a turn of the loop

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // longer than `yield`, which most cores ignore
#else
  __asm__ volatile("" ::: "memory");
#endif
}

}  // namespace

void wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, std::atomic<uint32_t>& sleepers,
                     const Crowd& crowd) {
  int64_t deadline = 0;
  do {
    for (unsigned i = 0; i < kSpinsPerClock; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      pause_cpu();
    }
    const int64_t now = now_ns();
    if (deadline == 0) deadline = now + kSpinNs;
    else if (now >= deadline) break;
  } while (crowd.fits());
  // The waker changes the word, then reads `sleepers`; we raise `sleepers`, then the kernel reads the word. One of the
  // two sees the other.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == old) futex_wait(word, old);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void wake_all(const std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers) {
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex_wake(&word);
}

bool Barrier::wait(bool leave) {
  if (participants_ == 1) return leave;
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (leave) leave_.store(true, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == participants_) {
    arrived_.store(0, std::memory_order_relaxed);  // nobody arrives again before the generation changes
    answer_.store(leave_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    leave_.store(false, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_seq_cst);
    wake_all(generation_, sleepers_);
  } else {
    wait_for_change(generation_, generation, sleepers_, crowd_);
  }
  return answer_.load(std::memory_order_relaxed);
}

}  // namespace mlc
