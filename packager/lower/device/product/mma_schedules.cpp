// Which products tensor cores do, by which instructions and tiles.
#include <algorithm>
#include <cmath>

#include "packager/lower/device/product/mma.h"

namespace mlc::lower {
namespace {

constexpr double kLeastGroupSide = loop::kGroupRows, kLeastGroupDepth = 128;  // of rows and columns; of the depth
constexpr double kLeastMmaSide = 32, kLeastMmaDepth = 32, kLeastShortSide = 16;  // a tile half of which is empty is worth it where an instruction does 8 or 16 times as much as lanes
constexpr unsigned kStagesOfCopies = 3;      // the largest tile has room for as many in what a block has on every device
constexpr double kMostMmaWaste = 1.25;            // steps of a piece beside those that exist

double whole_pieces(double steps, int64_t depth) { return std::ceil(steps / static_cast<double>(depth)) * static_cast<double>(depth); }

// What a tile takes, for all blocks; as if there were many, if there are few.
double mma_cost(const targets::DeviceRow& machine, const ProductSize& size, int64_t rows, int64_t columns) {
  const double blocks = std::ceil(size.rows / static_cast<double>(rows)) * std::ceil(size.columns / static_cast<double>(columns)) * size.batch;
  return std::max(blocks, machine.mma_blocks * machine.multiprocessors) * static_cast<double>(rows * columns) * (1 + machine.mma_load_operations * (1 / static_cast<double>(rows) + 1 / static_cast<double>(columns)));
}

// Whether products by groups of warps are worth it: where their smallest tiles, half of which should not be empty, are a block for each multiprocessor. Behind a short
// depth it is the end of a tile that takes the time, of which smaller tiles do more at once. `size` has the depth that a block of a cluster has.
bool is_worth_groups(const Job& job, const DeviceProduct& p, const ProductSize& size) {
  const double blocks = std::ceil(size.rows / double{loop::kGroupRows}) * std::ceil(size.columns / double{loop::kGroupRows}) * size.batch;
  return blocks >= job.device().multiprocessors && size.depth * (p.cluster ? estimate(p.cluster->extent) : 1) >= kLeastGroupDepth;
}

}  // namespace

std::vector<std::string> mma_instructions(const Job& job, const DeviceProduct& p, const ProductSize& size) {
  const DType factors = factors_of(p);
  const bool by_matrices = job.target.matrix_side && p.sum() == DType::F32 && factors == DType::F16;
  if (!by_matrices && (!job.target.has_mma || (p.sum() != DType::F32 && !is_product_of_codes(p)))) return {};
  const double side = factors == DType::F32 ? kLeastMmaSide : kLeastShortSide;
  if (size.rows < side || size.columns < side || size.depth < kLeastMmaDepth) return {};
  if (by_matrices) return {"matrix.f16"};
  std::vector<std::string> all{"mma." + std::string(name_of(factors))};
  if (job.target.has_group_mma && factors != DType::F32 && size.rows >= kLeastGroupSide && size.columns >= kLeastGroupSide)
    all.insert(is_worth_groups(job, p, size) ? all.begin() : all.end(), "wgmma." + std::string(name_of(factors)));
  return all;
}

std::vector<schedule::Schedule> mma_schedules(const Job& job, const DeviceProduct& p, const ProductSize& size, schedule::Schedule base, const std::string& instruction) {
  base.instruction = instruction;
  const int64_t depth = kCellsOfChunk * kRowChunks * cell_values(factors_of(p));
  const double last = estimate(p.depth.back()->extent), all = estimate(p.depth_points);
  const bool flat = p.depth.size() > 1 && whole_pieces(last, depth) > kMostMmaWaste * last && whole_pieces(all, depth) * last < whole_pieces(last, depth) * all;
  // Sums of groups of warps take more memory on their way out than pieces do.
  const bool is_group = schedule::is_group_mma(base), is_matrix = schedule::is_matrix(base);
  const unsigned stages = copies_any(job, p, flat) ? kStagesOfCopies + is_group : 2;
  std::vector<std::pair<double, schedule::Schedule>> costs;
  for (const int64_t rows : {128, 64, 32})
    for (const int64_t columns : {256, 128, 64, 32}) {
      if (is_group ? rows < loop::kGroupRows || columns < loop::kGroupRows || columns > 2 * rows : columns > 128) continue;
      schedule::Schedule s = base;
      s.tile = {rows, columns, depth, 1, flat, stages};
      if (is_matrix && rows + columns > schedule::kMostMatrixSides) continue;
      s.block = static_cast<unsigned>(is_matrix ? schedule::kMatrixBlock : is_group ? 2 * rows : rows == 128 && columns == 128 ? 256 : 128);
      costs.emplace_back(mma_cost(job.device(), size, rows, columns), s);
    }
  std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<schedule::Schedule> ranked;
  for (size_t k = 0; k < 3; ++k) ranked.push_back(costs[k].second);
  return ranked;
}

}  // namespace mlc::lower
