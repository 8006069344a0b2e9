// Pillow's resampling (Pillow 9.4: src/libImaging/Resample.c and, for nearest, Geometry.c). Two passes over bytes with
// weights of 22 fractional bits, the horizontal one first; a pass that keeps its size is left out.
#include <cmath>
#include <functional>

#include "runtime/pipeline/reference/array_steps.h"

namespace mlc::pipeline::reference {
namespace {

constexpr int kPrecision = 32 - 8 - 2;

double sinc(double x) {
  if (x == 0) return 1;
  x *= M_PI;
  return std::sin(x) / x;
}

double weight(Kernel k, double x) {
  switch (k) {
    case Kernel::Box: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case Kernel::Bilinear: x = std::fabs(x); return x < 1.0 ? 1.0 - x : 0.0;
    case Kernel::Hamming:
      x = std::fabs(x);
      if (x == 0.0) return 1.0;
      if (x >= 1.0) return 0.0;
      x = x * M_PI;
      return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
    case Kernel::Bicubic: {
      constexpr double a = -0.5;
      x = std::fabs(x);
      if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
      if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
      return 0.0;
    }
    case Kernel::Lanczos: return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    case Kernel::Nearest:
    case Kernel::Linear: break;
  }
  return 0;
}

double radius(Kernel k) {
  switch (k) {
    case Kernel::Box: return 0.5;
    case Kernel::Bilinear:
    case Kernel::Hamming: return 1;
    case Kernel::Bicubic: return 2;
    case Kernel::Lanczos: return 3;
    case Kernel::Nearest:
    case Kernel::Linear: break;
  }
  return 0;
}

struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> taps_of(int64_t in, int64_t out, Kernel kernel) {
  double scale = static_cast<double>(in) / static_cast<double>(out);
  double filter_scale = std::max(scale, 1.0), reach = radius(kernel) * filter_scale, inverse = 1.0 / filter_scale;
  std::vector<Taps> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    double center = (static_cast<double>(i) + 0.5) * scale;
    int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5));
    int64_t last = std::min(in, static_cast<int64_t>(center + reach + 0.5));
    std::vector<double> w;
    double sum = 0;
    for (int64_t t = 0; t < last - first; ++t) {
      w.push_back(weight(kernel, (static_cast<double>(t + first) - center + 0.5) * inverse));
      sum += w.back();
    }
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    for (double v : w) {
      if (sum != 0) v /= sum;
      taps.weights.push_back(static_cast<int32_t>((v < 0 ? -0.5 : 0.5) + v * (1 << kPrecision)));
    }
  }
  return all;
}

uint8_t clip(int32_t sum) {
  int32_t v = sum >> kPrecision;
  return static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v);
}

// One pass along `axis` (0 rows, 1 columns) of [h, w, c].
Result<HostTensor> pass(const HostTensor& in, int axis, int64_t size, Kernel kernel) {
  std::vector<int64_t> shape = in.shape;
  shape[axis] = size;
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::U8, shape));
  auto taps = taps_of(in.shape[axis], size, kernel);
  int64_t channels = shape[2], in_row = in.shape[1] * channels, step = axis == 0 ? in_row : channels;
  auto from = in.as<uint8_t>();
  auto to = out.as<uint8_t>();
  size_t n = 0;
  for (int64_t y = 0; y < shape[0]; ++y)
    for (int64_t x = 0; x < shape[1]; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        const Taps& t = taps[static_cast<size_t>(axis == 0 ? y : x)];
        int64_t at = (axis == 0 ? t.first * in_row + x * channels : y * in_row + t.first * channels) + c;
        int32_t sum = 1 << (kPrecision - 1);
        for (int32_t w : t.weights) sum += w * from[static_cast<size_t>(at)], at += step;
        to[n++] = clip(sum);
      }
  return out;
}

// Pillow walks to each position by adding the scale, so the sum of rounding errors is part of the definition: with the
// closed form floor((i + 0.5) * scale) one size pair in five has a pixel that differs.
std::vector<int64_t> nearest_positions(int64_t in, int64_t out) {
  double scale = static_cast<double>(in) / static_cast<double>(out), at = scale * 0.5;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < out; ++i, at += scale) positions.push_back(std::min(in - 1, static_cast<int64_t>(at)));
  return positions;
}

Result<HostTensor> pillow_nearest(const HostTensor& in, int64_t height, int64_t width) {
  int64_t channels = in.shape[2];
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::U8, {height, width, channels}));
  auto rows = nearest_positions(in.shape[0], height), columns = nearest_positions(in.shape[1], width);
  auto to = out.as<uint8_t>();
  size_t n = 0;
  for (int64_t row : rows)
    for (int64_t column : columns)
      for (int64_t c = 0; c < channels; ++c)
        to[n++] = in.as<uint8_t>()[static_cast<size_t>((row * in.shape[1] + column) * channels + c)];
  return out;
}

}  // namespace

Result<HostTensor> resize_pillow(const HostTensor& in, int64_t height, int64_t width, Kernel kernel) {
  if (in.dtype != DType::U8 || in.shape.size() != 3 || in.data.size() == 0)
    return Status(Code::InputMismatch, "resize takes u8 [h, w, c], found " + type_text(in.dtype, in.shape));
  if (in.shape[0] == height && in.shape[1] == width) return in.clone();
  if (kernel == Kernel::Nearest) return pillow_nearest(in, height, width);
  MLC_ASSIGN(HostTensor wide, in.shape[1] == width ? in.clone() : pass(in, 1, width, kernel));
  return wide.shape[0] == height ? Result<HostTensor>(std::move(wide)) : pass(wide, 0, height, kernel);
}

}  // namespace mlc::pipeline::reference
