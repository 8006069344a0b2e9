// Sleeping until a word of memory changes.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlc {

constexpr uint64_t kForever = UINT64_MAX;

// Returns when woken, when the time is over, at once if `word` is not `old`, and sometimes for no reason.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t old, uint64_t at_most_ns = kForever);
// Wakes all that sleep at this address. Nothing is read there: the word itself may be gone.
void futex_wake(const void* word);

// A wait for one of several events. A waiter takes `count`, then looks for each of them, then
// sleeps: what happened after the look rang the bell, so that the sleep ends at once.
class Bell {
 public:
  uint32_t count() const { return count_.load(std::memory_order_seq_cst); }
  void sleep(uint32_t count, uint64_t at_most_ns) const { futex_wait(count_, count, at_most_ns); }
  void ring() { futex_wake(strike()); }
  // The first half of `ring`: the second is futex_wake of the answer, which may come when the bell is gone.
  const void* strike() {
    count_.fetch_add(1, std::memory_order_seq_cst);
    return &count_;
  }

 private:
  std::atomic<uint32_t> count_{0};
};

}  // namespace mlc
