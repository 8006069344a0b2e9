// Which products tensor cores do, by which instructions and tiles.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;

namespace {

constexpr double kLeastMmaSide = 32, kLeastMmaDepth = 32, kLeastShortSide = 16;  // a tile half of which is empty is worth it where an instruction does 8 or 16 times as much as lanes
constexpr unsigned kStagesOfCopies = 3;      // the largest tile has room for as many in what a block has on every device
constexpr size_t kRankedOfInstruction = 3;
constexpr double kMostMmaWaste = 1.25;            // steps of a piece beside those that exist

double whole_pieces(double steps, int64_t depth) { return std::ceil(steps / static_cast<double>(depth)) * static_cast<double>(depth); }

// What the cost wants to know of the product; the depth is in its order.
MmaWork mma_work(const FlatNest& nest, const DeviceProduct& p) {
  MmaWork work;
  const DType factors = factors_of(p);
  work.values = static_cast<double>(cell_values(factors));
  work.last = estimate(p.depth.back()->extent);
  if (factors == DType::F32) {
    const bool both = is_short(p.rows.factor) && is_short(p.columns.factor);
    work.products = both ? 1 : 3, work.is_split = !both;
  }
  if (p.cluster) work.parts = static_cast<double>(p.cluster->extent->i);
  // Behind the sum each operation is done once, however often its result is used.
  Facts facts;
  std::unordered_set<const Expr*> seen{p.fold};
  std::vector<const Expr*> left{nest.writes[0].value};
  while (!left.empty()) {
    const Expr* e = left.back();
    left.pop_back();
    if (!seen.insert(e).second) continue;
    if (e->op == ir::Op::Load) {
      work.end_loads += std::any_of(p.rows.dims.begin(), p.rows.dims.end(), [&](const ir::Dim* d) { return facts.depends(e, d); });
      continue;
    }
    work.end_operations += !e->args.empty();
    left.insert(left.end(), e->args.begin(), e->args.end());
  }
  return work;
}

struct Costs {
  double cycles = 0;
  schedule::Schedule how;
};

// By all tiles, best first.
std::vector<Costs> costs_of(const Job& job, const DeviceProduct& p, const ProductSize& size, MmaWork work, const schedule::Schedule& base, const std::vector<std::string>& instructions) {
  const int64_t depth = kCellsOfChunk * kRowChunks * cell_values(factors_of(p));
  const bool flat = p.depth.size() > 1 && whole_pieces(work.last, depth) > kMostMmaWaste * work.last && whole_pieces(size.depth, depth) * work.last < whole_pieces(work.last, depth) * size.depth;
  const SidesCopied copied = sides_copied(job, p, flat);
  work.rows_copied = copied.rows, work.columns_copied = copied.columns;
  std::vector<Costs> costs;
  for (const std::string& instruction : instructions)
    for (const int64_t rows : {128, 64, 32})
      for (const int64_t columns : {256, 128, 64, 32}) {
        schedule::Schedule s = base;
        s.instruction = instruction;
        const bool is_group = schedule::is_group_mma(s), is_matrix = schedule::is_matrix(s);
        if (is_matrix && rows + columns > schedule::kMostMatrixSides) continue;
        if (is_group ? rows < loop::kGroupRows || columns < loop::kGroupRows || columns > 2 * rows : columns > 128) continue;
        // Sums of groups of warps take more memory on their way out than pieces do.
        s.tile = {rows, columns, depth, 1, flat, copied.rows || copied.columns ? kStagesOfCopies + is_group : 2};
        s.block = static_cast<unsigned>(is_matrix ? schedule::kMatrixBlock : is_group ? 2 * rows : rows == 128 && columns == 128 ? 256 : 128);
        costs.push_back({cycles_of_mma(job.device(), size, work, s), s});
      }
  std::stable_sort(costs.begin(), costs.end(), [](const Costs& a, const Costs& b) { return a.cycles < b.cycles; });
  return costs;
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
  if (job.target.has_group_mma && factors != DType::F32) all.push_back("wgmma." + std::string(name_of(factors)));
  return all;
}

std::vector<schedule::Schedule> mma_schedules(const Job& job, const FlatNest& nest, const DeviceProduct& p, const ProductSize& size, const schedule::Schedule& base, const std::vector<std::string>& instructions) {
  if (instructions.empty()) return {};
  std::vector<schedule::Schedule> ranked;
  std::map<std::string, size_t> taken;
  for (const Costs& one : costs_of(job, p, size, mma_work(nest, p), base, instructions))
    if (taken[one.how.instruction]++ < kRankedOfInstruction) ranked.push_back(one.how);
  return ranked;
}

double least_mma_cycles(const Job& job, const FlatNest& nest, DeviceProduct p, ProductSize size, const std::vector<std::string>& instructions, const ir::Dim* cut, int64_t parts, bool in_cluster) {
  order_depth(p);
  MmaWork work = mma_work(nest, p);
  const auto n = static_cast<double>(parts);
  size.depth /= n, size.batch *= n;
  if (cut == p.depth.back()) work.last /= n;
  if (parts > 1 && in_cluster) work.parts = n;
  if (parts > 1 && !in_cluster) work.end_operations = work.end_loads = 0;  // another launch has the end
  return costs_of(job, p, size, work, {}, instructions).front().cycles;
}

}  // namespace mlc::lower
