// Plane geometry of text boxes: convex hulls, the rectangle of least area around points, and rectangles grown outwards. All of it on whole
// coordinates, so that comparisons are exact and the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace mlc::pipeline {

struct GridPoint {
  int32_t x = 0, y = 0;
  bool operator==(const GridPoint&) const = default;
};
struct PlanePoint {
  double x = 0, y = 0;
};

// Coordinates that these functions take are at most this, up or down; the products below then fit 64 bits.
inline constexpr int32_t kMaxCoordinate = 1 << 18;

// The corners of the convex hull of `points`, which are sorted by y, then x. Counter-clockwise where y points up; no three of them on a line.
// One corner for one place, two for a line.
std::vector<GridPoint> convex_hull(std::span<const GridPoint> points);

struct LeastRectangle {
  // Left before right by x, the upper of the two left ones first, then the upper and the lower right one, the lower left one: the order of
  // PaddleOCR. Where the second and the third by x have the same x, the upper one counts as the left one.
  std::array<PlanePoint, 4> corners;
  double sides[2] = {0, 0};
  double shorter() const { return sides[0] < sides[1] ? sides[0] : sides[1]; }
};

// The rectangle of least area with the hull in it; one of its sides lies on a side of the hull. Of equal areas the one whose sides are
// turned the furthest, up to a right angle, is taken, as OpenCV does. A coordinate that is whole is so exactly.
LeastRectangle least_rectangle(std::span<const GridPoint> hull);

// The corners of a rectangle, cut to whole numbers, grown outwards by `distance` with round joins: points on the new outline, rounded to whole
// ones, in no order. These are the points that Clipper 6 gives with an arc tolerance of 0.25. Empty where the corners enclose no area.
std::vector<GridPoint> grown(const std::array<PlanePoint, 4>& corners, double distance);

}  // namespace mlc::pipeline
