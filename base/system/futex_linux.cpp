#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "base/system/futex.h"

namespace mlc {

void futex_wait(const std::atomic<uint32_t>& word, uint32_t old, uint64_t at_most_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<time_t>(at_most_ns / kSecond), static_cast<long>(at_most_ns % kSecond)};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, old, at_most_ns == kForever ? nullptr : &time, nullptr, 0);
}

void futex_wake(const void* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace mlc
