// Lines of text as quadrangles, from the map of a detector with differentiable binarization: spec/pipeline.md, "text_boxes".
#pragma once

#include "runtime/io/tensor.h"
#include "runtime/pipeline/answer_budget.h"
#include "schema/pipeline/geometry.h"

namespace mlc::pipeline {

struct TextBoxOptions {
  double threshold = 0;        // elements above it are text
  double box_threshold = 0;    // a rectangle of a lower mean is dropped
  double unclip_ratio = 0;     // how far rectangles grow: area * ratio / perimeter
  double min_side = 0;         // a shorter rectangle is dropped; so is a grown one that is shorter than this + 2
  int64_t max_candidates = 1;  // at most kMaxTextBoxes
};
inline constexpr int64_t kMaxTextBoxes = 10'000;
// Elements of a map, and what grows out of it stays below kMaxCoordinate.
inline constexpr int64_t kMaxMapElements = int64_t{1} << 26;
inline constexpr int64_t kMaxMapSide = int64_t{1} << 16;
inline constexpr double kMaxUnclipRatio = 4;

struct TextBoxes {
  HostTensor corners;  // f32 [boxes, 4, 2]: x and y of top left, top right, bottom right, bottom left
  HostTensor scores;   // f32 [boxes]
};

// `map`: f32 [h, w], [1, h, w] or [1, 1, h, w]. Its first `covered` rows and columns are the whole picture, whose size is `picture`; those behind
// are what it was filled up with. Whatever the map holds, the time is linear in its elements, but for the square of the number of boxes, which are
// put in order.
Result<TextBoxes> text_boxes(const HostTensor& map, Size covered, Size picture, const TextBoxOptions& options, AnswerBudget& budget);

}  // namespace mlc::pipeline
