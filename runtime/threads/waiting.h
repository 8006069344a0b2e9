// How threads wait for each other: they spin for a short time and then sleep.
//
// While busy threads do not outnumber the CPUs, a thread that is waited for comes within a microsecond or so, and none sleeps.
// When they do, a waiting thread leaves its CPU at once to busy ones; and where the pool cannot know it (other
// processes, limits lowered after the probe), sleeping keeps a wait below a millisecond instead of a time slice.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlc {

// The threads of a pool that have work at this moment, and the CPUs that there are for them. A waiting thread spins only while
// there is one for everybody.
struct Crowd {
  explicit Crowd(int32_t cpus) : cpus(cpus) {}
  bool fits() const { return working.load(std::memory_order_relaxed) <= cpus; }

  const int32_t cpus;
  alignas(128) std::atomic<int32_t> working{0};
};

// Waits until `word` differs from `old`: spins for at most 50 us, then sleeps. `sleepers` counts those that sleep. True, unless
// `also` ended it: it was set before the sleep began. The thread that sets it, with memory_order_seq_cst, sees in `sleepers` whether it
// came too late.
bool wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, std::atomic<uint32_t>& sleepers, const Crowd& crowd,
                     const std::atomic<bool>* also = nullptr);
// The spinning alone. True if `word` differs.
bool spin_for_change(const std::atomic<uint32_t>& word, uint32_t old, uint64_t at_most_ns, const Crowd& crowd,
                     const std::atomic<bool>* also = nullptr);
void pause_cpu();  // for spin loops
// To be called after `word` was changed with memory_order_seq_cst.
void wake_all(const std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers);

}  // namespace mlc
