// Where a thread runs.
#pragma once

#include <cstdint>
#include <span>

namespace mlc {

// The calling thread runs on these CPUs from now on, if the system lets it and there are such.
void stay_on(std::span<const int> cpus);

// How often the calling thread was pushed off its CPU by another one.
uint64_t times_pushed_off();

// Whether a thread is to stay on a CPU of its own. It does until something else wants that CPU: a pinned thread
// waits there for a time slice, and so do all that wait for it. So it is unpinned for a while whenever it was preempted.
class Seat {
 public:
  // To be called now and then; says whether the thread is to be on its seat from now on.
  bool look(uint64_t now_ns, uint64_t pushed_off) {
    if (pushed_off != pushed_off_ && is_known_) free_until_ns_ = now_ns + kFreeNs, seen_ns_ = now_ns;
    pushed_off_ = pushed_off;
    is_known_ = true;
    looked_ns_ = now_ns;
    return stays(now_ns);
  }
  bool stays(uint64_t now_ns) const { return now_ns >= free_until_ns_; }
  uint64_t pushed_off_ns() const { return seen_ns_; }  // when that was last seen; 0: never
  bool is_time_to_look(uint64_t now_ns) const { return !is_known_ || now_ns - looked_ns_ >= kPauseNs; }

 private:
  static constexpr uint64_t kPauseNs = 500'000;  // looking costs a fraction of a microsecond
  static constexpr uint64_t kFreeNs = 200'000'000;

  uint64_t pushed_off_ = 0, looked_ns_ = 0, free_until_ns_ = 0, seen_ns_ = 0;
  bool is_known_ = false;
};

}  // namespace mlc
