// Boxes on a picture, bit by bit as spec/pipeline.md says ("draw"): frames whose lines suit the picture, and their labels in letters of
// 5 x 7 points.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/pipeline/answers.h"

namespace mlc::pipeline {

// The rows of a letter, top to bottom, 5 bits each, the left one highest. What is no ASCII 32..126 looks like '?'.
const std::array<uint8_t, 7>& letter_rows(char c);

class Drawing {
 public:
  // `pixels`: [height, width, 3], R G B; outlives the drawing.
  Drawing(std::span<std::byte> pixels, int64_t height, int64_t width);

  // Nothing, where a corner is no number or the box lies outside the picture.
  void add(const FoundBox& box);
  // Pixels that `add` may paint.
  uint64_t cost(const FoundBox& box) const;

 private:
  struct Area {
    int64_t top = 0, left = 0, bottom = 0, right = 0;  // behind the last row and column
  };
  using Rgb = std::array<uint8_t, 3>;

  bool place(const FoundBox& box, Area& area) const;
  void fill(Area area, const Rgb& color);
  void add_label(const FoundBox& box, const Area& area, const Rgb& color);

  std::span<std::byte> pixels_;
  int64_t height_, width_;
  int64_t line_;  // width of lines, and of a point of a letter
};

}  // namespace mlc::pipeline
