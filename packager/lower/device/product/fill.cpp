#include "packager/lower/device/product/fill.h"

#include <algorithm>
#include <cmath>

#include "packager/lower/device/product/tile.h"

namespace mlc::lower {

double cycles_of_tiles(const targets::DeviceRow& machine, const ProductSize& size, int64_t rows, int64_t columns, int64_t shared, double operations) {
  const double blocks = std::max(1.0, std::ceil(size.rows / static_cast<double>(rows)) * std::ceil(size.columns / static_cast<double>(columns)) * size.batch);
  const auto r = static_cast<double>(rows) / kTileSide, c = static_cast<double>(columns) / kTileSide;
  // Blocks that one multiprocessor wants at least; where its memory holds fewer, it waits the rest of the time.
  const double warps = kTileLanes / machine.warp_lanes, wanted = machine.busy_warps / warps;
  const double held = std::clamp(std::floor(machine.shared_bytes / static_cast<double>(std::max<int64_t>(shared, 1))), 1.0, machine.warps / warps);
  const double full = std::min(wanted, held);
  const double waves = std::max(blocks / machine.multiprocessors, full);
  return size.depth * (operations * r * c + machine.load_operations * (r + c)) * waves / full * (machine.fitted_lanes / machine.fmas_per_cycle);
}

double cycles_of_slices(const targets::DeviceRow& machine, const ProductSize& size, int64_t columns, int64_t lanes, int64_t copies) {
  const double blocks = std::max(1.0, std::ceil(size.columns / static_cast<double>(columns)) * size.batch);
  const double turns = std::ceil(size.depth / static_cast<double>(lanes * copies));
  const double at_once = machine.multiprocessors * machine.warps / (kSliceLanes / machine.warp_lanes);
  const double waiting = turns * machine.latency_cycles * std::ceil(blocks / at_once);
  return std::max(waiting, size.depth * size.columns * size.batch * sizeof(float) / machine.memory_bytes_per_cycle);
}

double cycles_of_adding(const targets::DeviceRow& machine, const ProductSize& size, int64_t parts) {
  const double points = size.rows * size.columns * size.batch, n = static_cast<double>(parts);
  const double waves = std::max(1.0, points / (machine.multiprocessors * machine.warps * machine.warp_lanes));
  return machine.launch_cycles + machine.latency_cycles + n * machine.adding_cycles * waves + 2 * n * points * sizeof(float) / machine.cache_bytes_per_cycle;
}

}  // namespace mlc::lower
