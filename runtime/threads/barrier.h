// Where the workers of a run meet: a sense-reversing barrier that spins for a short time and then sleeps.
//
// While workers do not outnumber CPUs everybody arrives within a fraction of a microsecond and nobody sleeps. When they
// do (limits were lowered after the probe), sleeping keeps a launch below a millisecond instead of a time slice each.
// Arrival counter, generation and sleepers have cache lines of their own: sharing one costs up to 20 % on many cores.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlc {

class Barrier {
 public:
  explicit Barrier(uint32_t participants) : participants_(participants) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns when all participants have called it. What any of them wrote before is visible to all of them after.
  // The answer, the same for all: whether any of them called it with `leave`.
  bool wait(bool leave = false);

 private:
  const uint32_t participants_;
  alignas(128) std::atomic<uint32_t> arrived_{0};
  std::atomic<bool> leave_{false};  // of those who have arrived
  alignas(128) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> answer_{false};  // written before the generation moves, read after; not again before all have read it
  alignas(128) std::atomic<uint32_t> sleepers_{0};
};

// Waits until `word` differs from `old`: spins for about 50 us, then sleeps. `sleepers` counts who sleeps.
void wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, std::atomic<uint32_t>& sleepers);
// To be called after `word` was changed with memory_order_seq_cst.
void wake_all(const std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers);

}  // namespace mlc
