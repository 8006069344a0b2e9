// How much of a device a product keeps busy, and what that makes of its time by the row of its machine (targets/machines.tbl): the model by which tiles,
// slices and parts of the fold (split-K) are chosen. Cycles of the model are good for comparisons and for nothing else.
#pragma once

#include <cstdint>

#include "targets/machines.h"

namespace mlc::lower {

// Of a product: its rows, columns and batches, and how much each of its points folds.
struct ProductSize {
  double rows = 1, columns = 1, batch = 1, depth = 1;
};

// Cycles by tiles of so many rows and columns, which take `shared` bytes of memory. A product takes the time of so many multiply-adds.
double cycles_of_tiles(const targets::DeviceRow& machine, const ProductSize& size, int64_t rows, int64_t columns, int64_t shared, double operations = 1);
// That a product of four codes by four takes; the depth is counted in fours then.
constexpr double operations_of_dot(const targets::DeviceRow& machine) { return machine.fmas_per_cycle / machine.dots_per_cycle; }
// Cycles by blocks of all rows of so many columns: `lanes` share a column, each has so many loads under way.
double cycles_of_slices(const targets::DeviceRow& machine, const ProductSize& size, int64_t columns, int64_t lanes, int64_t copies);
// Cycles of the launch that adds so many partial sums of each point.
double cycles_of_adding(const targets::DeviceRow& machine, const ProductSize& size, int64_t parts);

}  // namespace mlc::lower
