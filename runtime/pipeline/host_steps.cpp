#include "runtime/pipeline/host_steps.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "base/compose.h"
#include "runtime/io/picture/image.h"
#include "runtime/io/sound/pcm.h"
#include "runtime/io/sound/sound.h"
#include "runtime/pipeline/page/cut_pictures.h"
#include "runtime/pipeline/scores.h"
#include "schema/pipeline/lines.h"

namespace mlc::pipeline {
namespace {

io::ImageOptions options_of(const DecodeImage& s) {
  io::ImageOptions o;
  switch (s.color) {
    case Color::Rgb: o.color = io::Color::Rgb; break;
    case Color::Bgr: o.color = io::Color::Bgr; break;
    case Color::Gray: o.color = io::Color::Gray; break;
  }
  switch (s.gray) {
    case Like::Pillow: o.gray = io::GrayFormula::Pillow; break;
    case Like::OpenCv: o.gray = io::GrayFormula::OpenCv; break;
  }
  switch (s.alpha) {
    case AlphaMode::Drop: o.alpha = io::Alpha::Drop; break;
    case AlphaMode::Over: o.alpha = io::Alpha::Over; break;
    case AlphaMode::Keep: o.alpha = io::Alpha::Keep; break;
  }
  o.background = s.background;
  o.orient = s.exif ? io::Orient::Exif : io::Orient::Ignore;
  return o;
}

}  // namespace

Result<HostTensor> decode_image(const DecodeImage& step, Bytes file, const io::DecodeLimits& limits) {
  return io::decode_image(file, options_of(step), limits);
}

io::Channels channels_of(Channels c) {
  switch (c) {
    case Channels::First: return io::Channels::First;
    case Channels::Mean: return io::Channels::Mean;
    case Channels::Keep: return io::Channels::Keep;
  }
  return io::Channels::First;
}

Status not_scores(std::string_view step, const HostTensor& t, std::string_view expected) {
  return Status(Code::InputMismatch, "step '" + std::string(step) + "' takes " + std::string(expected) + ", found " +
                                         type_text(t.dtype, t.shape));
}

// The better of two columns: higher score, then lower index; NaN is worse than everything.
bool better(double a, int64_t ia, double b, int64_t ib) {
  bool na = std::isnan(a), nb = std::isnan(b);
  if (na != nb) return nb;
  return (na || a == b) ? ia < ib : a > b;
}

Status check_rate(uint32_t found, uint32_t taken) {
  if (found == taken) return ok();
  return Status(Code::InputMismatch, "audio has " + std::to_string(found) + " samples per second, the pipeline takes " + std::to_string(taken));
}

Result<HostTensor> decode_audio(const DecodeAudio& step, Bytes file, const io::DecodeLimits& limits) {
  MLC_ASSIGN(io::Audio audio, io::decode_sound(file, channels_of(step.channels), limits));
  MLC_RETURN_IF_ERROR(check_rate(audio.rate, step.rate));
  return std::move(audio.samples);
}

bool is_decoded_sound(const HostTensor& t) {
  const bool is_sample = t.dtype == DType::F32 || t.dtype == DType::F64 || t.dtype == DType::I16;
  return is_sample && (t.shape.size() == 1 || (t.shape.size() == 2 && t.shape[1] >= 1 && t.shape[1] <= kMostSoundChannels));
}

Result<HostTensor> decode_samples(const DecodeAudio& step, const HostTensor& t, const io::DecodeLimits& limits) {
  assert(is_decoded_sound(t));
  const int64_t channels = t.shape.size() == 2 ? t.shape[1] : 1;
  const auto width = static_cast<uint32_t>(bytes_of(t.dtype));
  const io::PcmFormat format{t.dtype != DType::I16, 8 * width, static_cast<uint32_t>(channels), step.rate};
  const auto samples = static_cast<uint64_t>(t.elements());
  if (samples > io::kMaxSamples) return Status(Code::InputMismatch, 4001, "a sound of {} samples, at most {} are taken", samples, io::kMaxSamples);
  std::vector<int64_t> shape = {t.shape[0]};
  if (step.channels == Channels::Keep) shape.push_back(channels);
  const uint64_t kept = step.channels == Channels::Keep ? samples : static_cast<uint64_t>(t.shape[0]);
  MLC_RETURN_IF_ERROR(io::MemoryNeed().add(kept, sizeof(float)).check(limits.beyond(t.data.bytes()), compose("a sound of {} samples", kept)));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, std::move(shape)));
  io::pcm_to_floats(t.data.bytes(), format, channels_of(step.channels), out.as<float>().data());
  return out;
}

