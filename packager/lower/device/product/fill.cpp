#include "packager/lower/device/product/fill.h"

#include <algorithm>
#include <cmath>

#include "packager/lower/device/product/chunks.h"
#include "packager/lower/device/product/tile.h"

namespace mlc::lower {
namespace {

// Of a tile of warps, in instructions of a warp (SASS of sm_90): a turn beside its products, loads and copies; a copy of a lane; one of a cell of several values, whose place is computed in each
// turn, in a turn and before the first one, and what these take that have such; of a window one that has its own tap, in a turn and before the first one; an element that goes through registers; halves of a chunk; a sum that is added to others behind a piece.
constexpr double kTurnSlots = 40, kGroupTurnSlots = 62, kCopySlots = 3, kRunSlots = 5, kFirstRunSlots = 40, kRunsSlots = 10, kFirstRunsSlots = 230, kTapSlots = 17, kFirstTapSlots = 40, kElementSlots = 10, kTapElementSlots = 60, kHalvesSlots = 8, kSumSlots = 4;
// What begins a block, and a ring of copies; a sum on its way to memory, and what a lane does for a point behind it.
constexpr double kBlockSlots = 550, kRingSlots = 40, kStoreSlots = 2, kEndSlots = 14;
constexpr double kElementWaits = 0.7;  // latencies of an element that goes through registers: conditions part most of them
constexpr double kBroughtForward = 4;  // turns of the loop over rows whose loads are waited for together, where each row exists
// Registers of a lane: places and addresses, and for each sum.
constexpr double kOtherRegisters = 36, kGroupRegisters = 44, kHalvesRegisters = 40, kSumRegisters = 1.4;
constexpr double kMmaSteps = 2, kMmaRowsOfTile = 16, kMmaColumnsOfTile = 8, kWarp = 32;

// A block of warps: how they share its tile, and what it takes of a multiprocessor.
struct WarpTile {
  WarpTile(const targets::DeviceRow& machine, const MmaWork& work, const schedule::Schedule& how)
      : m(machine), w(work), rows(static_cast<double>(how.tile.rows)), columns(static_cast<double>(how.tile.columns)), lanes(how.block), warps(lanes / kWarp), stages(how.tile.stages),
        is_group(schedule::is_group_mma(how)), is_flat(how.tile.flat), warp_rows(is_group ? warps : 2), of_warp_rows(rows / warp_rows), of_warp_columns(is_group ? columns : columns / (warps / warp_rows)) {}

  const targets::DeviceRow& m;
  const MmaWork& w;
  const double rows, columns, lanes, warps, stages;
  const bool is_group, is_flat;
  const double warp_rows, of_warp_rows, of_warp_columns;

  double sums() const { return rows * columns / lanes; }
  // Of a lane: copies of so many bytes in a piece, and elements that it loads one by one.
  double copies(int64_t bytes) const { return brought(bytes) * kRowChunks * kChunkBytes / static_cast<double>(bytes) / lanes; }
  bool has_runs() const { return !is_flat && w.values > 1 && copies(kCellBytes) > 0; }
  double elements() const { return brought(0) * kRowChunks * kCellsOfChunk * w.values / lanes; }
  double piece_bytes() const { return (rows + columns) * kRowChunks * kChunkBytes; }
  double shared_per_cycle() const { return static_cast<double>(m.banks) * kCellBytes; }
  double shared() const { return std::max(stages * piece_bytes(), warp_rows * kMmaRowsOfTile * (columns + kCellsOfChunk * 2) * kCellBytes); }
  double resident() const {
    const double registers = std::ceil((is_group ? kGroupRegisters + sums() : kOtherRegisters + kSumRegisters * sums() + (w.is_split ? kHalvesRegisters : 0)) / 8) * 8;
    const double held = std::min({m.warps / warps, m.register_bytes / kCellBytes / (registers * lanes), m.shared_bytes / (shared() + 1024)});
    return std::max(1.0, std::floor(held));
  }

