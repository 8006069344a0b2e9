// The wish that runs end. Set by any thread at any time, it stays set; any number of runs may look at one flag, which outlives
// them.
#pragma once

#include <atomic>

#include "base/system/futex.h"

namespace mlc {

class CancelFlag {
 public:
  bool is_set() const { return set_.load(std::memory_order_relaxed); }
  void set() {
    set_.store(true, std::memory_order_relaxed);
    bell_.ring();
  }
  // Threads that wait because of a run sleep by this, so that `set` ends the waiting as well.
  Bell& bell() { return bell_; }

 private:
  std::atomic<bool> set_{false};
  Bell bell_;
};

}  // namespace mlc
