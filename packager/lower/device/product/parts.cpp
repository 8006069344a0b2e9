// Which products are more than one kernel. Where rows times columns are too few blocks for a device, the fold is cut in parts, whose sums
// the blocks of a cluster add, or a second launch, in their order (split-K): bits are equal from run to run, and so is the text. Where the run decides how
// many rows there are, a kernel for one of them, for a sentence and for a long text would be three schedules, and they are: a launch
// whose case it is not has no tiles.
#include "packager/lower/device/product/parts.h"

#include <algorithm>

#include "packager/ir/typical.h"
#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;

namespace {

constexpr int64_t kMostFoldParts = 32;
constexpr double kMostLeft = 0.75;         // of the time, or a launch more is not worth it
constexpr double kMostLeftInCluster = 0.9, kMostLeftByWarps = 0.97;  // or blocks that have to run at once are not; the cost of warps has what a cluster takes
constexpr int64_t kMostClustered = 8191, kLeastTileSide = 32, kLeastSliceColumns = 4;  // blocks before they are cut in at most eight parts, which are one row of a grid (65,535)
constexpr double kAsGood = 1.15, kAsGoodByWarps = 1.03;  // fewer parts that take so much longer at most write and read less; the cost of warps knows that
constexpr int64_t kPartMultiple = 16;      // steps, whole pieces of tiles
constexpr double kLeastOfTiles = 64, kLeastOfSlices = 128;  // steps of a part
constexpr double kLeastWeights = 8192;     // steps times columns: below, one kernel does for all numbers of rows
constexpr int64_t kSomePoints = 256;       // of a sentence
constexpr auto kTypicalPoints = static_cast<double>(ir::Guess::Sentence);
constexpr int64_t kSomeUnits = 4, kLarge = 2;  // images in a batch; times more are many, and those just above some still fill a device
constexpr int64_t kTiles[] = {64, 32, 16};
constexpr int64_t kTileSteps = 16, kSliceColumns[] = {16, 8};

bool is_slices(const FlatNest& nest, const DeviceProduct& p) {
  const auto few = [&](const Expr* points) { return points->is_const() ? points->i <= 2 * kFewFreeRows : nest.product.most == kFewFreeRows; };
  return few(p.rows.points) || few(p.columns.points);
}

double cycles(const targets::DeviceRow& machine, ProductSize size, bool slices, double operations) {
  double least = 1e300;
  if (slices) {
    if (size.columns < size.rows) std::swap(size.rows, size.columns);
    for (const int64_t c : kSliceColumns) least = std::min(least, cycles_of_slices(machine, size, c, kSliceLanes / c, slice_copies(kFewFreeRows)));
    return least;
  }
  for (const int64_t r : kTiles)
    for (const int64_t c : kTiles) least = std::min(least, cycles_of_tiles(machine, size, r, c, (r + c) * kTileSteps * int64_t{sizeof(float)}, operations));
  return least;
}

// Of the grid, whatever the run has; a large number if that is not known.
int64_t most_blocks(const FlatNest& nest, const DeviceProduct& p, bool slices) {
  const auto most = [&](const Expr* points) {
    const int64_t hi = ir::interval_of(points).hi;
    return !points->is_const() && nest.product.most > 0 ? std::min(hi, nest.product.most) : hi;
  };
  int64_t blocks = 1;
  const auto times = [&](int64_t n) { blocks = n > kMostClustered || blocks > kMostClustered ? kMostClustered + 1 : blocks * n; };
  for (const ir::Dim* d : p.batch) times(most(d->extent));
  for (const DeviceProduct::Side* side : {&p.rows, &p.columns}) {
    const int64_t points = most(side->points), of_block = slices ? (side == &p.rows ? 1 : kLeastSliceColumns) : kLeastTileSide;
    times(points / of_block + 1);
  }
  return blocks;
}

}  // namespace

ProductSize product_size(const FlatNest& nest, const DeviceProduct& p) {
  const auto points = [&](const Expr* e) { return e->is_const() || nest.product.about == 0 ? estimate(e) : nest.product.about; };
  ProductSize size{points(p.rows.points), points(p.columns.points), 1, estimate(p.depth_points)};
  for (const ir::Dim* d : p.batch)
    if (ir::interval_of(d->extent).hi > 1) size.batch *= estimate(d->extent);
  if (p.cluster) size.batch *= static_cast<double>(p.cluster->extent->i);
  return size;
}

