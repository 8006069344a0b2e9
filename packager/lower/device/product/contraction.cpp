// Schedules of products on devices: tiles where there are rows and columns enough, slices of the fold where rows are few. Nothing of
// both, where a lane for each point is as good: depthwise convolutions, outer products.
#include <algorithm>
#include <cmath>

#include "packager/lower/device/product/codes.h"
#include "packager/lower/device/product/mma.h"
#include "packager/lower/device/product/parts.h"
#include "packager/lower/device/product/tile.h"

namespace mlc::lower {

using ir::Expr;
using schedule::Bind;
using schedule::Family;

namespace {

constexpr int64_t kFewRows = 8;             // that lanes of slices have, all of them
constexpr double kLeastSides = 8;           // rows or columns of tiles, at least
constexpr double kLeastDepth = 8, kLeastSliced = 64;
constexpr int64_t kDepths[] = {16, 8}, kLeastCells = 4;  // steps
constexpr double kMostWaste = 1.25;         // steps of a piece beside those that exist
constexpr double kLongEpilogue = 14;        // operations
constexpr double kMostEpilogue = 256;       // of all sums of a lane, where each has code of its own; a dim of rows takes about kDecode
constexpr double kDecode = 3;
// Products of a lane in all copies of a step. SPIR-V is compiled where it runs, at the first start: there short code is better.
constexpr int64_t kMostProducts = 1024, kFewProducts = 128, kFewCopies = 4;
constexpr int64_t kPanelColumns = 16, kLongColumns = 4;  // of slices: side by side in memory, and not

class DeviceProducts {
 public:
  DeviceProducts(const Job& job, const FlatNest& nest, DeviceProduct p) : job_(job), n_(nest), ctx_(job.ctx), p_(std::move(p)) {}

  std::optional<Schedules> run() {
    order_depth(p_);
    if (is_few(p_.columns) && !is_few(p_.rows)) std::swap(p_.rows, p_.columns);
    const bool few = is_few(p_.rows);
    size_ = product_size(n_, p_);
    const double smaller = std::min(size_.rows, size_.columns), folded = size_.depth;
    if (few ? folded < kLeastSliced : smaller < kLeastSides || folded < kLeastDepth) return std::nullopt;
    Schedules s;
    find_space(s.space, few);
    if (few) {
      s.ranked.push_back(slices());
    } else {
      s.ranked = mma_schedules(job_, n_, p_, size_, base_, mma_);
      if (!p_.cluster) tiles(s.ranked);
    }
    s.build = [&job = job_, &nest = n_, p = p_, few](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
      DeviceProduct walked = p;
      if (is_mma(how)) return mma_stage(job, nest, k, walked, how);
      if (is_matrix(how)) return matrix_stage(job, nest, k, walked, how);
      return few ? slices_stage(job, nest, k, walked, how) : tile_stage(job, nest, k, walked, how);
    };
    return s;
  }

 private:
  bool is_few(const DeviceProduct::Side& side) const { return few_of(side) >= 1 && few_of(side) <= kFewRows; }
  // Of rows that lanes have, all of them, whether the run has so many or not.
  int64_t few_of(const DeviceProduct::Side& side) const { return side.points->is_const() ? side.points->i : n_.product.most; }

  void find_space(schedule::Space& space, bool few) {
    space.family = few ? Family::Slices : Family::Tile;
    space.block = few ? kSliceLanes : kTileLanes;
    space.shared_bytes = kDeviceShared;
    space.instructions = {instruction()};
    if (!few) mma_ = mma_instructions(job_, p_, size_);
    if (!few) dot_ = dot_instruction(job_, p_);
    if (!dot_.empty()) space.instructions.push_back(dot_);
    space.instructions.insert(space.instructions.end(), mma_.begin(), mma_.end());
    if (few) space.tile_rows = few_of(p_.rows);
    else space.places = {"sums"};
    const auto add = [&](const ir::Dim* d, bool reduces) {
      schedule::Space::Dim& dim = space.dims.emplace_back();
      dim.name = names_.add(d);
      dim.extent = d->extent->is_const() ? d->extent->i : -1;
      dim.cluster = d == p_.cluster;
      dim.cut = !reduces && !dim.cluster;
      dim.serial = dim.reduces = reduces;
      base_.loops.push_back({.dim = dim.name, .bind = reduces ? Bind::Serial : dim.cluster ? Bind::Cluster : Bind::Grid, .reduces = reduces});
    };
    for (const auto* dims : {&p_.batch, &p_.rows.dims, &p_.columns.dims})
      for (const ir::Dim* d : *dims) add(d, false);
    if (p_.cluster) add(p_.cluster, false);
    for (const ir::Dim* d : p_.depth) add(d, true);
    base_.family = space.family;
    base_.block = space.block;
    base_.instruction = instruction();
    base_.vector_bytes = job_.vector_bytes();
  }

