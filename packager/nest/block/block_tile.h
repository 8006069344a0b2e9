// The innermost loop of sums of products: a few rows by a few vectors of lanes, whose sums stay in registers over many steps. The best
// form of it that this machine can run; all give the same bits, as each sum is made in the order of its steps and rounded twice per step.
#pragma once

#include <cstdint>

namespace mlc::nest {

constexpr int64_t kTileRows = 4;
// A panel holds lanes in units of so many bytes, one after another: each with all of its steps.
constexpr int64_t kUnitBytes = 64;
template <class T>
constexpr int64_t kUnit = kUnitBytes / static_cast<int64_t>(sizeof(T));

// total[row][lane] += x[step][lane] * y[row][step], for each step in turn.
template <class T>
struct Tile {
  T* total = nullptr;         // kTileRows rows of kUnit lanes
  int64_t total_row = 0;      // from one row to the next
  const T* x = nullptr;       // kUnit lanes of each step, dense
  const T* y[kTileRows] = {};
  int64_t y_step = 1;
  int64_t steps = 0;
};

// T: float, double, uint32_t, uint64_t.
template <class T>
void add_tile(const Tile<T>& tile);

}  // namespace mlc::nest
