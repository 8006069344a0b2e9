// The arithmetic is that of OpenCV 4.6's warpPerspective for bytes with INTER_CUBIC and BORDER_REPLICATE: places rounded to 1/32 of a pixel,
// weights to 1/32768. No operation here may be contracted to a fused one: places next to a half would round otherwise.
#include "runtime/pipeline/page/cut_pictures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>


namespace mlc::pipeline {
namespace {

constexpr int kPlaces = 32;  // of a pixel, each way
constexpr int kTaps = 4;
constexpr int kWeightBits = 15;

// From the places of the part to those of the picture: (x, y) to (m0 x + m1 y + m2, m3 x + m4 y + m5) / (m6 x + m7 y + m8).
using Homography = std::array<double, 9>;

// The solution of eight linear equations with partial pivoting, in place of the right sides. False where there is none.
bool solve(std::array<std::array<double, 8>, 8>& a, std::array<double, 8>& right) {
  for (size_t i = 0; i < 8; ++i) {
    size_t pivot = i;
    for (size_t j = i + 1; j < 8; ++j)
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    if (!(std::abs(a[pivot][i]) >= std::numeric_limits<double>::epsilon() * 100)) return false;
    std::swap(a[i], a[pivot]), std::swap(right[i], right[pivot]);
    const double inverse = -1 / a[i][i];
    for (size_t j = i + 1; j < 8; ++j) {
      const double factor = a[j][i] * inverse;
      for (size_t k = i + 1; k < 8; ++k) a[j][k] += factor * a[i][k];
      right[j] += factor * right[i];
    }
  }
  for (size_t i = 8; i-- > 0;) {
    for (size_t k = i + 1; k < 8; ++k) right[i] -= a[i][k] * right[k];
    right[i] /= a[i][i];
  }
  return true;
}

// False where the determinant is 0 or no number.
bool invert(Homography& m) {
  const double minor0 = m[4] * m[8] - m[5] * m[7], minor1 = m[3] * m[8] - m[5] * m[6], minor2 = m[3] * m[7] - m[4] * m[6];
  const double determinant = m[0] * minor0 - m[1] * minor1 + m[2] * minor2;
  if (determinant == 0 || !std::isfinite(determinant)) return false;
  const double d = 1 / determinant;
  m = {minor0 * d,  (m[2] * m[7] - m[1] * m[8]) * d, (m[1] * m[5] - m[2] * m[4]) * d,
       -minor1 * d, (m[0] * m[8] - m[2] * m[6]) * d, (m[2] * m[3] - m[0] * m[5]) * d,
       minor2 * d,  (m[1] * m[6] - m[0] * m[7]) * d, (m[0] * m[4] - m[1] * m[3]) * d};
  return true;
}

// The homography with m8 = 1 that takes each corner of one quadrangle to that of another. False where there is none.
bool homography(const Quadrangle& from, const Quadrangle& to, Homography& out) {
  std::array<std::array<double, 8>, 8> a = {};
  std::array<double, 8> right = {};
  for (size_t i = 0; i < 4; ++i) {
    const float x = from[i][0], y = from[i][1];
    for (size_t k = 0; k < 2; ++k) {
      auto& row = a[i + 4 * k];
      row[3 * k] = x, row[3 * k + 1] = y, row[3 * k + 2] = 1;
      row[6] = -x * to[i][k], row[7] = -y * to[i][k];
      right[i + 4 * k] = to[i][k];
    }
  }
  if (!solve(a, right)) return false;
  std::copy(right.begin(), right.end(), out.begin());
  out[8] = 1;
  return std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); });
}

bool is_on_a_line(const std::array<float, 2>& a, const std::array<float, 2>& b, const std::array<float, 2>& c) {
  return (double{b[0]} - a[0]) * (double{c[1]} - a[1]) == (double{b[1]} - a[1]) * (double{c[0]} - a[0]);
}

// As OpenCV has it: from the picture to the part, and then inverted. Where the first pixel of the picture goes to infinity, m8 is 0 and OpenCV
// finds nothing; the way back exists.
bool places_of(const Quadrangle& q, int64_t height, int64_t width, Homography& out) {
  for (size_t i = 0; i < 4; ++i)
    if (is_on_a_line(q[i], q[(i + 1) % 4], q[(i + 2) % 4])) return false;
  const auto w = static_cast<float>(width), h = static_cast<float>(height);
  const Quadrangle part = {{{0, 0}, {w, 0}, {w, h}, {0, h}}};
  return (homography(q, part, out) && invert(out)) || homography(part, q, out);
}

