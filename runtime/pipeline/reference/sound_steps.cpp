// Steps on sounds: sums in double, each step's result rounded once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/pipeline/reference/array_steps.h"
#include "schema/pipeline/sound_tables.h"

namespace mlc::pipeline::reference {
namespace {

Status need(std::string_view step, const HostTensor& t, size_t axes) {
  if (t.dtype == DType::F32 && t.shape.size() >= axes) return ok();
  return Status(Code::InputMismatch, "step '{}' takes f32 with {} axes or more, found {}", step, axes, type_text(t.dtype, t.shape));
}

size_t last(const HostTensor& t) { return static_cast<size_t>(t.shape.back()); }

// The same rows with another length.
Result<HostTensor> rows_of(const HostTensor& in, int64_t length) {
  std::vector<int64_t> shape = in.shape;
  shape.back() = length;
  return HostTensor::zeros(DType::F32, shape);
}

// As numpy.pad: again and again.
int64_t reflected(int64_t i, int64_t n) {
  while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
  return n == 1 ? 0 : i;
}

struct Circle {
  std::vector<double> cosine, sine;
};
// Of n angles, equally far apart.
Circle circle(size_t n) {
  Circle made{std::vector<double>(n), std::vector<double>(n)};
  for (size_t i = 0; i < n; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    made.cosine[i] = std::cos(angle), made.sine[i] = std::sin(angle);
  }
  return made;
}

}  // namespace

Result<HostTensor> fit(const Fit& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("fit", in, 1));
  MLC_ASSIGN(HostTensor out, rows_of(in, s.samples));
  for (size_t k = 0; k < out.as<float>().size(); ++k)
    if (const size_t i = k % last(out); i < last(in)) out.as<float>()[k] = in.as<float>()[k / last(out) * last(in) + i];
  return out;
}

Result<HostTensor> resample(const Resample& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("resample", in, 1));
  if (s.from == s.to) return in.clone();
  const ResampleTaps filter = resample_taps(s);
  const int64_t samples = in.shape.back();
  MLC_ASSIGN(HostTensor out, rows_of(in, resampled_length(s, samples)));
  for (size_t k = 0; k < out.as<float>().size(); ++k) {
    const size_t sound = k / last(out);
    const auto place = static_cast<int64_t>(k % last(out));
    double sum = 0;
    for (int64_t j = 0; j < filter.count; ++j)
      if (const int64_t i = place * s.from / s.to - filter.before + j; i >= 0 && i < samples)
        sum += double{in.as<float>()[sound * last(in) + static_cast<size_t>(i)]} *
               double{static_cast<float>(filter.taps[static_cast<size_t>(place % s.to * filter.count + j)])};
    out.as<float>()[k] = static_cast<float>(sum);
  }
  return out;
}

Result<HostTensor> frame(const Frame& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("frame", in, 1));
  const int64_t samples = in.shape.back(), around = s.edge == Frame::Edge::None ? 0 : s.length / 2;
  if (samples < least_samples(s)) return Status(Code::InputMismatch, "step 'frame' needs {} samples, found {}", least_samples(s), samples);
  const int64_t all = samples + 2 * around;
  int64_t frames = 0;
  if (s.end == Frame::End::Pad)
    for (frames = 1; (frames - 1) * s.hop + s.length < all;) ++frames;
  else
    while (frames * s.hop + s.length <= all) ++frames;
  if (s.end == Frame::End::DropWhole) --frames;
  std::vector<int64_t> shape = in.shape;
  shape.back() = frames;
  shape.push_back(s.length);
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, shape));
  for (size_t k = 0; k < out.as<float>().size(); ++k) {
    const auto place = static_cast<int64_t>(k), sound = place / (frames * s.length);
    int64_t i = place / s.length % frames * s.hop + place % s.length - around;
    if (i + around >= all) continue;
    if (s.edge == Frame::Edge::Reflect) i = reflected(i, samples);
    if (i >= 0 && i < samples) out.as<float>()[k] = in.as<float>()[static_cast<size_t>(sound * samples + i)];
  }
  return out;
}

Result<HostTensor> window(const Window& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("window", in, 1));
  const std::vector<double> table = window_table(s, in.shape.back());
  MLC_ASSIGN(HostTensor out, in.clone());
  for (size_t i = 0; i < out.as<float>().size(); ++i) out.as<float>()[i] *= static_cast<float>(table[i % table.size()]);
  return out;
}