namespace {

// The best `k` of the columns of a row, the best one first. Takes memory for k of them, however many there are.
template <class Better>
void choose_best(int64_t columns, size_t k, const Better& is_better, std::vector<int64_t>& best) {
  best.clear();
  for (int64_t column = 0; column < columns; ++column) {
    if (best.size() == k) {
      if (k == 0 || !is_better(column, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), is_better);  // the worst of them
      best.pop_back();
    }
    best.push_back(column);
    std::push_heap(best.begin(), best.end(), is_better);
  }
  std::sort_heap(best.begin(), best.end(), is_better);
}

}  // namespace

namespace {

// Its own, or that of classes of which too little is certain. A score that is no number is too little.
const std::string& label_of(const TopK& step, const std::string& own, double score) {
  if (!step.unsure) return own;
  const auto other = step.others.find(own);
  const TopK::Unsure& unsure = other == step.others.end() ? *step.unsure : other->second;
  return score >= unsure.below ? own : unsure.label;
}

}  // namespace

Result<Classes> top_k(const TopK& step, const HostTensor& scores, std::span<const std::string> labels, AnswerBudget& budget) {
  if (!has_scores(scores) || scores.shape.empty() || scores.shape.back() == 0)
    return not_scores("top_k", scores, "floats with at least one column");
  const std::string_view who = "top_k";
  const int64_t columns = scores.shape.back(), rows = scores.elements() / columns;
  if (!step.labels.empty()) MLC_RETURN_IF_ERROR(check_labels("top_k", step.labels, step.label_offset, labels.size(), columns));
  const auto k = static_cast<size_t>(std::min(step.k, columns));
  // In the worst order each is put into the heap of the best.
  MLC_RETURN_IF_ERROR(budget.look_at(static_cast<uint64_t>(scores.elements()) * static_cast<uint64_t>(std::bit_width(k)), who));
  MLC_RETURN_IF_ERROR(budget.take(static_cast<uint64_t>(rows), sizeof(std::vector<Scored>) + k * sizeof(Scored), who));
  Classes result;
  result.rows.reserve(static_cast<size_t>(rows));
  std::vector<int64_t> order;
  for (int64_t row = 0; row < rows; ++row) {
    const auto score = [&](int64_t column) { return score_at(scores, row * columns + column); };
    choose_best(columns, k, [&](int64_t a, int64_t b) { return better(score(a), a, score(b), b); }, order);
    std::vector<Scored> best;
    best.reserve(k);
    for (const int64_t column : order) {
      const int64_t line = column + step.label_offset;
      Scored& entry = best.emplace_back(Scored{column, score(column), {}});
      if (step.labels.empty() || line < 0) continue;  // a negative offset leaves the first columns without a label
      const std::string& label = label_of(step, labels[static_cast<size_t>(line)], entry.score);
      MLC_RETURN_IF_ERROR(budget.take(label.size(), who));
      entry.label = label;
    }
    result.rows.push_back(std::move(best));
  }
  return result;
}

Result<Text> ctc_greedy(const CtcGreedy& step, const HostTensor& scores, std::span<const std::string> charset, AnswerBudget& budget) {
  size_t rank = scores.shape.size();
  if (!has_scores(scores) || (rank != 2 && rank != 3) || scores.shape.back() == 0)
    return not_scores("ctc_greedy", scores, "floats of shape [time, columns] or [batch, time, columns]");
  int64_t columns = scores.shape[rank - 1], time = scores.shape[rank - 2], batch = rank == 3 ? scores.shape[0] : 1;
  MLC_RETURN_IF_ERROR(check_charset(step, charset.size(), columns));
  const std::string_view who = "ctc_greedy";
  MLC_RETURN_IF_ERROR(budget.look_at(static_cast<uint64_t>(scores.elements()), who));
  MLC_RETURN_IF_ERROR(budget.take(static_cast<uint64_t>(batch), sizeof(Line), who));
  Text result;
  result.lines.reserve(static_cast<size_t>(batch));
  for (int64_t b = 0; b < batch; ++b) {
    Line line;
    double sum = 0;
    int64_t kept = 0, previous = step.blank;
    for (int64_t t = 0; t < time; ++t) {
      int64_t row = (b * time + t) * columns, best = 0;
      for (int64_t c = 1; c < columns; ++c)
        if (better(score_at(scores, row + c), c, score_at(scores, row + best), best)) best = c;
      if (best != step.blank && best != previous) {
        int64_t entry = best - (best > step.blank);
        const std::string_view character = entry < static_cast<int64_t>(charset.size()) ? std::string_view(charset[static_cast<size_t>(entry)]) : " ";
        MLC_RETURN_IF_ERROR(budget.take(character.size(), who));
        line.text += character;
        sum += score_at(scores, row + best);
        ++kept;
      }
      previous = best;
    }
    line.score = kept ? sum / static_cast<double>(kept) : 0;
    result.lines.push_back(std::move(line));
  }
  return result;
}

