// Which of several variants is taken, by what they were measured to need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlc::match {

inline constexpr size_t kLeastRounds = 15;  // that a decision wants

// `samples[v]`: ns of a run of variant v, one for each round, all alike in number; v = 0 is the one that would be taken without
// measuring. Another one is taken only if its median is at least 5 % less, three quarters of its samples lie below three quarters of
// those of the first, and nine tenths below half of them: what a busy machine adds to either changes nothing. 0 with fewer rounds than kLeastRounds.
[[nodiscard]] size_t fastest_variant(std::span<const std::vector<uint64_t>> samples);

// The value that a share `q` of the samples does not exceed (nearest rank); 0 of none.
[[nodiscard]] uint64_t quantile(std::vector<uint64_t> samples, double q);

}  // namespace mlc::match
