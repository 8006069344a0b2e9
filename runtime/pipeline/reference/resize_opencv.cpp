// OpenCV's 8-bit resampling without antialias (OpenCV 4.6: modules/imgproc/src/resize.cpp): linear with weights of 11
// bits each way, and nearest.
#include <cmath>

#include "runtime/pipeline/reference/array_steps.h"

namespace mlc::pipeline::reference {
namespace {

struct Tap {
  int64_t at = 0;           // of the first of two pixels, may lie outside
  int32_t w0 = 0, w1 = 0;   // 2048 = 1
};

double scale_of(int64_t in, int64_t out) { return 1.0 / (static_cast<double>(out) / static_cast<double>(in)); }

std::vector<Tap> taps_of(int64_t in, int64_t out, bool clamp_weights) {
  double scale = scale_of(in, out);
  std::vector<Tap> all;
  for (int64_t i = 0; i < out; ++i) {
    float f = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    auto at = static_cast<int64_t>(std::floor(f));
    f -= static_cast<float>(at);
    // Along rows a position outside takes the border pixel alone; along columns only its row is clamped, see below.
    if (clamp_weights && at < 0) at = 0, f = 0;
    if (clamp_weights && at >= in - 1) at = in - 1, f = 0;
    all.push_back({at, static_cast<int32_t>(std::nearbyint((1.0f - f) * 2048.0f)),
                   static_cast<int32_t>(std::nearbyint(f * 2048.0f))});
  }
  return all;
}

Result<HostTensor> linear(const HostTensor& in, int64_t height, int64_t width) {
  int64_t channels = in.shape[2];
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::U8, {height, width, channels}));
  auto columns = taps_of(in.shape[1], width, true), rows = taps_of(in.shape[0], height, false);
  auto pixel = [&](int64_t y, int64_t x, int64_t c) -> int32_t {
    y = std::min(std::max<int64_t>(y, 0), in.shape[0] - 1);
    x = std::min(x, in.shape[1] - 1);
    return in.as<uint8_t>()[static_cast<size_t>((y * in.shape[1] + x) * channels + c)];
  };
  auto to = out.as<uint8_t>();
  size_t n = 0;
  for (const Tap& row : rows)
    for (const Tap& column : columns)
      for (int64_t c = 0; c < channels; ++c) {
        int32_t h0 = pixel(row.at, column.at, c) * column.w0 + pixel(row.at, column.at + 1, c) * column.w1;
        int32_t h1 = pixel(row.at + 1, column.at, c) * column.w0 + pixel(row.at + 1, column.at + 1, c) * column.w1;
        to[n++] = static_cast<uint8_t>((((row.w0 * (h0 >> 4)) >> 16) + ((row.w1 * (h1 >> 4)) >> 16) + 2) >> 2);
      }
  return out;
}

Result<HostTensor> opencv_nearest(const HostTensor& in, int64_t height, int64_t width) {
  int64_t channels = in.shape[2];
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::U8, {height, width, channels}));
  auto position = [](int64_t i, int64_t size, double scale) {
    return std::min(size - 1, static_cast<int64_t>(std::floor(static_cast<double>(i) * scale)));
  };
  double rows = scale_of(in.shape[0], height), columns = scale_of(in.shape[1], width);
  auto to = out.as<uint8_t>();
  size_t n = 0;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        to[n++] = in.as<uint8_t>()[static_cast<size_t>(
            (position(y, in.shape[0], rows) * in.shape[1] + position(x, in.shape[1], columns)) * channels + c)];
  return out;
}

}  // namespace

Result<HostTensor> resize_opencv(const HostTensor& in, int64_t height, int64_t width, Kernel kernel) {
  if (in.dtype != DType::U8 || in.shape.size() != 3 || in.data.size() == 0)
    return Status(Code::InputMismatch, "resize takes u8 [h, w, c], found " + type_text(in.dtype, in.shape));
  if (in.shape[0] == height && in.shape[1] == width) return in.clone();
  return kernel == Kernel::Nearest ? opencv_nearest(in, height, width) : linear(in, height, width);
}

}  // namespace mlc::pipeline::reference
