// How much of a device a product keeps busy, and what that makes of its time by the row of its machine (targets/machines.tbl): the model by which tiles,
// slices and parts of the fold (split-K) are chosen. Cycles of the model are good for comparisons and for nothing else.
#pragma once

#include <cstdint>

#include "packager/schedule/schedule.h"
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
// What a product on tensor cores is beside its size.
struct MmaWork {
  double values = 1;           // of the depth in a cell of 32 bits
  double products = 1;         // by instructions, of one: three of f32
  double last = 1;             // points of the dim of the depth that goes by in pieces, unless all of it does: a ring of pieces begins for each point of the others
  int64_t rows_copied = 0, columns_copied = 0;  // bytes that a lane copies at once, beside itself: a chunk or a cell; 0: it loads element by element
  bool is_split = false;       // factors are a high and a low part, which lanes make
  double end_operations = 0;   // of a point, behind its sum
  double end_loads = 0;        // the same: loads that are of its row, and are waited for
  double parts = 1;            // blocks of a cluster that have its fold, which are in the batch of its size
};
// What a block of warps takes of a multiprocessor, in cycles (`functions`: powers of two); instructions of each of its warps; cycles in which all of them wait, if the block is alone.
struct WarpCycles {
  double slots = 0, memory = 0, products = 0, functions = 0, waits = 0;
  void add(const WarpCycles& other, double times) {
    slots += other.slots * times, memory += other.memory * times, products += other.products * times, functions += other.functions * times, waits += other.waits * times;
  }
};
// Cycles of so many blocks, of which one multiprocessor holds `resident`.
double cycles_of_blocks(const targets::DeviceRow& machine, const WarpCycles& block, double warps, double blocks, double resident);
// Cycles by a tile of warps: of its multiprocessors' pieces and ends of tiles, and of the cache that factors come from.
double cycles_of_mma(const targets::DeviceRow& machine, const ProductSize& size, const MmaWork& work, const schedule::Schedule& how);
// Cycles by blocks of all rows of so many columns: `lanes` share a column, each has so many loads under way.
double cycles_of_slices(const targets::DeviceRow& machine, const ProductSize& size, int64_t columns, int64_t lanes, int64_t copies);
// Cycles of the launch that adds so many partial sums of each point.
double cycles_of_adding(const targets::DeviceRow& machine, const ProductSize& size, int64_t parts);

}  // namespace mlc::lower