Result<HostTensor> pre_emphasis(const PreEmphasis& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("pre_emphasis", in, 1));
  MLC_ASSIGN(HostTensor out, in.clone());
  for (size_t i = 0; i < out.as<float>().size(); ++i)
    out.as<float>()[i] = static_cast<float>(double{in.as<float>()[i]} - s.factor * double{in.as<float>()[i % last(in) == 0 ? i : i - 1]});
  return out;
}

Result<HostTensor> stft(const Stft& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("stft", in, 1));
  if (in.shape.back() > s.n_fft) return Status(Code::InputMismatch, "step 'stft' has an 'n_fft' of {}, found rows of {}", s.n_fft, in.shape.back());
  const auto n = static_cast<size_t>(s.n_fft), bins = n / 2 + 1, parts = s.power == 0 ? size_t{2} : size_t{1};
  std::vector<int64_t> shape = in.shape;
  shape.back() = static_cast<int64_t>(bins);
  if (s.power == 0) shape.push_back(2);
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, shape));
  const auto [cosine, sine] = circle(n);
  for (size_t k = 0; k < out.as<float>().size() / parts; ++k) {
    const size_t row = k / bins, bin = k % bins;
    double re = 0, im = 0;
    for (size_t i = 0; i < last(in); ++i) {
      const double v = in.as<float>()[row * last(in) + i];
      re += v * cosine[i * bin % n], im -= v * sine[i * bin % n];
    }
    if (s.power == 0) {
      out.as<float>()[2 * k] = static_cast<float>(re), out.as<float>()[2 * k + 1] = static_cast<float>(im);
      continue;
    }
    const double power = re * re + im * im;
    out.as<float>()[k] = static_cast<float>(s.power == 2 ? power : std::sqrt(power));
  }
  return out;
}

Result<HostTensor> istft(const Istft& s, const HostTensor& in, const HostTensor* mask) {
  MLC_RETURN_IF_ERROR(need("istft", in, 2));
  const auto n = static_cast<size_t>(s.n_fft), bins = n / 2 + 1;
  std::vector<int64_t> shape(in.shape.begin(), in.shape.end() - 1);
  if (in.shape.back() != 2 || shape.back() != static_cast<int64_t>(bins))
    return Status(Code::InputMismatch, "step 'istft' takes spectra [.., {}, 2], found {}", bins, type_text(in.dtype, in.shape));
  if (mask && (mask->dtype != DType::F32 || mask->shape != shape))
    return Status(Code::InputMismatch, "step 'istft' takes a 'mask' {}, found {}", type_text(DType::F32, shape), type_text(mask->dtype, mask->shape));
  shape.back() = s.n_fft;
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, shape));
  const auto [cosine, sine] = circle(n);
  for (size_t k = 0; k < out.as<float>().size(); ++k) {
    const size_t row = k / n, i = k % n;
    double sum = 0;
    for (size_t bin = 0; bin < bins; ++bin) {
      const size_t at = row * bins + bin;
      // All but the first and, of an even length, the last one stand for two.
      const double weight = (bin == 0 || 2 * bin == n ? 1 : 2) * (mask ? double{mask->as<float>()[at]} : 1);
      sum += weight * (double{in.as<float>()[2 * at]} * cosine[i * bin % n] - double{in.as<float>()[2 * at + 1]} * sine[i * bin % n]);
    }
    out.as<float>()[k] = static_cast<float>(sum / static_cast<double>(n));
  }
  return out;
}

