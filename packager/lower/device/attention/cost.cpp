// What attention on tensor cores costs (attention/mma.cpp), in the terms of product/fill.h: instructions of a warp, the memory of a block, products, powers of two and waits, of a turn of keys and
// of what comes before and behind all turns.
#include <algorithm>
#include <cmath>

#include "packager/lower/device/attention/stages.h"
#include "packager/lower/device/product/fill.h"
#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;

namespace {

constexpr int64_t kMostShared = 48 << 10;  // bytes of a block, without asking for more
constexpr int64_t kBytesOfCell = 4;

// Instructions of a warp by SASS of sm_90: a turn beside what follows; a chunk that is copied, or goes through registers; halves of a chunk; a score and its weight, where the last turn has fewer
// keys, and where a weight is several numbers; a sum that fades, and one of f32 whose products begin at zero.
constexpr double kTurnSlots = 90, kCopySlots = 6, kLoadSlots = 16, kHalvesSlots = 8, kScoreSlots = 8, kEndOfKeysSlots = 3, kTermSlots = 4, kSumSlots = 1;
// A block beside its turns; a sum on its way to memory, a point behind it, and what other shares and blocks have of it.
constexpr double kKeptRegisters = 200, kSpilledTimes = 1.2;  // of f32: where more are expected the assembler spills some, and what that takes
constexpr double kBlockSlots = 500, kStoreSlots = 2, kEndSlots = 14, kShareSlots = 4;

// Operations of a score behind its product, and whether it is more: a mask, a bias. These are loaded in each turn.
struct Scored {
  double operations = 0;
  bool loads = false;
};
Scored scored(ir::Context& ctx, const Attention& a) {
  Scored s;
  ir::walk(ctx.substitute(a.score, {{a.product.fold, ctx.number(0, DType::F32)}}), [&](const Expr* e) { s.operations += !e->args.empty(), s.loads |= e->op == ir::Op::Load; });
  return s;
}

}  // namespace

DType attention_factors(const Attention& a) {
  const DType t = factors_of(a.product);
  return t == element_type(a.values.factor) ? t : DType::F32;
}

MmaMemory attention_mma_memory(const Attention& a, const schedule::Schedule& how) {
  const schedule::Tile& t = how.tile;
  const int64_t values = cell_values(attention_factors(a)), shares = schedule::key_shares(how);
  MmaMemory m;
  m.elements = filled_up(a.values.points->i, kElementsOfWarp);
  m.row_chunks = m.elements / (kCellsOfChunk * values) + 1;
  m.turn_chunks = t.columns * (t.depth / (kCellsOfChunk * values) + m.row_chunks);
  m.rows = ((shares == 1 ? 1 : 2 * shares) + (a.product.cluster != nullptr)) * t.rows;
  m.turns = 2 * m.turn_chunks * kBytesOfChunk + (m.rows + 1) * kBytesOfCell <= kMostShared ? 2 : 1;
  // Behind each row of sums is a pad: lanes that store four, or two, at once meet in no bank.
  m.width_of_results = kElementsOfWarp + (values == 1 ? 4 : 8);
  m.groups_at_once = std::clamp<int64_t>(m.turns * m.turn_chunks * kCellsOfChunk / (shares * t.rows * m.width_of_results), 1, m.elements / kElementsOfWarp);
  return m;
}

double attention_mma_registers(const Attention& a, const schedule::Schedule& how) {
  const schedule::Tile& t = how.tile;
  const DType factors = attention_factors(a);
  const int64_t values = cell_values(factors), elements = filled_up(a.values.points->i, kElementsOfWarp);
  // Queries, sums and scores, where it brings what to, and what is under way of keys, values and weights: as ptxas has it for sm_90 (2026-11-29).
  const auto cells = static_cast<double>(t.warp / kMmaRows * ((t.depth / values + elements) / 2 + t.columns / schedule::key_shares(how) / 2));
  const double brought = static_cast<double>(t.columns * (kRowChunks + elements / (kCellsOfChunk * values))) / how.block;
  // Chunks that are rounded on their way are registers while the turn before is multiplied.
  const bool holds = factors == DType::F32 && a.rounding == factors && attention_mma_memory(a, how).turns == 2;
  const double held = holds ? static_cast<double>(t.columns * (t.depth + elements)) / how.block : 0;
  return (factors == DType::F32 ? 2 * cells + 1.5 * brought : 1.4 * cells + brought) + held + (factors == DType::BF16 && a.rounding != factors ? 20 : 0);
}

