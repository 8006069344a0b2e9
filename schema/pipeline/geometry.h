// The integer arithmetic of steps whose sizes depend on the picture. One definition for the reference, for the host and
// for the packager, which compiles them; all of it is exact, and none of it overflows for sides up to 2^31 and targets up to 2^16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

struct Size {
  int64_t height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

// a / b for a >= 0, b > 0.
constexpr int64_t divide(int64_t a, int64_t b, SizeRound round) {
  int64_t q = a / b, r = a % b;
  switch (round) {
    case SizeRound::Trunc: return q;
    case SizeRound::Nearest: return q + (2 * r > b || (2 * r == b && q % 2 == 1));
    case SizeRound::Ceil: return q + (r > 0);
  }
  return q;
}

// The size of a resized picture; no side becomes 0.
constexpr Size resized(const Resize& s, Size in) {
  auto scaled = [&](int64_t target, int64_t other, int64_t side) {
    return std::max<int64_t>(1, divide(target * other, side, s.round));
  };
  bool tall = in.height > in.width;
  switch (s.fit) {
    case Resize::Fit::Exact: return {s.height, s.width};
    case Resize::Fit::Height: return {s.height, scaled(s.height, in.width, in.height)};
    case Resize::Fit::Width: return {scaled(s.width, in.height, in.width), s.width};
    case Resize::Fit::Shorter:
      return tall ? Size{scaled(s.size, in.height, in.width), s.size}
                  : Size{s.size, scaled(s.size, in.width, in.height)};
    case Resize::Fit::Longer:
      return tall ? Size{s.size, scaled(s.size, in.width, in.height)}
                  : Size{scaled(s.size, in.height, in.width), s.size};
  }
  return in;
}

// Output row y of a centred crop shows input row y + offset (zeros outside the picture).
constexpr int64_t crop_offset(int64_t in, int64_t out, MarginRound round) {
  int64_t margin = in - out;
  int64_t down = margin >= 0 ? margin / 2 : -((1 - margin) / 2);  // floor
  bool odd = margin % 2 != 0;
  switch (round) {
    case MarginRound::Floor: return down;
    case MarginRound::HalfUp: return down + odd;
    case MarginRound::HalfEven: return margin < 0 ? down + odd : down + (odd && down % 2 == 1);
  }
  return down;
}

// A letterbox: the picture resized to `inner`, `top` rows and `left` columns from the corner of the target.
struct LetterboxPlace {
  Size inner;
  int64_t top = 0, left = 0;
};
constexpr LetterboxPlace letterbox_place(const Letterbox& s, Size in) {
  LetterboxPlace p{in, 0, 0};
  bool fits = in.height <= s.height && in.width <= s.width;
  if (!fits || s.upscale) {
    if (s.width * in.height <= s.height * in.width)  // the width decides
      p.inner = {std::max<int64_t>(1, divide(s.width * in.height, in.width, SizeRound::Nearest)), s.width};
    else
      p.inner = {s.height, std::max<int64_t>(1, divide(s.height * in.width, in.height, SizeRound::Nearest))};
  }
  // An odd margin gives its larger half to the bottom and the right: round(d / 2 - 0.1).
  p.top = (s.height - p.inner.height) / 2;
  p.left = (s.width - p.inner.width) / 2;
  return p;
}

// How far Pad reaches on each side.
struct Margins {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};
constexpr Margins margins(const Pad& s, Size in) {
  if (s.multiple <= 0) return {s.top, s.bottom, s.left, s.right};
  auto missing = [&](int64_t side) { return (s.multiple - side % s.multiple) % s.multiple; };
  return {0, missing(in.height), 0, missing(in.width)};
}

// The cells of one level, both sides.
constexpr Size cells_of(const Boxes& s, const Boxes::Level& level) {
  return {divide(s.height, level.stride, SizeRound::Ceil), divide(s.width, level.stride, SizeRound::Ceil)};
}

// Rows of anchors that a step on boxes has, level by level.
inline int64_t anchor_count(const Boxes& s) {
  int64_t count = 0;
  for (const Boxes::Level& level : s.levels) {
    const Size cells = cells_of(s, level);
    count += cells.height * cells.width * std::max<int64_t>(static_cast<int64_t>(level.anchors.size()), 1);
  }
  return count;
}

// [rows, 4]: x and y of the centre, and the width and the height of the anchor, in pixels; of Dfl the stride twice. Row by row of cells, in a
// cell in the order of the file.
inline std::vector<float> anchor_table(const Boxes& s) {
  std::vector<float> table;
  table.reserve(static_cast<size_t>(anchor_count(s)) * 4);
  for (const Boxes::Level& level : s.levels) {
    const Size cells = cells_of(s, level);
    const auto stride = static_cast<double>(level.stride);
    const std::vector<std::array<double, 2>> cell{{stride, stride}};
    for (int64_t row = 0; row < cells.height; ++row)
      for (int64_t column = 0; column < cells.width; ++column)
        for (const auto& [height, width] : level.anchors.empty() ? cell : level.anchors)
          for (const double v : {(static_cast<double>(column) + s.offset) * stride, (static_cast<double>(row) + s.offset) * stride, width, height})
            table.push_back(static_cast<float>(v));
  }
  return table;
}

}  // namespace mlc::pipeline
