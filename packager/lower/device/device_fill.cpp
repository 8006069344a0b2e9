#include "packager/lower/device/device_fill.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace mlc::lower {

namespace {

// Vulkan's numbers are those of a card for desktops of some years ago, between what phones have and what servers have.
constexpr DeviceMachine kMachines[] = {
    // targets      SMs  warps  shared  lanes  bytes
    {"cuda-sm75",    68,  32,    65536,   64,   400},
    {"cuda-sm80",   108,  64,   167936,   64,  1100},
    {"cuda-sm90",   132,  64,   233472,  128,  1900},
    {"cuda",        108,  64,   167936,   64,  1100},
    {"",             40,  32,    65536,   64,   300},
};

constexpr double kLanesOfWarp = 32, kLanes = 128;   // of the machine that the costs below are about
constexpr double kTileWarps = 2, kBusyWarps = 8;  // of a tile; that hide how long loads take, on one multiprocessor
constexpr double kLoadCost = 8;                   // of an element from shared memory, beside a product
constexpr double kLaneSide = 8;                   // lanes of a tile along each of its sides
constexpr double kSliceWarps = 4, kLatency = 700;  // cycles of a load from memory
constexpr double kLaunch = 2600, kAddingTurn = 150;  // cycles of one launch more, and of an addition in it, whose load waits little
constexpr double kSharedBytesPerCycle = 3000;        // of the cache of all multiprocessors, where partial sums are

}  // namespace

const DeviceMachine& machine_of(const targets::Target& target) {
  const std::string_view name = target.name;
  return *std::find_if(std::begin(kMachines), std::end(kMachines), [&](const DeviceMachine& m) { return name.starts_with(m.targets); });
}

double cycles_of_tiles(const DeviceMachine& machine, const ProductSize& size, int64_t rows, int64_t columns, int64_t shared) {
  const double blocks = std::max(1.0, std::ceil(size.rows / static_cast<double>(rows)) * std::ceil(size.columns / static_cast<double>(columns)) * size.batch);
  const auto r = static_cast<double>(rows) / kLaneSide, c = static_cast<double>(columns) / kLaneSide;
  // Blocks that one multiprocessor wants at least; where its memory holds fewer, it waits the rest of the time.
  const double wanted = kBusyWarps / kTileWarps;
  const double held = std::clamp(std::floor(machine.shared_bytes / static_cast<double>(std::max<int64_t>(shared, 1))), 1.0, machine.warps / kTileWarps);
  const double full = std::min(wanted, held);
  const double waves = std::max(blocks / machine.multiprocessors, full);
  return size.depth * (r * c + kLoadCost * (r + c)) * waves / full * (kLanes / machine.lanes);
}

double cycles_of_slices(const DeviceMachine& machine, const ProductSize& size, int64_t columns, int64_t lanes, int64_t copies) {
  const double blocks = std::max(1.0, std::ceil(size.columns / static_cast<double>(columns)) * size.batch);
  const double turns = std::ceil(size.depth / static_cast<double>(lanes * copies));
  const double at_once = machine.multiprocessors * machine.warps / kSliceWarps;
  const double waiting = turns * kLatency * std::ceil(blocks / at_once);
  return std::max(waiting, size.depth * size.columns * size.batch * sizeof(float) / machine.bytes);
}

double cycles_of_adding(const DeviceMachine& machine, const ProductSize& size, int64_t parts) {
  const double points = size.rows * size.columns * size.batch, n = static_cast<double>(parts);
  const double waves = std::max(1.0, points / (machine.multiprocessors * machine.warps * kLanesOfWarp));
  return kLaunch + kLatency + n * kAddingTurn * waves + 2 * n * points * sizeof(float) / kSharedBytesPerCycle;
}

}  // namespace mlc::lower
