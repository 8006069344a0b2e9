#include "runtime/match/fastest.h"

#include <algorithm>
#include <cmath>

namespace mlc::match {

uint64_t quantile(std::vector<uint64_t> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double rank = std::ceil(q * static_cast<double>(samples.size()));
  return samples[std::clamp<size_t>(static_cast<size_t>(rank), 1, samples.size()) - 1];
}

size_t fastest_variant(std::span<const std::vector<uint64_t>> samples) {
  constexpr double kGain = 0.95;
  if (samples.empty() || samples.front().size() < kLeastRounds) return 0;
  const uint64_t low = quantile(samples.front(), 0.25), middle = quantile(samples.front(), 0.5);
  size_t best = 0;
  uint64_t least = 0;
  for (size_t v = 1; v < samples.size(); ++v) {
    const uint64_t median = quantile(samples[v], 0.5);
    if (static_cast<double>(median) > kGain * static_cast<double>(middle) || quantile(samples[v], 0.75) >= low || quantile(samples[v], 0.9) >= middle) continue;
    if (best == 0 || median < least) best = v, least = median;
  }
  return best;
}

}  // namespace mlc::match
