// Lines of text as quadrangles, from the map of a detector with differentiable binarization: spec/pipeline.md, "text_boxes".
#pragma once

#include "runtime/io/tensor.h"
#include "runtime/pipeline/answer_budget.h"
#include "schema/pipeline/geometry.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

// Of a map. What grows out of it, at most by kMaxUnclipRatio, stays below kMaxCoordinate.
inline constexpr int64_t kMaxMapElements = int64_t{1} << 26;
inline constexpr int64_t kMaxMapSide = int64_t{1} << 16;

struct FoundCorners {
  HostTensor corners;  // f32 [boxes, 4, 2]: x and y of top left, top right, bottom right, bottom left
  HostTensor scores;   // f32 [boxes]
};

// `map`: f32 [h, w], [1, h, w] or [1, 1, h, w]. Its first `covered` rows and columns are the whole picture, whose size is `picture`; those behind
// are what it was filled up with. Whatever the map holds, the time is linear in its elements, but for the square of the number of boxes, which are
// put in order.
Result<FoundCorners> text_boxes(const TextBoxes& step, const HostTensor& map, Size covered, Size picture, AnswerBudget& budget);

}  // namespace mlc::pipeline
