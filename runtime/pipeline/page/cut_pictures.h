// Parts of a picture, each seen straight from the front: spec/pipeline.md, "cut".
#pragma once

#include <array>
#include <vector>

#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"
#include "runtime/pipeline/answer_budget.h"

namespace mlc::pipeline {

// x and y of the top left, top right, bottom right and bottom left corner, in pixels of the picture.
using Quadrangle = std::array<std::array<float, 2>, 4>;

// Corners of a quadrangle lie at most this far from the picture's first pixel, so that a part has at most twice as long sides.
inline constexpr int32_t kMaxCorner = 65536;

// Bytes of all parts that one step cuts. Boxes lie one in another where a picture wants that, and a page would be copied for each of them.
inline constexpr uint64_t kMaxPartsLen = io::kDefaultDecodeMemory;
// Adds a part of so many bytes to `total`. Resource (E6006) where all take more than kMaxPartsLen.
Status add_part(uint64_t bytes, uint64_t& total);

// What is inside of the quadrangle of `picture`, u8 [h, w, c] with 1 to 4 channels, as a rectangle whose sides are the longer ones of the
// quadrangle's opposite sides, cut to whole numbers. Beyond the picture its border goes on. `upright`: a rectangle at least 1.5 times as high as
// wide is turned by a quarter, counter-clockwise. InputMismatch where three corners are on a line, a side is
// shorter than a pixel, or a corner is no number or too far.
Result<HostTensor> cut_picture(const HostTensor& picture, const Quadrangle& quadrangle, bool upright, AnswerBudget& budget);
// One part for each of the quadrangles f32 [n, 4, 2].
Result<std::vector<HostTensor>> cut_pictures(const HostTensor& picture, const HostTensor& corners, bool upright, AnswerBudget& budget);

}  // namespace mlc::pipeline
