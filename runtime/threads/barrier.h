// Where the workers of a run meet: a sense-reversing barrier that spins for a short time and then sleeps.
//
// While those who work do not outnumber the CPUs everybody arrives within a fraction of a microsecond and nobody sleeps.
// When they do, who waits leaves its CPU at once to those who have work; and where the pool cannot know it (other
// processes, limits lowered after the probe), sleeping keeps a launch below a millisecond instead of a time slice each.
// Arrival counter, generation and sleepers have cache lines of their own: sharing one costs up to 20 % on many cores.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlc {

// The threads of a pool that have work at this moment, and the CPUs that there are for them. Who waits spins only while
// there is one for everybody.
struct Crowd {
  explicit Crowd(int32_t cpus) : cpus(cpus) {}
  bool fits() const { return working.load(std::memory_order_relaxed) <= cpus; }

  const int32_t cpus;
  alignas(128) std::atomic<int32_t> working{0};
};

class Barrier {
 public:
  Barrier(uint32_t participants, const Crowd& crowd) : participants_(participants), crowd_(crowd) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns when all participants have called it. What any of them wrote before is visible to all of them after.
  // The answer, the same for all: whether any of them called it with `leave`.
  bool wait(bool leave = false);

 private:
  const uint32_t participants_;
  const Crowd& crowd_;
  alignas(128) std::atomic<uint32_t> arrived_{0};
  std::atomic<bool> leave_{false};  // of those who have arrived
  alignas(128) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> answer_{false};  // written before the generation moves, read after; not again before all have read it
  alignas(128) std::atomic<uint32_t> sleepers_{0};
};

// Waits until `word` differs from `old`: spins for at most 50 us, then sleeps. `sleepers` counts who sleeps. True, unless
// `also` ended it: it was set before the sleep began. Who sets it, with memory_order_seq_cst, sees in `sleepers` whether it
// came too late.
bool wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, std::atomic<uint32_t>& sleepers, const Crowd& crowd,
                     const std::atomic<bool>* also = nullptr);
// The spinning alone. True if `word` differs.
bool spin_for_change(const std::atomic<uint32_t>& word, uint32_t old, uint64_t at_most_ns, const Crowd& crowd,
                     const std::atomic<bool>* also = nullptr);
// To be called after `word` was changed with memory_order_seq_cst.
void wake_all(const std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers);

}  // namespace mlc
