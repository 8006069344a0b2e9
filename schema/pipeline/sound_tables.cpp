// Mel is a scale of pitch. `htk`: 2595 log10(1 + f / 700). `slaney`: 200/3 Hz are one mel up to 1 kHz, above that 27 mel are a factor of 6.4.
// The edges of the bands are equally far apart in mel; each band is a triangle from one edge over the next to the one behind that.
#include "schema/pipeline/sound_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mlc::pipeline {
namespace {

constexpr double kSlaneyStep = 200.0 / 3, kSlaneyBreak = 1000;
const double kSlaneyLog = std::log(6.4) / 27;

double mel_of(Mel::Scale scale, double hz) {
  if (scale != Mel::Scale::Slaney) return 2595 * std::log10(1 + hz / 700);
  return hz < kSlaneyBreak ? hz / kSlaneyStep : kSlaneyBreak / kSlaneyStep + std::log(hz / kSlaneyBreak) / kSlaneyLog;
}

double hz_of(Mel::Scale scale, double mel) {
  if (scale != Mel::Scale::Slaney) return 700 * (std::pow(10, mel / 2595) - 1);
  const double at_break = kSlaneyBreak / kSlaneyStep;
  return mel < at_break ? mel * kSlaneyStep : kSlaneyBreak * std::exp(kSlaneyLog * (mel - at_break));
}

}  // namespace

std::vector<double> window_table(const Window& step, int64_t length) {
  std::vector<double> table(static_cast<size_t>(length), 1);
  const auto period = static_cast<double>(step.is_periodic ? length : length - 1);
  for (int64_t i = 0; i < length && length > 1; ++i) {
    const double wave = std::cos(2 * std::numbers::pi * static_cast<double>(i) / period);
    double& value = table[static_cast<size_t>(i)];
    switch (step.shape) {
      case Window::Shape::Hann: value = 0.5 - 0.5 * wave; break;
      case Window::Shape::Hamming: value = 0.54 - 0.46 * wave; break;
      case Window::Shape::Povey: value = std::pow(0.5 - 0.5 * wave, 0.85); break;
    }
  }
  return table;
}

std::vector<double> mel_weights(const Mel& step) {
  const int64_t bins = step.n_fft / 2 + 1;
  std::vector<double> table(static_cast<size_t>(bins * step.bands));
  const double low = mel_of(step.scale, step.low), high = mel_of(step.scale, step.high);
  const auto edge = [&](int64_t k) { return low + (high - low) * static_cast<double>(k) / static_cast<double>(step.bands + 1); };
  const bool over_mel = step.scale == Mel::Scale::Kaldi;
  for (int64_t band = 0; band < step.bands; ++band) {
    double left = edge(band), middle = edge(band + 1), right = edge(band + 2);
    const double width = hz_of(step.scale, right) - hz_of(step.scale, left);
    if (!over_mel)
      for (double* place : {&left, &middle, &right}) *place = hz_of(step.scale, *place);
    for (int64_t bin = 0; bin < bins; ++bin) {
      const double hz = static_cast<double>(bin) * step.rate / static_cast<double>(step.n_fft);
      const double at = over_mel ? mel_of(step.scale, hz) : hz;
      const double weight = std::max(0.0, std::min((at - left) / (middle - left), (right - at) / (right - middle)));
      table[static_cast<size_t>(bin * step.bands + band)] = step.has_slaney_norm ? weight * 2 / width : weight;
    }
  }
  return table;
}

int64_t least_samples(const Frame& step) {
  if (step.end == Frame::End::Pad) return 1;
  const int64_t around = step.edge == Frame::Edge::None ? 0 : step.length / 2 * 2;
  return std::max<int64_t>(1, step.length - around + (step.end == Frame::End::DropWhole ? step.hop : 0));
}

}  // namespace mlc::pipeline
