// A container cut into files, as `split` does it: model.mlc.000, model.mlc.001, ... (spec/container.md, section 14).
#pragma once

#include <cstddef>
#include <string>

namespace mlc::format {

inline constexpr size_t kMaxParts = 200;  // a registry may take no more layers, and each is a request or an open file of its own

// What the name of part `k`, which is below 1000, ends with: ".007".
[[nodiscard]] inline std::string part_ending(size_t k) {
  const auto digit = [](size_t n) { return static_cast<char>('0' + n % 10); };
  return {'.', digit(k / 100), digit(k / 10), digit(k)};
}

}  // namespace mlc::format
