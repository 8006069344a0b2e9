// How much the heap has grown at most since a moment, seen by the sanitizer. One for a process.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace mlc::fuzz {

class HeapPeak {
 public:
  HeapPeak() { __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free); }

  void begin() const { held_ = peak_ = 0; }
  // Ends the process if more was held than `bytes`, and what strings of messages take.
  void check_at_most(uint64_t bytes) const {
    constexpr int64_t kMessages = 16 << 10;
    if (peak_ <= static_cast<int64_t>(bytes) + kMessages) return;
    std::fprintf(stderr, "%lld bytes were held, at most %llu are allowed\n", static_cast<long long>(peak_),
                 static_cast<unsigned long long>(bytes));
    std::abort();
  }

 private:
  static void on_malloc(const volatile void*, size_t size) {
    held_ += static_cast<int64_t>(size);
    if (held_ > peak_) peak_ = held_;
  }
  static void on_free(const volatile void* block) {
    if (block) held_ -= static_cast<int64_t>(__sanitizer_get_allocated_size(block));
  }
  static inline thread_local int64_t held_ = 0, peak_ = 0;
};

}  // namespace mlc::fuzz