namespace {

// Whole pixels [first, second) of `extent` that the interval from `low` to `high` touches, one at least.
std::pair<int64_t, int64_t> touched(float low, float high, int64_t extent) {
  const auto inside = [&](double at, int64_t least, int64_t most) {
    return static_cast<int64_t>(std::clamp(at, static_cast<double>(least), static_cast<double>(most)));
  };
  const int64_t first = inside(std::floor(double{low}), 0, extent - 1);
  return {first, inside(std::ceil(double{high}), first + 1, extent)};
}

}  // namespace

Result<std::vector<HostTensor>> cut(const HostTensor& picture, const HostTensor& boxes, AnswerBudget& budget) {
  if (boxes.dtype != DType::F32 || boxes.shape.size() != 2 || boxes.shape[1] < 4)
    return Status(Code::Usage, 5009, "step 'cut' takes boxes f32[n,4], found {}", type_text(boxes.dtype, boxes.shape));
  if (picture.dtype != DType::U8 || picture.shape.size() != 3 || picture.shape[0] < 1 || picture.shape[1] < 1)
    return Status(Code::Usage, 5009, "step 'cut' takes a picture u8[h,w,c], found {}", type_text(picture.dtype, picture.shape));
  std::vector<HostTensor> parts;
  uint64_t total = 0;
  const int64_t channels = picture.shape[2], row_bytes = picture.shape[1] * channels;
  MLC_RETURN_IF_ERROR(budget.take(static_cast<uint64_t>(boxes.shape[0]), sizeof(HostTensor), "cut"));
  for (int64_t box = 0; box < boxes.shape[0]; ++box) {
    const float* b = boxes.as<float>().data() + box * boxes.shape[1];
    if (!std::all_of(b, b + 4, [](float v) { return std::isfinite(v); }))
      return Status(Code::InputMismatch, 4001, "step 'cut': box {} is not finite", box);
    const auto [left, right] = touched(b[0], b[2], picture.shape[1]);
    const auto [top, bottom] = touched(b[1], b[3], picture.shape[0]);
    const auto bytes = static_cast<uint64_t>((bottom - top) * (right - left) * channels);
    MLC_RETURN_IF_ERROR(add_part(bytes, total));
    MLC_RETURN_IF_ERROR(budget.take(bytes, "cut"));
    MLC_ASSIGN(HostTensor part, HostTensor::zeros(DType::U8, {bottom - top, right - left, channels}));
    for (int64_t y = top; y < bottom; ++y)
      std::copy_n(picture.data.data() + y * row_bytes + left * channels, (right - left) * channels, part.data.data() + (y - top) * (right - left) * channels);
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<SoundFile> wav_out(const WavOut& step, const HostTensor& sound, AnswerBudget& budget) {
  const std::vector<int64_t>& shape = sound.shape;
  const bool is_fit = sound.dtype == DType::F32 && !shape.empty() && shape.size() <= 3 && (shape.size() < 3 || shape[0] == 1);
  if (!is_fit)
    return Status(Code::InputMismatch, 4001, "step 'wav_out' takes f32 [samples], [channels, samples] or [1, channels, samples], found {}",
                  type_text(sound.dtype, shape));
  SoundFile file{"audio/wav", step.rate, shape.size() > 1 ? shape[shape.size() - 2] : 1, shape.back(), {}};
  auto bytes = io::encode_wav(sound.as<float>(), file.channels, static_cast<uint32_t>(step.rate), [&](uint64_t n) { return budget.take(n, "wav_out"); });
  if (!bytes.ok()) return std::move(bytes).status().note("step 'wav_out'");
  file.bytes = std::move(*bytes);
  return file;
}

}  // namespace mlc::pipeline
