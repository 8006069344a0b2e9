#include "runtime/cli/embed/nearest.h"

#include <algorithm>
#include <cmath>

namespace mlc::cli {

namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

}  // namespace

std::vector<Near> nearest(std::span<const float> matrix, size_t width, std::span<const float> vector, size_t top) {
  std::vector<Near> all;
  if (width == 0) return all;
  const double length = std::sqrt(dot(vector, vector));
  for (size_t row = 0; row < matrix.size() / width; ++row) {
    const auto at = matrix.subspan(row * width, width);
    const double both = length * std::sqrt(dot(at, at)), cosine = both > 0 ? dot(at, vector) / both : 0;
    if (std::isfinite(cosine) && std::isfinite(both)) all.push_back({row, cosine});
  }
  const auto before = [](const Near& a, const Near& b) { return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row; };
  top = std::min(top, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(top), all.end(), before);
  all.resize(top);
  return all;
}

}  // namespace mlc::cli