// The weights of the 4 x 4 pixels around each of 32 x 32 places. Their sum is 1 exactly: what rounding lacks is put to one of the four pixels to
// the lower right, the heaviest, and what it has too much is taken from the lightest.
class CubicWeights {
 public:
  CubicWeights() : table_(kPlaces * kPlaces) {
    for (int y = 0; y < kPlaces; ++y)
      for (int x = 0; x < kPlaces; ++x) table_[static_cast<size_t>(y * kPlaces + x)] = of_place(along(y), along(x));
  }
  const std::array<int16_t, kTaps * kTaps>& at(int64_t y, int64_t x) const { return table_[static_cast<size_t>(y * kPlaces + x)]; }

 private:
  static std::array<float, kTaps> along(int place) {
    constexpr float kSlope = -0.75f;
    const float t = static_cast<float>(place) / kPlaces;
    std::array<float, kTaps> w;
    w[0] = ((kSlope * (t + 1) - 5 * kSlope) * (t + 1) + 8 * kSlope) * (t + 1) - 4 * kSlope;
    w[1] = ((kSlope + 2) * t - (kSlope + 3)) * t * t + 1;
    w[2] = ((kSlope + 2) * (1 - t) - (kSlope + 3)) * (1 - t) * (1 - t) + 1;
    w[3] = 1 - w[0] - w[1] - w[2];
    return w;
  }
  static std::array<int16_t, kTaps * kTaps> of_place(const std::array<float, kTaps>& down, const std::array<float, kTaps>& across) {
    constexpr int kOne = 1 << kWeightBits;
    std::array<int16_t, kTaps * kTaps> w;
    int sum = 0;
    for (size_t y = 0; y < kTaps; ++y)
      for (size_t x = 0; x < kTaps; ++x) {
        const float v = std::nearbyint(down[y] * across[x] * kOne);
        sum += w[y * kTaps + x] = static_cast<int16_t>(std::clamp(v, -32768.0f, 32767.0f));
      }
    size_t lightest = 2 * kTaps + 2, heaviest = lightest;
    for (const size_t i : {2 * kTaps + 2, 2 * kTaps + 3, 3 * kTaps + 2, 3 * kTaps + 3}) {
      if (w[i] < w[lightest]) lightest = i;
      if (w[i] > w[heaviest]) heaviest = i;
    }
    w[sum < kOne ? heaviest : lightest] = static_cast<int16_t>(w[sum < kOne ? heaviest : lightest] + (kOne - sum));
    return w;
  }
  std::vector<std::array<int16_t, kTaps * kTaps>> table_;
};

int64_t whole(double v) {
  constexpr double kLow = std::numeric_limits<int32_t>::min(), kHigh = std::numeric_limits<int32_t>::max();
  return static_cast<int64_t>(std::nearbyint(std::max(kLow, std::min(kHigh, v))));
}

