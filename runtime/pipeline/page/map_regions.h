// Connected regions of a map, and the mean of the map inside of quadrangles.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "runtime/pipeline/answer_budget.h"
#include "runtime/pipeline/page/least_rectangle.h"

namespace mlc::pipeline {

// Scores [height, width] between 0 and 1: NaN counts as 0, and what is beyond as the nearer bound.
struct ScoreMap {
  std::span<const float> values;
  int64_t height = 0, width = 0;

  float at(int64_t y, int64_t x) const {
    const float v = values[static_cast<size_t>(y * width + x)];
    return v > 0 ? (v < 1 ? v : 1) : 0;
  }
};

// The hulls of the largest `count` regions of elements above `threshold`, neighbours along rows, columns and diagonals. Of equally large ones
// those that begin first in the order of rows. The hulls come in the order of their beginnings, the last one first, as OpenCV lists contours.
// Time and memory are linear in the map.
Result<std::vector<std::vector<GridPoint>>> hulls_of_regions(const ScoreMap& map, float threshold, size_t count, AnswerBudget& budget);

// The mean of the map over the elements on or inside of each quadrangle, which is convex; 0 where it has none. Each row is looked at once,
// and each quadrangle once in each of its rows.
std::vector<double> means_inside(const ScoreMap& map, std::span<const std::array<GridPoint, 4>> quadrangles);

}  // namespace mlc::pipeline