Result<HostTensor> overlap_add(const OverlapAdd& s, const HostTensor& in, const HostTensor* sound) {
  MLC_RETURN_IF_ERROR(need("overlap_add", in, 2));
  const int64_t length = in.shape.back(), frames = in.shape[in.shape.size() - 2], start = s.is_centered ? length / 2 : 0;
  if (frames < 1 || (sound && sound->shape.empty())) return Status(Code::InputMismatch, "step 'overlap_add' takes frames, found {}", type_text(in.dtype, in.shape));
  std::vector<int64_t> shape(in.shape.begin(), in.shape.end() - 1);
  shape.back() = sound ? sound->shape.back() : s.hop * (frames - 1) + length - 2 * start;
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, shape));
  const std::vector<double> window = s.has_window ? window_table(s.window, length) : std::vector<double>(static_cast<size_t>(length), 1);
  for (size_t k = 0; k < out.as<float>().size(); ++k) {
    const int64_t at = static_cast<int64_t>(k % last(out)) + start, before = static_cast<int64_t>(k / last(out)) * frames;
    double sum = 0, squares = 0;
    for (int64_t row = 0; row < frames && row * s.hop <= at; ++row) {
      const int64_t place = at - row * s.hop;
      if (place >= length) continue;
      const double weight = static_cast<float>(window[static_cast<size_t>(place)]);
      sum += weight * double{in.as<float>()[static_cast<size_t>((before + row) * length + place)]};
      squares += weight * weight;
    }
    out.as<float>()[k] = static_cast<float>(s.has_window && squares > double{std::numeric_limits<float>::min()} ? sum / squares : sum);
  }
  return out;
}

Result<std::pair<HostTensor, HostTensor>> overlap_add_on(const OverlapAdd& s, const HostTensor& in, const HostTensor& before) {
  MLC_RETURN_IF_ERROR(need("overlap_add", in, 2));
  MLC_RETURN_IF_ERROR(need("overlap_add", before, 1));
  const int64_t length = in.shape.back(), frames = in.shape[in.shape.size() - 2], overlap = length - s.hop;
  std::vector<int64_t> shape(in.shape.begin(), in.shape.end() - 1);
  shape.back() = overlap;
  if (frames < 1 || overlap < 1 || before.shape != shape)
    return Status(Code::InputMismatch, "step 'overlap_add' takes a 'before' {}, found {}", type_text(DType::F32, shape), type_text(before.dtype, before.shape));
  MLC_ASSIGN(HostTensor rest, HostTensor::zeros(DType::F32, shape));
  shape.back() = s.hop * frames;
  MLC_ASSIGN(HostTensor sound, HostTensor::zeros(DType::F32, shape));
  const std::vector<double> weights = overlap_table(s, length);
  const auto sounds = static_cast<int64_t>(before.as<float>().size()) / overlap;
  for (int64_t k = 0; k < sounds; ++k)
    for (int64_t at = 0; at < s.hop * frames + overlap; ++at) {
      double sum = at < overlap ? double{before.as<float>()[static_cast<size_t>(k * overlap + at)]} : 0;
      for (int64_t row = 0; row < frames && row * s.hop <= at; ++row)
        if (const int64_t place = at - row * s.hop; place < length)
          sum += static_cast<float>(weights[static_cast<size_t>(place)]) * double{in.as<float>()[static_cast<size_t>((k * frames + row) * length + place)]};
      const int64_t behind = at - s.hop * frames;
      (behind < 0 ? sound.as<float>()[static_cast<size_t>(k * s.hop * frames + at)] : rest.as<float>()[static_cast<size_t>(k * overlap + behind)]) =
          static_cast<float>(sum);
    }
  return std::pair(std::move(sound), std::move(rest));
}

Result<HostTensor> mel(const Mel& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("mel", in, 2));
  if (in.shape.back() != s.n_fft / 2 + 1) return Status(Code::InputMismatch, "step 'mel' takes {} columns, found {}", s.n_fft / 2 + 1, in.shape.back());
  const std::vector<double> weights = mel_weights(s);
  MLC_ASSIGN(HostTensor out, rows_of(in, s.bands));
  const auto bands = static_cast<size_t>(s.bands);
  for (size_t k = 0; k < out.as<float>().size(); ++k) {
    double sum = 0;
    for (size_t bin = 0; bin < last(in); ++bin)
      sum += double{in.as<float>()[k / bands * last(in) + bin]} * double{static_cast<float>(weights[bin * bands + k % bands])};
    out.as<float>()[k] = static_cast<float>(sum);
  }
  return out;
}

