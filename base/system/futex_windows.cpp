#include <windows.h>

#include "base/system/futex.h"

namespace mlc {

void futex_wait(const std::atomic<uint32_t>& word, uint32_t old, uint64_t at_most_ns) {
  constexpr uint64_t kMillisecond = 1'000'000;
  // Rounded up: a wait of no time would spin.
  const uint64_t ms = at_most_ns / kMillisecond + (at_most_ns % kMillisecond != 0);
  WaitOnAddress(const_cast<std::atomic<uint32_t>*>(&word), &old, sizeof old, at_most_ns == kForever || ms >= INFINITE ? INFINITE : static_cast<DWORD>(ms));
}

void futex_wake(const void* word) { WakeByAddressAll(const_cast<void*>(word)); }

}  // namespace mlc