// The pixel of `picture` around a place, given in 1/32 of pixels, to `out`.
void sample(const HostTensor& picture, int64_t y, int64_t x, const CubicWeights& weights, uint8_t* out) {
  const int64_t height = picture.shape[0], width = picture.shape[1], channels = picture.shape[2];
  const uint8_t* pixels = picture.as<uint8_t>().data();
  const auto& w = weights.at(y & (kPlaces - 1), x & (kPlaces - 1));
  const int64_t top = (y >> 5) - 1, left = (x >> 5) - 1;
  int64_t sums[4] = {};
  for (int64_t i = 0; i < kTaps; ++i) {
    const uint8_t* row = pixels + std::clamp<int64_t>(top + i, 0, height - 1) * width * channels;
    for (int64_t k = 0; k < kTaps; ++k) {
      const uint8_t* pixel = row + std::clamp<int64_t>(left + k, 0, width - 1) * channels;
      for (int64_t c = 0; c < channels; ++c) sums[c] += w[static_cast<size_t>(i * kTaps + k)] * pixel[c];
    }
  }
  for (int64_t c = 0; c < channels; ++c)
    out[c] = static_cast<uint8_t>(std::clamp<int64_t>((sums[c] + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

float length(const Quadrangle& q, size_t a, size_t b) {
  const float x = q[a][0] - q[b][0], y = q[a][1] - q[b][1];
  return std::sqrt(x * x + y * y);
}

std::string text_of(const Quadrangle& q) {
  std::string text;
  for (const auto& corner : q) text += (text.empty() ? "(" : " (") + std::to_string(corner[0]) + ", " + std::to_string(corner[1]) + ")";
  return text;
}

}  // namespace

Result<HostTensor> cut_picture(const HostTensor& picture, const Quadrangle& q, bool upright, AnswerBudget& budget) {
  if (picture.dtype != DType::U8 || picture.shape.size() != 3 || picture.elements() == 0 || picture.shape[2] > 4)
    return Status(Code::InputMismatch, 4001, "step 'cut' takes a picture u8 [height, width, 1 to 4 channels], found {}",
                  type_text(picture.dtype, picture.shape));
  for (const auto& corner : q)
    for (const float v : corner)
      if (!(std::abs(v) <= static_cast<float>(kMaxCorner)))
        return Status(Code::InputMismatch, 4001, "step 'cut' takes corners between -{} and {}, found {}", kMaxCorner, kMaxCorner, text_of(q));
  const auto width = static_cast<int64_t>(std::max(length(q, 0, 1), length(q, 2, 3)));
  const auto height = static_cast<int64_t>(std::max(length(q, 0, 3), length(q, 1, 2)));
  Homography m = {};
  if (width < 1 || height < 1 || !places_of(q, height, width, m))
    return Status(Code::InputMismatch, 4001, "step 'cut' takes quadrangles of which no three corners are on a line and the sides have a pixel, found {}",
                  text_of(q));
  const int64_t channels = picture.shape[2];
  const auto pixels = static_cast<uint64_t>(width * height);
  if (pixels > io::kMaxPixels)
    return Status(Code::Resource, 6006, "step 'cut' makes pictures of at most {} pixels, found {} x {}", io::kMaxPixels, height, width);
  MLC_RETURN_IF_ERROR(budget.look_at(pixels * static_cast<uint64_t>(channels), "cut"));
  MLC_RETURN_IF_ERROR(budget.take(pixels, static_cast<uint64_t>(channels), "cut"));

  const bool turns = upright && static_cast<double>(height) / static_cast<double>(width) >= 1.5;
  MLC_ASSIGN(HostTensor part, HostTensor::zeros(DType::U8, turns ? std::vector{width, height, channels} : std::vector{height, width, channels}));
  static const CubicWeights weights;
  uint8_t* out = part.as<uint8_t>().data();
  // OpenCV goes by blocks; a place is that of its block's first column and what lies between.
  const int64_t columns = std::min(width, 1024 / std::min<int64_t>(16, height));
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const auto block = static_cast<double>(x - x % columns), in_block = static_cast<double>(x % columns), row = static_cast<double>(y);
      const auto at = [&](size_t i) { return m[i] * block + m[i + 1] * row + m[i + 2] + m[i] * in_block; };
      const double w = at(6), scale = w != 0 ? kPlaces / w : 0;
      const double from_x = at(0) * scale, from_y = at(3) * scale;
      const int64_t to = turns ? (width - 1 - x) * height + y : y * width + x;
      sample(picture, whole(from_y), whole(from_x), weights, out + to * channels);
    }
  return part;
}

Status add_part(uint64_t bytes, uint64_t& total) {
  total += bytes;
  if (total <= kMaxPartsLen) return ok();
  return Status(Code::Resource, 6006, "the parts of a picture that step 'cut' makes take more than {} MiB", kMaxPartsLen >> 20)
      .hint("fewer or smaller boxes: a higher threshold for them, or a smaller picture");
}

Result<std::vector<HostTensor>> cut_pictures(const HostTensor& picture, const HostTensor& corners, bool upright, AnswerBudget& budget) {
  if (corners.dtype != DType::F32 || corners.shape.size() != 3 || corners.shape[1] != 4 || corners.shape[2] != 2)
    return Status(Code::InputMismatch, 4001, "step 'cut' takes corners f32[n,4,2], found {}", type_text(corners.dtype, corners.shape));
  const auto count = static_cast<size_t>(corners.shape[0]);
  MLC_RETURN_IF_ERROR(budget.take(count, sizeof(HostTensor), "cut"));
  std::vector<HostTensor> parts;
  parts.reserve(count);
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    Quadrangle q;
    for (size_t k = 0; k < 8; ++k) q[k / 2][k % 2] = corners.as<float>()[i * 8 + k];
    MLC_ASSIGN(HostTensor part, cut_picture(picture, q, upright, budget));
    MLC_RETURN_IF_ERROR(add_part(part.data.size(), total));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace mlc::pipeline
