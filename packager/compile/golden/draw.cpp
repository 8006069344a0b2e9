#include "packager/compile/golden/draw.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "packager/ir/numeric.h"

namespace mlc::compile {
namespace {

// SplitMix64 of a counter: https://prng.di.unimi.it/splitmix64.c
uint64_t hashed(uint64_t counter) {
  uint64_t z = counter + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// What integers are drawn from: all of what is bounded on both sides, else what is usual as far as the bounds allow it.
ir::Interval drawn_from(DType dtype, const InputBounds& bounds) {
  constexpr double kFar = 0x1p52;  // beyond it a double knows no integers
  ir::Interval usual = {0, 1};
  if (dtype == DType::U8) usual = {0, 255};
  if (dtype == DType::I8) usual = {-128, 127};
  const double lo = std::ceil(std::clamp(bounds.range.lo, -kFar, kFar)), hi = std::floor(std::clamp(bounds.range.hi, -kFar, kFar));
  if (hi < lo) return usual;
  const ir::Interval allowed = {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
  if (bounds.range.is_bounded() && !bounds.is_summed) return allowed;
  if (allowed.hi < usual.lo) return {allowed.hi, allowed.hi};
  if (allowed.lo > usual.hi) return {allowed.lo, allowed.lo};
  return {std::max(usual.lo, allowed.lo), std::min(usual.hi, allowed.hi)};
}

// The place of an element along one axis of a row-major array.
struct Axis {
  int64_t extent = 1, stride = 1;
  int64_t index(uint64_t element) const { return static_cast<int64_t>(element) / stride % extent; }
};

Axis axis_of(const std::vector<int64_t>& shape, size_t axis) {
  Axis found{shape[axis], 1};
  for (size_t k = axis + 1; k < shape.size(); ++k) found.stride *= shape[k];
  return found;
}

// Magnitudes by channel, powers of two. Channels are the second axis from rank 4 on; of rank 3 they may be the second axis or the
// last, which share the span; else they are the last axis.
class ChannelMagnitudes {
 public:
  ChannelMagnitudes(const std::vector<int64_t>& shape, uint64_t seed) : seed_(seed) {
    if (shape.size() >= 3) axes_.push_back(axis_of(shape, 1));
    if (shape.size() <= 3 && !shape.empty()) axes_.push_back(axis_of(shape, shape.size() - 1));
    if (axes_.empty()) least_ = 0;
  }
  double at(uint64_t element) const {
    const uint64_t steps = axes_.size() == 2 ? 4 : 8;  // kSpan in all
    int exponent = least_;
    for (size_t k = 0; k < axes_.size(); ++k) {
      const uint64_t index = static_cast<uint64_t>(axes_[k].index(element));
      // Neighbours differ, and which is the largest is no matter of its place alone.
      exponent += static_cast<int>((hashed(seed_ * 2 + k) + index * (steps / 2 + 1) + index / (steps + 1)) % (steps + 1));
    }
    return std::ldexp(1.0, exponent);
  }

 private:
  uint64_t seed_;
  std::vector<Axis> axes_;
  int least_ = -3;  // the largest is 2^5
};

// Rows, columns and channels of what may be a picture, or is drawn in areas as one.
struct DrawnPicture {
  Axis rows, columns, channels;

  // Channels are the second axis, or the first of two.
  static std::optional<DrawnPicture> of_areas(const std::vector<int64_t>& shape) {
    const size_t rank = shape.size();
    if (rank < 2) return std::nullopt;
    return DrawnPicture{rank > 3 ? axis_of(shape, rank - 2) : Axis{}, axis_of(shape, rank - 1), axis_of(shape, rank > 2 ? 1 : 0)};
  }

  static std::optional<DrawnPicture> of(DType dtype, const std::vector<int64_t>& shape) {
    constexpr int64_t kLeast = 8;
    const size_t rank = shape.size();
    if (rank != 4 && !(rank == 3 && dtype == DType::U8)) return std::nullopt;
    const auto fits = [&](size_t rows, size_t columns, size_t channels) {
      return shape[rows] >= kLeast && shape[columns] >= kLeast && (shape[channels] == 1 || shape[channels] == 3);
    };
    const auto made = [&](size_t rows, size_t columns, size_t channels) { return DrawnPicture{axis_of(shape, rows), axis_of(shape, columns), axis_of(shape, channels)}; };
    if (rank == 4 && fits(2, 3, 1)) return made(2, 3, 1);
    if (fits(rank - 3, rank - 2, rank - 1)) return made(rank - 3, rank - 2, rank - 1);
    return std::nullopt;
  }
  // In [-1, 1) as `noise` is.
  double at(uint64_t element, double noise) const {
    constexpr int64_t kPeriod = 64;  // pixels from dark to bright and back
    const int64_t phase = rows.index(element) * 2 + columns.index(element) * 3 + channels.index(element) * 21;
    const double wave = static_cast<double>(std::abs(phase % (2 * kPeriod) - kPeriod)) / (kPeriod / 2) - 1;
    return 0.625 * wave + 0.375 * noise;
  }
  // Areas of one colour each, in [-1, 1): a channel changes along the rows or along the columns, so that a resize in two steps
  // rounds nothing twice. Neighbours are an odd number of codes apart: weights that are fractions of a power of two make no ties.
  double area_at(uint64_t element, uint64_t seed) const {
    const int64_t channel = channels.index(element), edge = 2 + channel / 2 % 2;  // in fifths
    const auto is_behind = [&](const Axis& axis) { return axis.index(element) * 5 >= axis.extent * edge; };
    const uint64_t lower = is_behind(rows) && (channels.extent == 1 || channel % 2 == 0);
    const uint64_t right = is_behind(columns) && (channels.extent == 1 || channel % 2 == 1);
    const uint64_t random = hashed(seed << 32 ^ (static_cast<uint64_t>(channel) * 4 + lower * 2 + right));
    return static_cast<double>((random >> 57) * 2 + (lower ^ right)) * 0x1p-7 - 1;
  }
  // Squares of one colour each, far from those of their neighbours, in [-1, 1).
  double patch_at(uint64_t element, uint64_t seed) const {
    constexpr int64_t kPatches = 8;  // along each side
    const auto place = [&](const Axis& axis) { return static_cast<uint64_t>(axis.index(element) * kPatches / axis.extent); };
    const uint64_t patch = place(rows) * kPatches + place(columns);
    return static_cast<double>(hashed(seed << 32 ^ (static_cast<uint64_t>(channels.index(element)) << 8 | patch)) >> 56) * 0x1p-7 - 1;
  }
};

bool is_free(const InputBounds& bounds) { return bounds.range == Range{} && !bounds.is_summed; }

}  // namespace

nest::Tensor drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed, const InputBounds& bounds, Draw how, Magnitude magnitude) {
  nest::Tensor tensor = nest::Tensor::zeros(dtype, std::move(shape));
  const unsigned width = bytes_of(dtype);
  const uint64_t count = width == 0 ? 0 : tensor.bytes.size() / width;
  const bool is_real = is_float(dtype);
  if (how == Draw::Zeros && !is_real) return tensor;
  const ir::Interval interval = how == Draw::Ones ? ir::Interval{1, 1} : drawn_from(dtype, bounds);
  const uint64_t choices = static_cast<uint64_t>(interval.hi - interval.lo) + 1;
  const bool is_bounded = is_real && bounds.range.is_bounded() && !bounds.is_summed;
  auto picture = is_free(bounds) ? DrawnPicture::of(dtype, tensor.shape) : std::nullopt;
  if (!picture && (how == Draw::Areas || how == Draw::Patches) && is_free(bounds)) picture = DrawnPicture::of_areas(tensor.shape);
  const ChannelMagnitudes channels(tensor.shape, seed);
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t random = hashed(seed << 32 ^ k);
    std::byte* at = tensor.bytes.data() + k * width;
    double unit = static_cast<double>(static_cast<float>(random >> 40) * 0x1p-23f - 1.0f);  // [-1, 1)
    if (is_bounded) unit = bounds.range.lo + (unit + 1) / 2 * (bounds.range.hi - bounds.range.lo);
    else if (picture) unit = (how == Draw::Areas ? picture->area_at(k, seed) : how == Draw::Patches ? picture->patch_at(k, seed) : picture->at(k, unit)) * (is_real ? magnitude.amplitude : 1);
    else if (is_free(bounds)) unit *= (magnitude.by_channel ? channels.at(k) : 1) * magnitude.amplitude;
    if (bits_of(dtype) < 8 && is_real) *at = static_cast<std::byte>(random & ((1u << bits_of(dtype)) - 1));
    else if (dtype == DType::F8E8M0) *at = static_cast<std::byte>(123 + (random & 7));
    else if (is_real) ir::store_element(dtype, tensor.bytes.data(), k, {0, unit});
    else if (picture && dtype == DType::U8 && (how == Draw::WithinBounds || how == Draw::Areas || how == Draw::Patches)) *at = static_cast<std::byte>(static_cast<int>((unit + 1) * 128));
    else ir::store_element(dtype, tensor.bytes.data(), k, {interval.lo + static_cast<int64_t>(random % choices), 0});
  }
  return tensor;
}

nest::Tensor parts(DType dtype, int64_t count, int64_t total, uint64_t seed) {
  constexpr int64_t kMostDrawn = 1 << 16;
  nest::Tensor tensor = nest::Tensor::zeros(dtype, {count});
  if (count == 0) return tensor;
  std::vector<int64_t> values(static_cast<size_t>(count), total > kMostDrawn ? total / count : 0);
  const int64_t left = total > kMostDrawn ? total % count : total;
  for (int64_t k = 0; k < left; ++k) ++values[hashed(seed << 32 ^ static_cast<uint64_t>(k)) % static_cast<uint64_t>(count)];
  for (size_t k = 0; k < values.size(); ++k) ir::store_element(dtype, tensor.bytes.data(), k, {values[k], 0});
  return tensor;
}

}  // namespace mlc::compile
