// Mel is a scale of pitch. `htk`: 2595 log10(1 + f / 700). `slaney`: 200/3 Hz are one mel up to 1 kHz, above that 27 mel are a factor of 6.4.
// The edges of the bands are equally far apart in mel; each band is a triangle from one edge over the next to the one behind that.
#include "schema/pipeline/sound_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// Of torchaudio: six crossings of zero on each side, and nothing above 0.99 of the lower one of both highest frequencies.
constexpr double kCrossings = 6, kRolloff = 0.99;
// Of scipy: ten crossings, Kaiser's window with this beta.
constexpr int64_t kHalfCrossings = 10;
constexpr double kBeta = 5;

double lower_rate(const Resample& s) { return static_cast<double>(std::min(s.from, s.to)) * kRolloff; }

int64_t samples_before(const Resample& s) {
  if (s.like == Resample::Like::Torchaudio) return static_cast<int64_t>(std::ceil(kCrossings * static_cast<double>(s.from) / lower_rate(s)));
  return (kHalfCrossings * std::max(s.from, s.to) + s.to - 1) / s.to;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

// The modified Bessel function of order 0: the sum of ((x/2)^k / k!)^2.
double bessel(double x) {
  double sum = 1, term = 1;
  for (double k = 1; term > sum * 1e-17; ++k) term *= (x / 2 / k) * (x / 2 / k), sum += term;
  return sum;
}

// The place of a phase is rounded to f32, as it is there.
double torchaudio_weight(const Resample& s, int64_t phase, int64_t sample) {
  const double place = double{static_cast<float>(-static_cast<double>(phase) / static_cast<double>(s.to))};
  const double t = (place + static_cast<double>(sample) / static_cast<double>(s.from)) * lower_rate(s);
  if (!(std::fabs(t) < kCrossings)) return 0;
  const double window = std::cos(t * std::numbers::pi / kCrossings / 2);
  return sinc(t) * window * window * lower_rate(s) / static_cast<double>(s.from);
}

// By the distance in steps of 1 / (from * to) of a second.
double scipy_weight(const Resample& s, int64_t distance) {
  const auto widest = static_cast<double>(std::max(s.from, s.to));
  const double part = static_cast<double>(distance) / (kHalfCrossings * widest);
  if (std::fabs(part) > 1) return 0;
  return sinc(static_cast<double>(distance) / widest) * bessel(kBeta * std::sqrt(1 - part * part));
}

}  // namespace

int64_t resample_taps_size(const Resample& step) { return step.to * (2 * samples_before(step) + 2); }

ResampleTaps resample_taps(const Resample& step) {
  ResampleTaps made;
  made.before = samples_before(step);
  made.count = 2 * made.before + 2;
  made.taps.resize(static_cast<size_t>(resample_taps_size(step)));
  double all = 0;
  if (const int64_t half = kHalfCrossings * std::max(step.from, step.to); step.like == Resample::Like::Scipy)
    for (int64_t distance = -half; distance <= half; ++distance) all += scipy_weight(step, distance);
  size_t at = 0;
  for (int64_t phase = 0; phase < step.to; ++phase)
    for (int64_t j = 0; j < made.count; ++j) {
      const int64_t sample = phase * step.from / step.to - made.before + j;
      made.taps[at++] = step.like == Resample::Like::Torchaudio ? torchaudio_weight(step, phase, sample)
                                                                : scipy_weight(step, phase * step.from - sample * step.to) * static_cast<double>(step.to) / all;
    }
  return made;
}

// torchaudio rounds the quotient to f32 before it rounds up, and makes whole blocks of `to` samples.
int64_t resampled_length(const Resample& step, int64_t samples) {
  if (step.from == step.to) return samples;
  if (step.like == Resample::Like::Scipy) return (step.to * samples + step.from - 1) / step.from;
  const auto quotient = static_cast<float>(static_cast<double>(step.to * samples) / static_cast<double>(step.from));
  return std::min(static_cast<int64_t>(std::ceil(quotient)), step.to * (samples / step.from + 1));
}

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

std::vector<double> overlap_table(const OverlapAdd& step, int64_t length) {
  std::vector<double> table(static_cast<size_t>(length), 1);
  if (!step.has_window) return table;
  const std::vector<double> weights = window_table(step.window, length);
  for (int64_t i = 0; i < length; ++i) {
    double squares = 0;
    for (int64_t k = i % step.hop; k < length; k += step.hop) squares += weights[static_cast<size_t>(k)] * weights[static_cast<size_t>(k)];
    table[static_cast<size_t>(i)] = weights[static_cast<size_t>(i)] / (squares > double{std::numeric_limits<float>::min()} ? squares : 1);
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
