#include "schema/pipeline/parse_sound.h"

#include <cmath>
#include <numeric>

#include "schema/pipeline/sound_tables.h"

namespace mlc::pipeline::sound {
namespace {

constexpr int64_t kLongestFrame = 1 << 16, kLongestSpectrum = 1 << 15, kMostBands = 1024, kMostSamples = 1 << 28;
constexpr int64_t kHighestRate = 1 << 24, kMostTaps = 1 << 22;

double positive(ObjectReader& r, const Json* v, std::string_view key) {
  const double number = r.number(v, key);
  if (v && !(number > 0)) r.wrong(*v, key, "is not above 0");
  return number;
}

}  // namespace

Op fit(ObjectReader& r, const Value&, Value&) { return Fit{r.integer(r.required("samples"), "samples", 1, kMostSamples)}; }

// Rates without a common divisor: the numbers of samples are in the same proportion.
Op resample(ObjectReader& r, const Value&, Value&) {
  Resample s;
  const Json *from = r.required("from"), *to = r.required("to");
  s.from = r.integer(from, "from", 1, kHighestRate);
  s.to = r.integer(to, "to", 1, kHighestRate);
  s.like = r.choice<Resample::Like>(r.required("like"), "like", {{"torchaudio", Resample::Like::Torchaudio}, {"scipy", Resample::Like::Scipy}});
  const int64_t common = std::gcd(s.from, s.to);
  s.from /= common, s.to /= common;
  if (const int64_t size = resample_taps_size(s); to && s.from != s.to && size > kMostTaps)
    r.wrong(*to, "to", "and 'from' have so small a common divisor that the filter has " + std::to_string(size) + " weights, at most " + std::to_string(kMostTaps));
  return s;
}

Op frame(ObjectReader& r, const Value&, Value&) {
  Frame s;
  s.length = r.integer(r.required("length"), "length", 1, kLongestFrame);
  s.hop = r.integer(r.required("hop"), "hop", 1, kLongestFrame);
  using Edge = Frame::Edge;
  s.edge = r.choice<Edge>(r.required("center"), "center", {{"none", Edge::None}, {"zeros", Edge::Zeros}, {"reflect", Edge::Reflect}});
  using End = Frame::End;
  s.end = r.choice<End>(r.required("last"), "last", {{"drop", End::Drop}, {"pad", End::Pad}, {"drop_whole", End::DropWhole}});
  return s;
}

namespace {

Window window_of(ObjectReader& r) {
  Window s;
  using Shape = Window::Shape;
  s.shape = r.choice<Shape>(r.required("shape"), "shape", {{"hann", Shape::Hann}, {"hamming", Shape::Hamming}, {"povey", Shape::Povey}});
  s.is_periodic = r.choice<bool>(r.required("ends"), "ends", {{"periodic", true}, {"symmetric", false}});
  return s;
}

}  // namespace

Op window(ObjectReader& r, const Value&, Value&) { return window_of(r); }

Op pre_emphasis(ObjectReader& r, const Value&, Value&) { return PreEmphasis{r.number(r.required("factor"), "factor")}; }

Op stft(ObjectReader& r, const Value&, Value&) {
  Stft s;
  s.n_fft = r.integer(r.required("n_fft"), "n_fft", 1, kLongestSpectrum);
  const Json* power = r.required("power");
  if (power && power->is(Json::Kind::String)) s.power = r.choice<int>(power, "power", {{"complex", 0}});
  else s.power = static_cast<int>(r.integer(power, "power", 1, 2));
  return s;
}

Op istft(ObjectReader& r, const Value&, Value&) { return Istft{r.integer(r.required("n_fft"), "n_fft", 1, kLongestSpectrum)}; }

// "window": "none", or what `window` takes.
Op overlap_add(ObjectReader& r, const Value&, Value&) {
  OverlapAdd s;
  s.hop = r.integer(r.required("hop"), "hop", 1, kLongestFrame);
  const Json* center = r.required("center");
  s.is_centered = r.choice<bool>(center, "center", {{"none", false}, {"cut", true}});
  s.goes_on = r.has("before");
  const Json* out = s.goes_on ? r.required("out") : r.optional("out");
  const bool has_rest = out && out->is(Json::Kind::Object) && out->find("rest");
  if (out && s.goes_on != has_rest)
    r.wrong(*out, "out", s.goes_on ? "names no 'rest', which is 'before' of the next rows" : "names a 'rest', which there is beside 'before' only");
  if (s.goes_on && s.is_centered) r.wrong(*center, "center", "is \"cut\" beside 'before': a sound that goes on has no ends");
  if (const Json* length_of = r.optional("length_of"); length_of && s.goes_on)
    r.wrong(*length_of, "length_of", "stands beside 'before': a sound that goes on is hop samples longer with each row");
  const Json* window = r.required("window");
  if (!window || (window->is(Json::Kind::String) && window->text() == "none")) return s;
  if (!window->is(Json::Kind::Object)) {
    r.wrong(*window, "window", "is neither \"none\" nor {\"shape\", \"ends\"}");
    return s;
  }
  ObjectReader one(*window, "'window'", r.problems());
  s.has_window = true;
  s.window = window_of(one);
  one.finish();
  return s;
}

Op wav_out(ObjectReader& r, const Value&, Value& out) {
  out.kind = ValueKind::Sound;
  return WavOut{r.integer(r.required("rate"), "rate", 1, kHighestRate)};
}

Op mel(ObjectReader& r, const Value&, Value&) {
  Mel s;
  s.bands = r.integer(r.required("bands"), "bands", 1, kMostBands);
  s.n_fft = r.integer(r.required("n_fft"), "n_fft", 1, kLongestSpectrum);
  s.rate = static_cast<double>(r.integer(r.required("rate"), "rate", 1, kHighestRate));
  const Json *low = r.required("low"), *high = r.required("high");
  s.low = r.number(low, "low");
  s.high = r.number(high, "high");
  if (low && s.low < 0) r.wrong(*low, "low", "is below 0");
  if (high && s.high <= s.low) r.wrong(*high, "high", "is not above 'low'");
  if (high && s.high > s.rate / 2) r.wrong(*high, "high", "is above half of 'rate', the highest frequency that there is");
  using Scale = Mel::Scale;
  s.scale = r.choice<Scale>(r.required("scale"), "scale", {{"htk", Scale::Htk}, {"slaney", Scale::Slaney}, {"kaldi", Scale::Kaldi}});
  s.has_slaney_norm = r.choice<bool>(r.required("norm"), "norm", {{"none", false}, {"slaney", true}});
  return s;
}

Op log(ObjectReader& r, const Value&, Value&) {
  Log s;
  using How = Log::How;
  s.how = r.choice<How>(r.required("how"), "how", {{"ln", How::Ln}, {"log10", How::Log10}, {"db", How::Db}});
  const Json* floor = r.required("floor");
  s.floor = positive(r, floor, "floor");
  if (floor && s.floor > 0 && static_cast<float>(s.floor) == 0) r.wrong(*floor, "floor", "is 0 as an f32");
  if (const Json* v = r.optional("below_peak")) s.has_range = true, s.below_peak = positive(r, v, "below_peak");
  return s;
}

Op mean_var(ObjectReader& r, const Value&, Value&) {
  MeanVar s;
  using Over = MeanVar::Over;
  s.over = r.choice<Over>(r.required("over"), "over", {{"row", Over::Row}, {"column", Over::Column}, {"all", Over::All}});
  using Deviation = MeanVar::Deviation;
  s.deviation = r.choice<Deviation>(r.required("deviation"), "deviation",
                                    {{"none", Deviation::None}, {"population", Deviation::Population}, {"sample", Deviation::Sample}});
  if (s.deviation == Deviation::None) {
    for (const char* key : {"epsilon", "epsilon_to"})
      if (const Json* v = r.optional(key)) r.wrong(*v, key, "has no meaning where nothing is divided");
    return s;
  }
  const Json* epsilon = r.required("epsilon");
  s.epsilon = r.number(epsilon, "epsilon");
  if (epsilon && s.epsilon < 0) r.wrong(*epsilon, "epsilon", "is below 0");
  s.adds_to_variance = r.choice<bool>(r.required("epsilon_to"), "epsilon_to", {{"deviation", false}, {"variance", true}});
  return s;
}

namespace {

enum class Preset { Whisper, Kaldi, Librosa };

// As openai/whisper: whisper/audio.py has it.
std::vector<PresetStep> whisper(int64_t bands) {
  return {{"frame", Frame{400, 160, Frame::Edge::Reflect, Frame::End::DropWhole}},
          {"window", Window{Window::Shape::Hann, true}},
          {"stft", Stft{400, 2}},
          {"mel", Mel{bands, 400, 16000, 0, 8000, Mel::Scale::Slaney, true}},
          {"log", Log{Log::How::Log10, 1e-10, true, 8}},
          {"normalize", Normalize{false, 1, {-4.0f}, {4.0f}, true}}};
}

// As the program compute-fbank-feats of Kaldi with --dither=0; its floor is the epsilon of f32.
std::vector<PresetStep> kaldi(int64_t bands) {
  return {{"frame", Frame{400, 160, Frame::Edge::None, Frame::End::Drop}},
          {"mean_var", MeanVar{MeanVar::Over::Row, MeanVar::Deviation::None, 0, false}},
          {"pre_emphasis", PreEmphasis{0.97}},
          {"window", Window{Window::Shape::Povey, false}},
          {"stft", Stft{512, 2}},
          {"mel", Mel{bands, 512, 16000, 20, 8000, Mel::Scale::Kaldi, false}},
          {"log", Log{Log::How::Ln, 0x1p-23, false, 0}}};
}

// As librosa.feature.melspectrogram and librosa.power_to_db with what they have where nothing is said.
std::vector<PresetStep> librosa(int64_t bands) {
  return {{"frame", Frame{2048, 512, Frame::Edge::Zeros, Frame::End::Drop}},
          {"window", Window{Window::Shape::Hann, true}},
          {"stft", Stft{2048, 2}},
          {"mel", Mel{bands, 2048, 22050, 0, 11025, Mel::Scale::Slaney, true}},
          {"log", Log{Log::How::Db, 1e-10, true, 80}}};
}

}  // namespace

std::vector<PresetStep> log_mel(ObjectReader& r) {
  const Preset preset =
      r.choice<Preset>(r.required("preset"), "preset", {{"whisper", Preset::Whisper}, {"kaldi", Preset::Kaldi}, {"librosa", Preset::Librosa}});
  int64_t bands = preset == Preset::Librosa ? 128 : 80;
  if (const Json* v = r.optional("bands")) bands = r.integer(v, "bands", 1, kMostBands);
  switch (preset) {
    case Preset::Whisper: return whisper(bands);
    case Preset::Kaldi: return kaldi(bands);
    case Preset::Librosa: return librosa(bands);
  }
  return whisper(bands);
}

}  // namespace mlc::pipeline::sound
