// How much of a device a product keeps busy, and what that makes of its time: the table of machines, and the model by which tiles,
// slices and parts of the fold (split-K) are chosen. Cycles of the model are good for comparisons and for nothing else.
#pragma once

#include <cstdint>

#include "targets/target.h"

namespace mlc::lower {

// The machine that a target stands for where nothing says more, a common one for such code. Results do not depend on it.
struct DeviceMachine {
  const char* targets;    // names begin so
  double multiprocessors;
  double warps;           // at once on one of them, at most
  double shared_bytes;    // of one of them
  double lanes;           // multiplications and additions of one of them in a cycle
  double bytes;           // that memory brings to all of them in a cycle
};
const DeviceMachine& machine_of(const targets::Target& target);

// Of a product: its rows, columns and batches, and how much each of its points folds.
struct ProductSize {
  double rows = 1, columns = 1, batch = 1, depth = 1;
};

// Cycles by tiles of so many rows and columns, which take `shared` bytes of memory.
double cycles_of_tiles(const DeviceMachine& machine, const ProductSize& size, int64_t rows, int64_t columns, int64_t shared);
// Cycles by blocks of all rows of so many columns: `lanes` share a column, each has so many loads under way.
double cycles_of_slices(const DeviceMachine& machine, const ProductSize& size, int64_t columns, int64_t lanes, int64_t copies);
// Cycles of the launch that adds so many partial sums of each point.
double cycles_of_adding(const DeviceMachine& machine, const ProductSize& size, int64_t parts);

}  // namespace mlc::lower
