#include "targets/quotient.h"

#include <cmath>
#include <limits>

namespace mlc::targets {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// 1 / divisor cut off to a float, and what that leaves.
Quotient parts_of(float divisor) {
  Quotient q;
  q.high = static_cast<float>(1.0 / divisor);
  if (static_cast<double>(q.high) * divisor > 1) q.high = std::nextafter(q.high, 0.0F);
  q.low = static_cast<float>((1.0 - static_cast<double>(q.high) * divisor) / divisor);  // the product has 48 bits, the difference fewer
  return q;
}

}  // namespace

std::optional<Quotient> quotient_by(float divisor, int least, int most) {
  if (!(divisor > 0x1p-60F && divisor < 0x1p60F)) return std::nullopt;
  const Quotient q = parts_of(divisor);
  const auto exact = [&](float x) { return std::nearbyint(x / divisor); };
  const auto product = [&](float x) { return std::nearbyint(q.low == 0 ? x * q.high : std::fma(x, q.high, x * q.low)); };
  for (int n = least - 1; n <= most; ++n) {
    const auto below = static_cast<float>(n);
    // The last float that gives n or less.
    auto x = static_cast<float>((n + 0.5) * divisor);
    while (exact(x) > below) x = std::nextafter(x, -kInfinity);
    while (exact(std::nextafter(x, kInfinity)) <= below) x = std::nextafter(x, kInfinity);
    if (product(x) > below || product(std::nextafter(x, kInfinity)) <= below) return std::nullopt;
  }
  return q;
}

}  // namespace mlc::targets
