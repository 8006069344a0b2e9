#include "runtime/pipeline/page/least_rectangle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mlc::pipeline {
namespace {

struct Direction {
  int64_t x = 0, y = 0;
};

Direction from_to(GridPoint a, GridPoint b) { return {int64_t{b.x} - a.x, int64_t{b.y} - a.y}; }
int64_t dot(Direction d, GridPoint p) { return d.x * p.x + d.y * p.y; }
int64_t cross(Direction d, GridPoint p) { return d.x * p.y - d.y * p.x; }

// One half of a hull: every point is to the left of the line through the two before it.
template <class Points>
void add_chain(const Points& points, std::vector<GridPoint>& hull) {
  const size_t first = hull.size();
  for (const GridPoint p : points) {
    while (hull.size() >= first + 2) {
      const GridPoint a = hull[hull.size() - 2], b = hull.back();
      const Direction d = from_to(a, b);
      if (cross(d, p) - cross(d, a) > 0) break;
      hull.pop_back();
    }
    if (hull.size() > first && hull.back() == p) continue;
    hull.push_back(p);
  }
  hull.pop_back();  // the other chain begins with it
}

// The extent of the hull along and across one of its sides, in units of that side's length.
struct Extent {
  Direction side;
  int64_t least = 0, most = 0;    // along
  int64_t bottom = 0, height = 0;  // across
  double squared_length() const { return static_cast<double>(side.x * side.x + side.y * side.y); }
  double area() const { return static_cast<double>(most - least) * static_cast<double>(height) / squared_length(); }
};

// How far a side is turned from the axes, as a number that grows with the angle: 0 up to, not including, 1.
double turned(Direction d) {
  while (!(d.x < 0 && d.y >= 0)) d = {-d.y, d.x};
  return static_cast<double>(d.y) / static_cast<double>(d.y - d.x);
}

std::array<PlanePoint, 4> in_order(std::array<PlanePoint, 4> p) {
  std::sort(p.begin(), p.end(), [](PlanePoint a, PlanePoint b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  if (p[1].y <= p[0].y) std::swap(p[0], p[1]);
  if (p[3].y <= p[2].y) std::swap(p[2], p[3]);
  return {p[0], p[2], p[3], p[1]};
}

LeastRectangle of_extent(const Extent& e) {
  const double squared = e.squared_length(), length = std::sqrt(squared);
  const auto corner = [&](int64_t along, int64_t across) {  // the numerators are exact
    return PlanePoint{static_cast<double>(along * e.side.x - across * e.side.y) / squared,
                      static_cast<double>(along * e.side.y + across * e.side.x) / squared};
  };
  const int64_t top = e.bottom + e.height;
  LeastRectangle r;
  r.corners = in_order({corner(e.least, e.bottom), corner(e.most, e.bottom), corner(e.most, top), corner(e.least, top)});
  r.sides[0] = static_cast<double>(e.most - e.least) / length;
  r.sides[1] = static_cast<double>(e.height) / length;
  return r;
}

}  // namespace

std::vector<GridPoint> convex_hull(std::span<const GridPoint> points) {
  std::vector<GridPoint> hull;
  if (points.empty()) return hull;
  struct Backwards {
    std::span<const GridPoint> points;
    auto begin() const { return points.rbegin(); }
    auto end() const { return points.rend(); }
  };
  add_chain(points, hull);
  add_chain(Backwards{points}, hull);
  if (hull.empty()) hull.push_back(points.front());
  return hull;
}

LeastRectangle least_rectangle(std::span<const GridPoint> hull) {
  const size_t n = hull.size();
  if (n < 2) {
    const GridPoint p = n ? hull[0] : GridPoint{};
    LeastRectangle r;
    r.corners.fill({static_cast<double>(p.x), static_cast<double>(p.y)});
    return r;
  }
  // Rotating calipers: as the side goes round the hull, so do the points that are furthest in its three other directions.
  Extent best;
  double least_area = 0, most_turned = 0;
  size_t right = 1, far = 1, left = 1;
  for (size_t i = 0; i < n; ++i) {
    const Direction d = from_to(hull[i], hull[(i + 1) % n]);
    const auto next = [&](size_t k) { return hull[(k + 1) % n]; };
    right = std::max(right, i + 1);
    while (dot(d, next(right)) > dot(d, hull[right % n])) ++right;
    far = std::max(far, right);
    while (cross(d, next(far)) > cross(d, hull[far % n])) ++far;
    left = std::max(left, far);
    while (dot(d, next(left)) < dot(d, hull[left % n])) ++left;
    const int64_t bottom = cross(d, hull[i]);
    const Extent e{d, dot(d, hull[left % n]), dot(d, hull[right % n]), bottom, cross(d, hull[far % n]) - bottom};
    // Areas that differ by rounding only are equal.
    const double area = e.area(), angle = turned(d);
    const bool less = area < least_area * (1 - 1e-12), equal = !less && area <= least_area * (1 + 1e-12);
    if (i == 0 || less || (equal && angle > most_turned)) best = e, least_area = area, most_turned = angle;
  }
  return of_extent(best);
}

std::vector<GridPoint> grown(const std::array<PlanePoint, 4>& corners, double distance) {
  std::array<GridPoint, 4> p;
  for (size_t i = 0; i < 4; ++i) p[i] = {static_cast<int32_t>(corners[i].x), static_cast<int32_t>(corners[i].y)};
  int64_t area = 0;
  for (size_t i = 0; i < 4; ++i) area += int64_t{p[i].x} * p[(i + 1) % 4].y - int64_t{p[(i + 1) % 4].x} * p[i].y;
  if (area == 0 || !(distance > 0)) return {};
  if (area < 0) std::reverse(p.begin(), p.end());
  std::array<PlanePoint, 4> normals;
  for (size_t i = 0; i < 4; ++i) {
    const Direction d = from_to(p[i], p[(i + 1) % 4]);
    const double length = std::hypot(static_cast<double>(d.x), static_cast<double>(d.y));
    if (length == 0) return {};
    normals[i] = {static_cast<double>(d.y) / length, -static_cast<double>(d.x) / length};
  }
  // The arcs are chords that leave the circle by at most a quarter, and are no shorter than 1.
  const double tolerance = std::min(0.25, distance * 0.25);
  const double steps = std::min(std::numbers::pi / std::acos(1 - tolerance / distance), distance * std::numbers::pi);
  const double sine = std::sin(2 * std::numbers::pi / steps), cosine = std::cos(2 * std::numbers::pi / steps);
  std::vector<GridPoint> outline;
  const auto add = [&](GridPoint at, PlanePoint normal) {
    outline.push_back({static_cast<int32_t>(std::lround(at.x + normal.x * distance)), static_cast<int32_t>(std::lround(at.y + normal.y * distance))});
  };
  for (size_t i = 0; i < 4; ++i) {
    const PlanePoint before = normals[(i + 3) % 4], after = normals[i];
    const double turn_sine = before.x * after.y - after.x * before.y, turn_cosine = before.x * after.x + before.y * after.y;
    if (std::abs(turn_sine * distance) < 1 && turn_cosine > 0) {  // too little for an arc
      add(p[i], before);
      continue;
    }
    const auto chords = std::max<int64_t>(std::lround(steps / (2 * std::numbers::pi) * std::abs(std::atan2(turn_sine, turn_cosine))), 1);
    PlanePoint normal = before;
    for (int64_t k = 0; k < chords; ++k) {
      add(p[i], normal);
      normal = {normal.x * cosine - sine * normal.y, normal.x * sine + normal.y * cosine};
    }
    add(p[i], after);
  }
  return outline;
}

}  // namespace mlc::pipeline