 private:
  // Rows and columns of the tile that come by so many bytes.
  double brought(int64_t bytes) const { return (w.rows_copied == bytes ? rows : 0) + (w.columns_copied == bytes ? columns : 0); }
};

// Copies of a lane for a piece: of a window each has its tap, else of cells of several values each has its place.
double slots_of_copies(const WarpTile& b, double of_tap, double of_run) {
  if (b.is_flat) return (b.copies(kChunkBytes) + b.copies(kCellBytes)) * of_tap;
  return b.copies(kChunkBytes) * kCopySlots + b.copies(kCellBytes) * (b.has_runs() ? of_run : kCopySlots);
}

// A piece without the wait for its copies.
WarpCycles of_turn(const WarpTile& b) {
  const double tiles = b.of_warp_rows / kMmaRowsOfTile * b.of_warp_columns / kMmaColumnsOfTile;
  const double loads = b.is_group ? 0 : b.of_warp_rows / kMmaRowsOfTile * kMmaSteps + b.of_warp_columns / kMmaColumnsOfTile;
  const double products = b.is_group ? kMmaSteps : tiles * kMmaSteps * b.w.products, read = b.is_group ? 0 : b.warps * (b.of_warp_rows + b.of_warp_columns) * kRowChunks * kChunkBytes;
  WarpCycles c;
  c.slots = (b.is_group ? kGroupTurnSlots : kTurnSlots) + products + loads * (1 + (b.w.is_split ? kHalvesSlots : 0)) + slots_of_copies(b, kTapSlots, kRunSlots) + (b.has_runs() ? kRunsSlots : 0) + b.elements() * (b.is_flat ? kTapElementSlots : kElementSlots) +
            (b.w.values == 1 ? tiles * kSumSlots : 0);
  c.memory = (2 * b.piece_bytes() + read) / b.shared_per_cycle();
  c.products = b.rows * b.columns * kRowChunks * kCellsOfChunk * b.w.products / (b.is_group ? b.m.group_cells_per_cycle : b.m.mma_cells_per_cycle);
  c.waits = b.m.barrier_cycles + b.elements() * kElementWaits * b.m.latency_cycles;
  return c;
}

// What so many turns of a ring wait for copies: for the first piece, then for what copies of some turns take longer than these. While products of groups are under way, copies come nearer.
WarpCycles of_ring(const WarpTile& b, const WarpCycles& turn, double turns) {
  const double ahead = b.stages - 1, near = turn.slots * b.m.slot_cycles + (b.is_group ? turn.products * loop::kGroupRows / b.rows : 0);
  WarpCycles c;
  c.slots = kRingSlots + ahead * slots_of_copies(b, kFirstTapSlots, kFirstRunSlots) + (b.has_runs() ? kFirstRunsSlots : 0);
  c.waits = b.m.barrier_cycles + b.m.latency_cycles + std::max(0.0, turns / ahead - 1) * std::max(0.0, b.m.latency_cycles - ahead * near);
  return c;
}

// The beginning of a block; sums on their way out, by way of memory, and what becomes of them.
WarpCycles of_ends(const WarpTile& b, bool is_ragged) {
  const double turns = b.sums(), rounds = b.of_warp_rows / kMmaRowsOfTile, mine = turns / b.w.parts;
  WarpCycles c;
  c.slots = kBlockSlots + turns * kStoreSlots + mine * (kEndSlots + b.w.end_operations);
  c.memory = (2 + 1 + b.w.end_loads) * turns * b.lanes * kCellBytes / b.shared_per_cycle();
  c.waits = rounds * (b.w.parts > 1 ? b.m.cluster_cycles : 2 * b.m.barrier_cycles);
  if (b.w.end_loads > 0) c.waits += mine / (is_ragged ? 1 : kBroughtForward) * b.m.latency_cycles;
  return c;
}

}  // namespace

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

double cycles_of_blocks(const targets::DeviceRow& machine, const WarpCycles& block, double warps, double blocks, double resident) {
  // What a block occupies, and how long it takes alone: its warps meet at barriers, and all load, or all multiply.
  const double issue = block.slots * warps / machine.slots_per_cycle, longest = std::max({issue, block.memory, block.products, block.functions});
  const double alone = std::max(issue + block.memory + block.products + block.functions, block.slots * machine.slot_cycles) + block.waits;
  // Blocks that fit at once hinder each other where one is occupied, and hide each other's waits. The multiprocessor with the most blocks decides.
  const double busiest = std::ceil(blocks / machine.multiprocessors), full = std::floor(busiest / resident), rest = busiest - full * resident;
  return full * std::max(resident * longest, alone) + (rest > 0 ? std::max(rest * longest, alone) : 0);
}

double cycles_of_mma(const targets::DeviceRow& machine, const ProductSize& size, const MmaWork& work, const schedule::Schedule& how) {
  const WarpTile b(machine, work, how);
  const double blocks = std::max(1.0, std::ceil(size.rows / b.rows) * std::ceil(size.columns / b.columns) * size.batch);
  const double points = how.tile.flat ? size.depth : work.last, rings = std::max(1.0, size.depth / points), turns = std::ceil(points / static_cast<double>(how.tile.depth));
  const WarpCycles turn = of_turn(b);
  WarpCycles c;
  c.add(turn, rings * turns);
  c.add(of_ring(b, turn, turns), rings);
  c.add(of_ends(b, std::fmod(size.rows, b.rows) != 0), 1);
  const double cycles = cycles_of_blocks(machine, c, b.warps, blocks, b.resident());
  const double bytes = blocks * rings * turns * b.piece_bytes() + size.rows * size.columns * size.batch / work.parts * kCellBytes * (1 + work.end_loads);
  return std::hypot(cycles, bytes / machine.cache_bytes_per_cycle);
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
