// What AddressSanitizer knows of memory that is handed out in parts: bytes without an owner are poisoned, so that an access
// to them is reported although the pages are there. Without the sanitizer nothing of this is compiled.
//
// A buffer may be read up to the next multiple of 64 behind its length, so lines of 64 bytes are told apart, not bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/sanitized.h"
#ifdef MLC_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace mlc {

#ifdef MLC_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
inline void poison(const void* from, uint64_t bytes) { __asan_poison_memory_region(from, bytes); }
inline void unpoison(const void* from, uint64_t bytes) { __asan_unpoison_memory_region(from, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void poison(const void*, uint64_t) {}
inline void unpoison(const void*, uint64_t) {}
#endif

// Of `capacity` bytes the first `bytes`, and the rest of their last line, may be accessed.
inline void expose(const std::byte* from, uint64_t bytes, uint64_t capacity) {
  if constexpr (kAddressSanitizer) {
    const uint64_t lines = (bytes + 63) / 64 * 64;
    unpoison(from, lines);
    if (lines < capacity) poison(from + lines, capacity - lines);
  }
}

}  // namespace mlc
