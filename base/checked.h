// Size arithmetic on numbers from outside. Every product and sum of file sizes, shapes and offsets goes through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mlc {

[[nodiscard]] inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
[[nodiscard]] inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
// Next multiple of `alignment`, a power of two.
[[nodiscard]] inline std::optional<uint64_t> checked_align(uint64_t a, uint64_t alignment) {
  auto r = checked_add(a, alignment - 1);
  return r ? std::optional(*r & ~(alignment - 1)) : std::nullopt;
}
// True if [offset, offset + length) lies within [0, limit).
[[nodiscard]] inline bool range_within(uint64_t offset, uint64_t length, uint64_t limit) {
  return offset <= limit && length <= limit - offset;
}
template <class Range>
[[nodiscard]] std::optional<uint64_t> checked_product(const Range& factors) {
  uint64_t r = 1;
  for (auto f : factors) {
    auto next = checked_mul(r, static_cast<uint64_t>(f));
    if (!next) return std::nullopt;
    r = *next;
  }
  return r;
}

using Bytes = std::span<const std::byte>;

}  // namespace mlc
