#include "runtime/plan/cut.h"

#include <algorithm>

namespace mlc::exec {
namespace {

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Of divisions that are tried for one launch, twice. All divisions are among them for 64 workers over three axes, and for 190
// over two.
constexpr int kMostTries = 1024;

struct Division {
  Chunks chunks;
  double share = 0, bytes = 0;  // of the worker that has the most
};

// With `parts` chunks along each axis, or fewer where fewer of equal size cover it.
std::optional<Division> divided(const Work& work, const std::array<uint64_t, kMaxCuts>& parts, uint64_t shares) {
  Division d;
  d.chunks.tiles = work.tiles;
  double points = 1;
  for (size_t k = 0; k < work.num_axes; ++k) {
    const uint64_t units = work.axes[k].units;
    const uint64_t chunk = std::max<uint64_t>(1, ceil_div(units, parts[k]));
    d.chunks.of[k] = chunk;
    d.chunks.tiles *= ceil_div(units, chunk);  // tiles below 2^31 times parts
    if (d.chunks.tiles > INT32_MAX) return std::nullopt;
    points *= static_cast<double>(chunk);
    d.bytes += static_cast<double>(chunk) * work.axes[k].bytes;
  }
  d.chunks.shares = static_cast<uint32_t>(std::clamp<uint64_t>(d.chunks.tiles, 1, shares));
  const auto most = static_cast<double>(ceil_div(d.chunks.tiles, d.chunks.shares));
  d.share = most * points;
  d.bytes *= most;
  return d;
}

// The next combination of parts with at most `most` in all, so that those come first that have many along the first axes.
bool advance(std::array<uint64_t, kMaxCuts>& parts, const Work& work, uint64_t most) {
  for (size_t k = work.num_axes; k-- > 0;) {
    if (parts[k] == 1) continue;
    --parts[k];
    uint64_t left = most;
    for (size_t j = 0; j <= k; ++j) left /= parts[j];
    for (size_t j = k + 1; j < work.num_axes; ++j) {
      parts[j] = std::clamp<uint64_t>(work.axes[j].units, 1, left);
      left /= parts[j];
    }
    return true;
  }
  return false;
}

// How many share so much work at most.
uint64_t shares_worth(double nanoseconds) {
  uint64_t few = 1;
  const auto least = [](uint64_t n) { return std::min(kLeastNanoseconds, kLeastOfFew * static_cast<double>(n)) * static_cast<double>(n); };
  while (least(few + 1) <= nanoseconds && few < kLeastNanoseconds / kLeastOfFew) ++few;
  return std::max(few, static_cast<uint64_t>(std::max(0.0, nanoseconds / kLeastNanoseconds)));
}

}  // namespace

Chunks choose_chunks(const Work& work, unsigned workers, int& left_of_binding) {
  uint64_t shares = std::clamp<uint64_t>(workers, 1, INT32_MAX);  // tiles can be no more
  if (work.nanoseconds) shares = std::min(shares, shares_worth(*work.nanoseconds));
  std::array<uint64_t, kMaxCuts> parts;
  parts.fill(1);
  Division best = *divided(work, parts, shares);
  if (shares == 1 || work.tiles == 0) return best.chunks;

  uint64_t left = shares;
  for (size_t k = 0; k < work.num_axes; ++k) left /= parts[k] = std::clamp<uint64_t>(work.axes[k].units, 1, left);
  const auto first = parts;
  double least = best.share;
  const int most = std::clamp(left_of_binding, 1, kMostTries);
  int tries = 0;
  do {
    if (const auto d = divided(work, parts, shares)) least = std::min(least, d->share);
  } while (++tries < most && advance(parts, work, shares));
  left_of_binding -= std::min(tries, left_of_binding);

  parts = first;
  tries = 0;
  bool found = false;
  do {
    const auto d = divided(work, parts, shares);
    if (!d || d->share > least * 1.03 || (found && d->bytes >= best.bytes)) continue;
    best = *d;
    found = true;
  } while (++tries < most && advance(parts, work, shares));
  return best.chunks;
}

}  // namespace mlc::exec
