// Rows that point the way a vector points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlc::cli {

struct Near {
  size_t row = 0;
  double cosine = 0;  // of the angle; 0 where one of the two has no length
};

// Of a matrix [rows, width] the `top` rows nearest to `vector` [width] by cosine, best first, of equal ones the earlier. A row with
// an element that is no number is none of them.
std::vector<Near> nearest(std::span<const float> matrix, size_t width, std::span<const float> vector, size_t top);

}  // namespace mlc::cli
