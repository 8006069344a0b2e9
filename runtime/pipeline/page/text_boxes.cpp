#include "runtime/pipeline/page/text_boxes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/pipeline/page/map_regions.h"

namespace mlc::pipeline {
namespace {

struct Box {
  std::array<GridPoint, 4> corners;
  double score = 0;
};

Result<ScoreMap> score_map(const HostTensor& map) {
  const size_t rank = map.shape.size();
  const bool leading_ones = rank >= 2 && std::all_of(map.shape.begin(), map.shape.end() - 2, [](int64_t d) { return d == 1; });
  if (map.dtype != DType::F32 || rank < 2 || rank > 4 || !leading_ones)
    return Status(Code::InputMismatch, 4001, "step 'text_boxes' takes a map of one picture, f32 [height, width] or [1, 1, height, width], found {}",
                  type_text(map.dtype, map.shape));
  ScoreMap m{map.as<float>(), map.shape[rank - 2], map.shape[rank - 1]};
  if (m.height > kMaxMapSide || m.width > kMaxMapSide || map.elements() > kMaxMapElements)
    return Status(Code::Resource, 6006, "step 'text_boxes' takes maps of at most {} elements and sides of {}, found {}", kMaxMapElements, kMaxMapSide,
                  type_text(map.dtype, map.shape));
  return m;
}

// The corners as whole elements, cut as PaddleOCR cuts them: from the upper left element of the rectangle on, as far as the map has it.
std::array<GridPoint, 4> elements_of(const LeastRectangle& r, const ScoreMap& map) {
  const auto origin = [&](double PlanePoint::*axis, int64_t side) {
    double least = r.corners[0].*axis;
    for (const PlanePoint& p : r.corners) least = std::min(least, p.*axis);
    return std::clamp(std::floor(least), 0.0, static_cast<double>(side - 1));
  };
  const double left = origin(&PlanePoint::x, map.width), top = origin(&PlanePoint::y, map.height);
  std::array<GridPoint, 4> whole;
  for (size_t i = 0; i < 4; ++i)
    whole[i] = {static_cast<int32_t>(left) + static_cast<int32_t>(r.corners[i].x - left),
                static_cast<int32_t>(top) + static_cast<int32_t>(r.corners[i].y - top)};
  return whole;
}

// Top left, top right, bottom right, bottom left. Corners of equal x or y stay in their order.
std::array<GridPoint, 4> in_order(std::array<GridPoint, 4> p) {
  std::stable_sort(p.begin(), p.end(), [](GridPoint a, GridPoint b) { return a.x < b.x; });
  if (p[1].y < p[0].y) std::swap(p[0], p[1]);
  if (p[3].y < p[2].y) std::swap(p[2], p[3]);
  return {p[0], p[2], p[3], p[1]};
}

// From the map to the picture. The quotient is a float, as it is there.
int32_t scaled(double v, int64_t from, int64_t to) {
  const float place = static_cast<float>(v) / static_cast<float>(from) * static_cast<float>(to);
  return static_cast<int32_t>(std::clamp(std::nearbyint(place), 0.0f, static_cast<float>(to)));
}

double distance(GridPoint a, GridPoint b) { return std::hypot(double{1} * a.x - b.x, double{1} * a.y - b.y); }

// Would its part of the picture be seen from the side only?
bool has_line_of_corners(const std::array<GridPoint, 4>& c) {
  for (size_t i = 0; i < 4; ++i) {
    const GridPoint a = c[i], b = c[(i + 1) % 4], d = c[(i + 2) % 4];
    if ((int64_t{b.x} - a.x) * (int64_t{d.y} - a.y) == (int64_t{b.y} - a.y) * (int64_t{d.x} - a.x)) return true;
  }
  return false;
}

// A box of the picture, or nothing where it is too small.
std::optional<Box> grown_box(const LeastRectangle& r, double score, Size covered, Size picture, const TextBoxes& step) {
  const double area = r.sides[0] * r.sides[1], perimeter = 2 * (r.sides[0] + r.sides[1]);
  std::vector<GridPoint> outline = grown(r.corners, perimeter > 0 ? area * step.unclip_ratio / perimeter : 0);
  if (outline.empty()) return std::nullopt;
  std::sort(outline.begin(), outline.end(), [](GridPoint a, GridPoint b) { return a.y != b.y ? a.y < b.y : a.x < b.x; });
  const LeastRectangle larger = least_rectangle(convex_hull(outline));
  if (larger.shorter() < step.min_side + 2) return std::nullopt;
  Box box{{}, score};
  for (size_t i = 0; i < 4; ++i)
    box.corners[i] = {scaled(larger.corners[i].x, covered.width, picture.width), scaled(larger.corners[i].y, covered.height, picture.height)};
  box.corners = in_order(box.corners);
  for (GridPoint& p : box.corners)
    p = {std::min(p.x, static_cast<int32_t>(picture.width - 1)), std::min(p.y, static_cast<int32_t>(picture.height - 1))};
  constexpr double kLeastSide = 4;  // of the picture
  if (distance(box.corners[0], box.corners[1]) < kLeastSide || distance(box.corners[0], box.corners[3]) < kLeastSide ||
      has_line_of_corners(box.corners))
    return std::nullopt;
  return box;
}

// By rows, then columns; then a box moves in front of its neighbour as long as they are less than 10 pixels apart and it is further left.
void sort_by_lines(std::vector<Box>& boxes) {
  const auto corner = [](const Box& b) { return b.corners[0]; };
  std::stable_sort(boxes.begin(), boxes.end(), [&](const Box& a, const Box& b) {
    return corner(a).y != corner(b).y ? corner(a).y < corner(b).y : corner(a).x < corner(b).x;
  });
  constexpr int32_t kOneLine = 10;
  for (size_t i = 1; i < boxes.size(); ++i)
    for (size_t k = i; k > 0; --k) {
      const GridPoint a = corner(boxes[k - 1]), b = corner(boxes[k]);
      if (std::abs(b.y - a.y) >= kOneLine || b.x >= a.x) break;
      std::swap(boxes[k - 1], boxes[k]);
    }
}

}  // namespace

Result<FoundCorners> text_boxes(const TextBoxes& step, const HostTensor& tensor, Size covered, Size picture, AnswerBudget& budget) {
  MLC_ASSIGN(const ScoreMap map, score_map(tensor));
  if (picture.height < 1 || picture.width < 1 || picture.height > kMaxMapSide || picture.width > kMaxMapSide)
    return Status(Code::InputMismatch, 4001, "step 'text_boxes' takes the size of a picture with sides of 1 to {}, found {} x {}", kMaxMapSide, picture.height,
                  picture.width);
  if (covered.height < 1 || covered.width < 1 || covered.height > map.height || covered.width > map.width)
    return Status(Code::InputMismatch, 4001, "step 'text_boxes' takes a map of at least the resized picture's size, {} x {}, found {}", covered.height,
                  covered.width, type_text(tensor.dtype, tensor.shape));
  MLC_RETURN_IF_ERROR(budget.look_at(static_cast<uint64_t>(map.values.size()), "text_boxes"));
  const auto most = static_cast<size_t>(std::clamp<int64_t>(step.max_candidates, 0, kMaxTextBoxes));
  MLC_ASSIGN(const auto hulls, hulls_of_regions(map, static_cast<float>(step.threshold), most, budget));

  std::vector<LeastRectangle> rectangles;
  std::vector<std::array<GridPoint, 4>> insides;
  for (const std::vector<GridPoint>& hull : hulls) {
    const LeastRectangle r = least_rectangle(hull);
    if (r.shorter() < step.min_side) continue;
    rectangles.push_back(r);
    insides.push_back(elements_of(r, map));
  }
  const std::vector<double> scores = means_inside(map, insides);

  std::vector<Box> boxes;
  for (size_t i = 0; i < rectangles.size(); ++i) {
    if (scores[i] < step.box_threshold) continue;
    if (const std::optional<Box> box = grown_box(rectangles[i], scores[i], covered, picture, step)) boxes.push_back(*box);
  }
  sort_by_lines(boxes);

  const auto count = static_cast<int64_t>(boxes.size());
  MLC_RETURN_IF_ERROR(budget.take(boxes.size(), 9 * sizeof(float), "text_boxes"));
  FoundCorners result;
  MLC_ASSIGN(result.corners, HostTensor::zeros(DType::F32, {count, 4, 2}));
  MLC_ASSIGN(result.scores, HostTensor::zeros(DType::F32, {count}));
  const std::span<float> corners = result.corners.as<float>(), means = result.scores.as<float>();
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t k = 0; k < 4; ++k) {
      corners[i * 8 + k * 2] = static_cast<float>(boxes[i].corners[k].x);
      corners[i * 8 + k * 2 + 1] = static_cast<float>(boxes[i].corners[k].y);
    }
    means[i] = static_cast<float>(boxes[i].score);
  }
  return result;
}

}  // namespace mlc::pipeline