double cycles_of_attention(const Job& job, const Attention& a, const AttentionSize& size, const schedule::Schedule& how) {
  const targets::DeviceRow& machine = job.device();
  const schedule::Tile& t = how.tile;
  const DType factors = attention_factors(a);
  const MmaMemory memory = attention_mma_memory(a, how);
  const bool is_f32 = factors == DType::F32, is_rounded = a.rounding == factors, is_split = is_f32 && !is_rounded;
  const auto values = static_cast<double>(cell_values(factors)), depth = static_cast<double>(t.depth), elements = static_cast<double>(memory.elements);
  const auto shares = static_cast<double>(schedule::key_shares(how)), rows = static_cast<double>(t.rows), columns = static_cast<double>(t.columns), lanes = static_cast<double>(how.block);
  const double parts = a.product.cluster ? static_cast<double>(a.product.cluster->extent->i) : 1, warps = lanes / kWarpLanes, tiles = static_cast<double>(t.warp) / kMmaRows, keys = columns / shares;
  // Products of a query and a key, in cells; of a weight, which is one number or several.
  const double terms = is_rounded ? 1 : factors == DType::F16 ? 2 : 3, cells = (depth * (is_split ? 3 : 1) + elements * terms) / values;
  const double loads = keys / kMmaColumns * depth / (kCellsOfChunk * kRowChunks * values) + (is_f32 ? keys / kMmaColumns * 2 * elements / kElementsOfWarp : keys / kMmaRows * elements / kMmaRows);
  const double scores = tiles * 2 * keys / kRowChunks, sums = tiles * elements / 2, chunks = columns * (depth + elements) / (kCellsOfChunk * values) / lanes;
  const Scored score = scored(job.ctx, a);
  const bool is_copied = is_split || !is_f32;

  WarpCycles turn;
  turn.slots = kTurnSlots + tiles * keys / kMmaColumns * cells / kMmaColumns + loads * (1 + (is_split ? kHalvesSlots : 0)) +
               scores * (kScoreSlots + score.operations + (has_whole_turns(a, static_cast<int64_t>(columns * parts)) ? 0 : kEndOfKeysSlots) + (terms > 1 ? kTermSlots : 0)) +
               sums * kSumSlots * (is_f32 ? 3 : 1) + chunks * (is_copied ? kCopySlots : kLoadSlots);
  const double bytes = static_cast<double>(memory.turn_chunks) * kBytesOfChunk;
  turn.memory = (2 * bytes + warps / shares * bytes) / (static_cast<double>(machine.banks) * kBytesOfCell);
  turn.products = rows * columns * cells / machine.mma_cells_per_cycle;
  turn.functions = rows * columns / machine.functions_per_cycle;
  const double near = turn.slots * machine.slot_cycles;
  turn.waits = (memory.turns == 2 ? 1 : 2) * machine.barrier_cycles + (memory.turns == 2 ? std::max(0.0, machine.latency_cycles - near) : machine.latency_cycles) + (score.loads ? machine.latency_cycles : 0);

  const double turns = std::ceil(size.keys / (columns * parts)), points = rows * elements / lanes / parts, rounds = std::ceil(elements / static_cast<double>(kElementsOfWarp * memory.groups_at_once));
  WarpCycles block;
  block.add(turn, turns);
  block.slots += kBlockSlots + sums * kStoreSlots + points * (kEndSlots + kShareSlots * (shares * parts - 1)) + tiles * depth / 2;
  block.memory += (2 + shares * parts) * points * lanes * kBytesOfCell / (static_cast<double>(machine.banks) * kBytesOfCell);
  block.waits += 2 * machine.latency_cycles + (shares > 1 ? 1 : 0) * machine.barrier_cycles + rounds * (2 * machine.barrier_cycles + (parts > 1 ? machine.cluster_cycles : 0));
  const double registers = std::ceil(attention_mma_registers(a, how) / 8) * 8;
  const double resident = std::max(1.0, std::floor(std::min({machine.warps / warps, machine.register_bytes / (kBytesOfCell * registers * lanes),
                                                             machine.shared_bytes / (static_cast<double>(memory.turns) * bytes + static_cast<double>(memory.rows * kBytesOfCell) + 1024)})));
  const double blocks = std::max(1.0, size.batch * std::ceil(size.queries / rows) * parts);
  const double spilled = is_f32 && registers > kKeptRegisters ? kSpilledTimes : 1;
  return spilled * std::hypot(cycles_of_blocks(machine, block, warps, blocks, resident), blocks * turns * bytes / machine.cache_bytes_per_cycle);
}

}  // namespace mlc::lower