  std::string instruction() const { return (job_.target.has_fma && is_float(p_.sum()) ? "fma." : "mul.") + std::string(name_of(p_.sum())); }

  // Whether the columns lie along the depth, so that lanes should, too.
  bool is_along_depth() {
    const Expr* leaf[] = {ctx_.dim(p_.depth.back())};
    const auto linear = ir::linear_in(ctx_, p_.columns.factor.load->args[0], leaf);
    return linear && linear->coefficients[0]->is_int(1);
  }

  schedule::Schedule slices() {
    schedule::Schedule s = base_;
    const bool is_along = is_along_depth();
    // Half a panel is whole sectors of a line still.
    const auto cycles = [&](int64_t c) { return cycles_of_slices(job_.device(), size_, c, kSliceLanes / c, slice_copies(few_of(p_.rows))); };
    const int64_t columns = is_along ? kLongColumns : cycles(kPanelColumns / 2) < cycles(kPanelColumns) ? kPanelColumns / 2 : kPanelColumns;
    s.tile = {few_of(p_.rows), columns, kSliceLanes / columns, slice_copies(few_of(p_.rows)), false};
    s.tile.flat = p_.depth.size() > 1 && estimate(p_.depth.back()->extent) < static_cast<double>(4 * s.tile.depth);
    return s;
  }

  static double pieces(double steps, int64_t depth) { return std::ceil(steps / static_cast<double>(depth)) * static_cast<double>(depth); }

  void tiles(std::vector<schedule::Schedule>& ranked) {
    // In which pieces the depth wastes least. Where a step is a cell of codes they are as many steps deep, or less where the depth is short.
    const int64_t values = dot_.empty() ? 1 : loop::kCodesOfCell;
    const double last = estimate(p_.depth.back()->extent), all = estimate(p_.depth_points);
    std::vector<std::pair<bool, int64_t>> choices;
    for (const bool f : {false, true})
      for (const int64_t d : kDepths) choices.emplace_back(f, d * values);
    if (values > 1) choices.emplace_back(false, kLeastCells * values);
    int64_t depth = choices[0].second;
    double waste = 1e300;
    bool flat = false;
    for (const auto& [f, d] : choices) {
      const double steps = f ? all : last;
      const double here = pieces(steps, d) / std::max(steps, 1.0);
      if (here > kMostWaste ? here >= waste : waste <= kMostWaste) continue;
      waste = here, depth = d, flat = f;
    }
    flat &= p_.depth.size() > 1;
    ProductSize size = size_;
    size.depth /= static_cast<double>(values);
    std::vector<std::pair<double, schedule::Schedule>> costs;
    for (const int64_t rows : {64, 32, 16})
      for (const int64_t columns : {64, 32, 16}) {
        schedule::Schedule s = base_;
        const int64_t sums = rows / kTileSide * (columns / kTileSide);
        const int64_t copies = job_.target.llvm_triple.empty() ? std::min(kFewProducts / sums, kFewCopies) : kMostProducts / sums;
        s.tile = {rows, columns, depth, static_cast<unsigned>(std::clamp<int64_t>(copies, 1, depth / values)), flat};
        if (!dot_.empty()) s.instruction = dot_;
        if (is_long_epilogue(sums)) s.places = {{"sums", 1}};
        costs.emplace_back(cycles_of_tiles(job_.device(), size, rows, columns, shared_bytes(s), dot_.empty() ? 1 : operations_of_dot(job_.device())), s);
      }
    std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t k = 0; k < 4; ++k) ranked.push_back(costs[k].second);
  }

  bool is_long_epilogue(int64_t sums) {
    const double operations = facts_.cost(n_.writes[0].value) - facts_.cost(p_.fold);
    return operations > kLongEpilogue || static_cast<double>(sums) * (operations + kDecode * static_cast<double>(p_.rows.dims.size())) > kMostEpilogue;
  }

  int64_t shared_bytes(const schedule::Schedule& s) const {
    const int64_t factors = (s.tile.rows + s.tile.columns) * s.tile.depth / schedule::cell_values(s), sums = s.places.empty() ? 0 : s.tile.rows * s.tile.columns;
    return std::max(factors, sums) * static_cast<int64_t>(bytes_of(p_.sum()));
  }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  DeviceProduct p_;
  ProductSize size_;
  Facts facts_;
  DimNames names_;
  schedule::Schedule base_;
  std::vector<std::string> mma_;  // the instructions of tensor cores
  std::string dot_;               // that of cells of codes; empty: there is none for this product
};

}  // namespace

std::optional<Schedules> device_products(const Job& job, const FlatNest& nest) {
  auto p = product_for_device(job.ctx, nest);
  if (!p || p->depth.empty()) return std::nullopt;
  return DeviceProducts(job, nest, std::move(*p)).run();
}

}  // namespace mlc::lower
