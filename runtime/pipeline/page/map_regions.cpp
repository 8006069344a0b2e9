#include "runtime/pipeline/page/map_regions.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace mlc::pipeline {
namespace {

// Neighbouring elements of one row that are above the threshold.
struct RowRun {
  int32_t y = 0, first = 0, last = 0;
  uint32_t parent = 0;  // a run of the same region that is no later; the first run of a region is its own
};

uint64_t count_runs(const ScoreMap& map, float threshold) {
  uint64_t count = 0;
  for (int64_t y = 0; y < map.height; ++y) {
    bool before = false;
    for (int64_t x = 0; x < map.width; ++x) {
      const bool above = map.at(y, x) > threshold;
      count += above && !before;
      before = above;
    }
  }
  return count;
}

uint32_t root_of(std::vector<RowRun>& runs, uint32_t i) {
  while (runs[i].parent != i) i = runs[i].parent = runs[runs[i].parent].parent;
  return i;
}

void join(std::vector<RowRun>& runs, uint32_t a, uint32_t b) {
  a = root_of(runs, a), b = root_of(runs, b);
  runs[std::max(a, b)].parent = std::min(a, b);
}

// The runs in order, each with the first run of its region as its parent.
std::vector<RowRun> runs_of_regions(const ScoreMap& map, float threshold, uint64_t count) {
  std::vector<RowRun> runs;
  runs.reserve(count);
  size_t above = 0, above_end = 0;  // the runs of the row above that may touch
  for (int64_t y = 0; y < map.height; ++y) {
    const size_t begin = runs.size();
    for (int64_t x = 0; x < map.width; ++x) {
      if (!(map.at(y, x) > threshold)) continue;
      const int64_t first = x;
      while (x + 1 < map.width && map.at(y, x + 1) > threshold) ++x;
      const auto index = static_cast<uint32_t>(runs.size());
      runs.push_back({static_cast<int32_t>(y), static_cast<int32_t>(first), static_cast<int32_t>(x), index});
      while (above < above_end && runs[above].last + 1 < first) ++above;
      for (size_t k = above; k < above_end && runs[k].first <= x + 1; ++k) join(runs, static_cast<uint32_t>(k), index);
    }
    above = begin, above_end = runs.size();
  }
  for (uint32_t i = 0; i < runs.size(); ++i) runs[i].parent = root_of(runs, i);
  return runs;
}

// Of each run the region that it belongs to, of `regions`, or that number.
constexpr uint32_t kNoRegion = std::numeric_limits<uint32_t>::max();
std::vector<uint32_t> largest_regions(const std::vector<RowRun>& runs, size_t count, uint32_t& regions) {
  std::vector<uint32_t> of_run(runs.size(), 0);  // first the sizes, at the first runs
  std::vector<uint32_t> firsts;
  for (uint32_t i = 0; i < runs.size(); ++i) {
    of_run[runs[i].parent] += static_cast<uint32_t>(runs[i].last - runs[i].first + 1);
    if (runs[i].parent == i) firsts.push_back(i);
  }
  if (firsts.size() > count) {
    const auto larger = [&](uint32_t a, uint32_t b) { return of_run[a] != of_run[b] ? of_run[a] > of_run[b] : a < b; };
    std::nth_element(firsts.begin(), firsts.begin() + static_cast<std::ptrdiff_t>(count), firsts.end(), larger);
    firsts.resize(count);
    std::sort(firsts.begin(), firsts.end());
  }
  std::fill(of_run.begin(), of_run.end(), kNoRegion);
  regions = 0;
  for (size_t i = firsts.size(); i-- > 0;) of_run[firsts[i]] = regions++;
  for (uint32_t i = 0; i < runs.size(); ++i) of_run[i] = of_run[runs[i].parent];
  return of_run;
}

struct Span {
  int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
  void add(int64_t x) { first = std::min(first, x), last = std::max(last, x); }
};

// What the line between two points, drawn from the left one with steps of one element, has in row y: the y of column x, or the x of row y, is
// rounded to the nearest, halves towards the left point.
void add_line(GridPoint a, GridPoint b, int64_t y, Span& span) {
  if (b.x < a.x) std::swap(a, b);
  const int64_t dx = int64_t{b.x} - a.x, dy = std::abs(int64_t{b.y} - a.y), down = b.y < a.y ? -1 : 1, rows = (y - a.y) * down;
  if (rows < 0 || rows > dy) return;
  if (dy > dx) {
    span.add(a.x + (2 * dx * rows + dy - 1) / (2 * dy));
  } else if (dy == 0) {
    span.add(a.x), span.add(b.x);
  } else {
    // The columns k with floor((2 dy k + dx - 1) / (2 dx)) == rows.
    const auto first_with = [&](int64_t r) { return r <= 0 ? 0 : (2 * dx * r - dx + 1 + 2 * dy - 1) / (2 * dy); };
    span.add(a.x + first_with(rows)), span.add(a.x + std::min(dx, first_with(rows + 1) - 1));
  }
}

Span row_of(const std::array<GridPoint, 4>& quadrangle, int64_t y) {
  Span span;
  for (size_t i = 0; i < 4; ++i) add_line(quadrangle[i], quadrangle[(i + 1) % 4], y, span);
  return span;
}

}  // namespace