Result<HostTensor> log(const Log& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("log", in, s.has_range ? 2 : 1));
  MLC_ASSIGN(HostTensor out, in.clone());
  const std::span<float> values = out.as<float>();
  for (float& v : values) {
    const double bounded = std::max(double{v}, double{static_cast<float>(s.floor)});
    v = static_cast<float>(s.how == Log::How::Ln ? std::log(bounded) : std::log10(bounded) * (s.how == Log::How::Db ? 10 : 1));
  }
  const size_t sound = s.has_range ? last(in) * static_cast<size_t>(in.shape[in.shape.size() - 2]) : 0;
  for (size_t from = 0; sound > 0 && from < values.size(); from += sound) {
    const std::span<float> one = values.subspan(from, sound);
    const float least = *std::max_element(one.begin(), one.end()) - static_cast<float>(s.below_peak);
    for (float& v : one) v = std::max(v, least);
  }
  return out;
}

Result<HostTensor> mean_var(const MeanVar& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need("mean_var", in, s.over == MeanVar::Over::Row ? 1 : 2));
  MLC_ASSIGN(HostTensor out, in.clone());
  const size_t columns = last(in), frames = in.shape.size() > 1 ? static_cast<size_t>(in.shape[in.shape.size() - 2]) : 1;
  // Element j of group g is at from(g) + j * stride.
  const size_t stride = s.over == MeanVar::Over::Column ? columns : 1;
  const size_t count = s.over == MeanVar::Over::Row ? columns : s.over == MeanVar::Over::Column ? frames : frames * columns;
  const size_t groups = count == 0 ? 0 : out.as<float>().size() / count;
  for (size_t g = 0; g < groups; ++g) {
    const size_t from = s.over == MeanVar::Over::Column ? g / columns * frames * columns + g % columns : g * count;
    double mean = 0, squares = 0;
    for (size_t j = 0; j < count; ++j) mean += in.as<float>()[from + j * stride];
    mean /= static_cast<double>(count);
    for (size_t j = 0; j < count; ++j) squares += std::pow(in.as<float>()[from + j * stride] - mean, 2);
    const double variance = squares / static_cast<double>(s.deviation == MeanVar::Deviation::Sample ? std::max<size_t>(count - 1, 1) : count);
    const double divisor = s.deviation == MeanVar::Deviation::None ? 1
                           : s.adds_to_variance                    ? std::sqrt(variance + s.epsilon)
                                                                   : std::sqrt(variance) + s.epsilon;
    for (size_t j = 0; j < count; ++j) out.as<float>()[from + j * stride] = static_cast<float>((in.as<float>()[from + j * stride] - mean) / divisor);
  }
  return out;
}

Result<HostTensor> constant(const Constant& step) {
  const size_t count = step.whole.size() + step.real.size();
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(step.dtype, step.is_list ? std::vector<int64_t>{static_cast<int64_t>(count)} : std::vector<int64_t>{}));
  for (size_t k = 0; k < count; ++k) {
    if (step.dtype == DType::I64) out.as<int64_t>()[k] = step.whole[k];
    if (step.dtype == DType::I32) out.as<int32_t>()[k] = static_cast<int32_t>(step.whole[k]);
    if (step.dtype == DType::F64) out.as<double>()[k] = step.real[k];
    if (step.dtype == DType::F32) out.as<float>()[k] = static_cast<float>(step.real[k]);
  }
  return out;
}

Result<HostTensor> transpose(const Transpose& s, const HostTensor& in) {
  const size_t size = bytes_of(in.dtype), rank = in.shape.size();
  if (size == 0 || s.order.size() != rank)
    return Status(Code::InputMismatch, "step 'transpose' orders {} axes, found {}", s.order.size(), type_text(in.dtype, in.shape));
  std::vector<int64_t> shape;
  for (const int64_t axis : s.order) shape.push_back(in.shape[static_cast<size_t>(axis)]);
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(in.dtype, shape));
  std::vector<size_t> strides(rank, 1);
  for (size_t axis = rank; axis-- > 1;) strides[axis - 1] = strides[axis] * static_cast<size_t>(in.shape[axis]);
  for (size_t k = 0; k < out.data.size() / size; ++k) {
    size_t rest = k, from = 0;
    for (size_t axis = rank; axis-- > 0;) {
      from += rest % static_cast<size_t>(shape[axis]) * strides[static_cast<size_t>(s.order[axis])];
      rest /= static_cast<size_t>(shape[axis]);
    }
    std::copy_n(in.data.data() + from * size, size, out.data.data() + k * size);
  }
  return out;
}

}  // namespace mlc::pipeline::reference