FoldParts fold_parts(const Job& job, const FlatNest& nest, const DeviceProduct& p) {
  if (nest.product.is_cut) return {};
  Facts facts;
  const ir::Dim* longest = nullptr;
  for (const ir::Dim* d : p.depth)
    if (d->extent->is_const() && !facts.depends(p.fold->fold->where, d) && (!longest || d->extent->i > longest->extent->i)) longest = d;
  if (!longest) return {};
  const targets::DeviceRow& machine = job.device();
  ProductSize whole = product_size(nest, p);
  const bool slices = is_slices(nest, p);
  const std::vector<std::string> mma = slices ? std::vector<std::string>{} : mma_instructions(job, p, whole);
  const bool by_warps = !mma.empty(), by_dots = !by_warps && !slices && !dot_instruction(job, p).empty();
  const int64_t codes = by_dots || (by_warps && is_product_of_codes(p)) ? loop::kCodesOfCell : 1;
  const double operations = by_dots ? operations_of_dot(machine) : 1;
  whole.depth /= static_cast<double>(codes);
  // Clusters lie along one row of a grid. Tiles by lanes are no part of one.
  const bool in_cluster = job.target.most_cluster_blocks > 1 && (slices || by_warps) && most_blocks(nest, p, slices) <= kMostClustered;
  const ProductSize size = product_size(nest, p);
  const auto cycles_of = [&](int64_t parts) {
    const double adding = parts == 1 || in_cluster ? 0 : cycles_of_adding(machine, whole, parts);
    if (by_warps) return least_mma_cycles(job, nest, p, size, mma, longest, parts, in_cluster) + adding;
    ProductSize one = whole;
    one.depth /= static_cast<double>(parts), one.batch *= static_cast<double>(parts);
    return cycles(machine, one, slices, operations) + adding + (parts > 1 && in_cluster ? machine.cluster_cycles : 0);
  };
  // Parts are whole pieces: of the dim that is cut, or because of the others, as with the patches of a picture.
  const int64_t piece = kPartMultiple * codes;
  int64_t left = 1;  // of the other dims together, by whole pieces
  for (const ir::Dim* d : p.depth)
    if (d != longest && d->extent->is_const()) left = left * (d->extent->i % piece) % piece;
  const auto is_whole = [&](int64_t parts) {
    const int64_t extent = longest->extent->i;
    return extent % (parts * piece) == 0 || (by_warps && extent % parts == 0 && left == 0);
  };
  const double alone = cycles_of(1), most_left = !in_cluster ? kMostLeft : by_warps ? kMostLeftByWarps : kMostLeftInCluster, as_good = by_warps ? kAsGoodByWarps : kAsGood;
  std::vector<std::pair<int64_t, double>> all;
  double least = alone * most_left / as_good;
  for (int64_t parts = 2; parts <= (in_cluster ? job.target.most_cluster_blocks : kMostFoldParts); ++parts) {
    if (!is_whole(parts) || whole.depth / static_cast<double>(parts) < (slices ? kLeastOfSlices : kLeastOfTiles)) continue;
    all.emplace_back(parts, cycles_of(parts));
    least = std::min(least, all.back().second);
  }
  const auto first = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.second <= least * as_good; });
  return first == all.end() ? FoldParts{} : FoldParts{longest, first->first, in_cluster};
}

std::vector<ProductCase> product_cases(const Job& job, const FlatNest& nest, const DeviceProduct& p) {
  const bool free_rows = !p.rows.points->is_const(), free_columns = !p.columns.points->is_const();
  if (nest.product.about > 0 || free_rows == free_columns || !p.depth_points->is_const()) return {};
  const Expr *free = (free_rows ? p.rows : p.columns).points, *other = (free_rows ? p.columns : p.rows).points;
  if (estimate(other) * estimate(p.depth_points) < kLeastWeights || other->i <= 2 * kFewFreeRows) return {};
  for (const ir::Dim* d : p.batch)
    if (!d->extent->is_const()) return {};
  const ir::Interval range = ir::interval_of(free);
  const int64_t unit = std::max({int64_t{1}, ir::divisor_of(free), range.lo});
  std::vector<ProductCase> cases;
  const bool is_window = p.depth.size() > 1;  // of pictures, which have more than a few points
  if (unit <= kFewFreeRows && !is_window) cases.push_back({1, kFewFreeRows});
  const int64_t some = std::max(kSomePoints, kSomeUnits * unit);
  cases.push_back({unit <= kFewFreeRows ? kTypicalPoints : static_cast<double>(unit), some});
  cases.push_back({static_cast<double>(kLarge * some), 0});
  // What the run cannot have, and neighbours that are the same.
  while (cases.size() > 1 && cases[cases.size() - 2].most >= range.hi) cases.pop_back();
  cases.back().most = 0;
  const auto text = [&](const ProductCase& c) {
    FlatNest one = nest;
    one.product = c;
    const auto all = device_products(job, one);
    const FoldParts parts = fold_parts(job, one, p);
    return (all ? schedule::print(all->ranked.front()) : "") + (parts.in_cluster ? " cluster " : " ") + std::to_string(parts.parts);
  };
  for (size_t k = 0; k + 1 < cases.size();)
    if (text(cases[k]) == text(cases[k + 1])) cases.erase(cases.begin() + static_cast<ptrdiff_t>(k));
    else ++k;
  return cases;
}

}  // namespace mlc::lower