Result<std::vector<std::vector<GridPoint>>> hulls_of_regions(const ScoreMap& map, float threshold, size_t count, AnswerBudget& budget) {
  const uint64_t num_runs = count_runs(map, threshold);
  constexpr uint64_t kEach = sizeof(RowRun) + 3 * sizeof(uint32_t) + 4 * sizeof(GridPoint);  // the points of a region, and its hull
  MLC_RETURN_IF_ERROR(budget.take(num_runs, kEach, "text_boxes"));
  const std::vector<RowRun> runs = runs_of_regions(map, threshold, num_runs);
  uint32_t regions = 0;
  const std::vector<uint32_t> region_of = largest_regions(runs, count, regions);

  // Runs by region, in each region in the order of rows.
  std::vector<uint32_t> ends(regions + size_t{1}, 0), order;
  for (const uint32_t r : region_of)
    if (r != kNoRegion) ++ends[r + 1];
  for (size_t r = 1; r < ends.size(); ++r) ends[r] += ends[r - 1];
  order.resize(ends.back());
  for (uint32_t i = 0; i < runs.size(); ++i)
    if (region_of[i] != kNoRegion) order[ends[region_of[i]]++] = i;

  std::vector<std::vector<GridPoint>> hulls;
  hulls.reserve(regions);
  std::vector<GridPoint> points;
  size_t next = 0;
  for (uint32_t r = 0; r < regions; ++r) {
    points.clear();
    for (; next < ends[r]; ++next) {
      const RowRun& run = runs[order[next]];
      points.push_back({run.first, run.y});
      if (run.last != run.first) points.push_back({run.last, run.y});
    }
    hulls.push_back(convex_hull(points));
    hulls.back().shrink_to_fit();
  }
  return hulls;
}

std::vector<double> means_inside(const ScoreMap& map, std::span<const std::array<GridPoint, 4>> quadrangles) {
  struct Rows {
    int32_t first = 0, last = 0;
    size_t quadrangle = 0;
  };
  std::vector<Rows> all;
  for (size_t i = 0; i < quadrangles.size(); ++i) {
    const auto [least, most] = std::minmax_element(quadrangles[i].begin(), quadrangles[i].end(), [](GridPoint a, GridPoint b) { return a.y < b.y; });
    all.push_back({least->y, most->y, i});
  }
  std::sort(all.begin(), all.end(), [](const Rows& a, const Rows& b) { return a.first < b.first; });

  std::vector<double> sums(quadrangles.size(), 0), before(static_cast<size_t>(map.width) + 1, 0);
  std::vector<int64_t> elements(quadrangles.size(), 0);
  std::vector<Rows> open;
  size_t next = 0;
  for (int64_t y = 0; y < map.height; ++y) {
    while (next < all.size() && all[next].first <= y) open.push_back(all[next++]);
    std::erase_if(open, [&](const Rows& r) { return r.last < y; });
    if (open.empty()) continue;
    for (int64_t x = 0; x < map.width; ++x) before[static_cast<size_t>(x) + 1] = before[static_cast<size_t>(x)] + static_cast<double>(map.at(y, x));
    for (const Rows& r : open) {
      const Span span = row_of(quadrangles[r.quadrangle], y);
      const int64_t first = std::max<int64_t>(span.first, 0), last = std::min(span.last, map.width - 1);
      if (first > last) continue;
      sums[r.quadrangle] += before[static_cast<size_t>(last) + 1] - before[static_cast<size_t>(first)];
      elements[r.quadrangle] += last - first + 1;
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = elements[i] ? sums[i] / static_cast<double>(elements[i]) : 0;
  return sums;
}

}  // namespace mlc::pipeline
