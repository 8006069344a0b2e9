#include "runtime/threads/waiting.h"

#include "base/system/clock.h"
#include "base/system/futex.h"

namespace mlc {
namespace {

constexpr uint64_t kSpinNs = 50'000;
constexpr unsigned kSpinsPerClock = 64;  // reading the clock costs more than a turn of the loop

}  // namespace

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // longer than `yield`, which most cores ignore
#else
  __asm__ volatile("" ::: "memory");
#endif
}

bool spin_for_change(const std::atomic<uint32_t>& word, uint32_t old, uint64_t at_most_ns, const Crowd& crowd,
                     const std::atomic<bool>* also) {
  uint64_t deadline = 0;
  do {
    for (unsigned i = 0; i < kSpinsPerClock; ++i) {
      if (word.load(std::memory_order_acquire) != old) return true;
      if (also && also->load(std::memory_order_relaxed)) return false;
      pause_cpu();
    }
    const uint64_t now = now_ns();
    if (deadline == 0) deadline = now + at_most_ns;
    else if (now >= deadline) break;
  } while (crowd.fits());
  return false;
}

bool wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, std::atomic<uint32_t>& sleepers, const Crowd& crowd,
                     const std::atomic<bool>* also) {
  if (spin_for_change(word, old, kSpinNs, crowd, also)) return true;
  // The waker changes the word, then reads `sleepers`; we raise `sleepers`, then the kernel reads the word. One of the
  // two sees the other.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool changed = false;
  while (!(changed = word.load(std::memory_order_seq_cst) != old) && !(also && also->load(std::memory_order_seq_cst)))
    futex_wait(word, old);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return changed;
}

void wake_all(const std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers) {
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex_wake(&word);
}

}  // namespace mlc
