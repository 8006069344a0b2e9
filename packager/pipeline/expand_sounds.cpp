// Sounds: frames, spectra, rates, and back.
#include <cmath>

#include "packager/pipeline/section_expander.h"
#include "schema/pipeline/sound_tables.h"

namespace mlc::pipeline {

// Steps on sounds take f32 of so many axes.
Status SectionExpander::need_sound(size_t axes) const {
  const nest::Array& array = function_.arrays[in().array];
  if (array.dtype == DType::F32 && array.shape.size() >= axes) return ok();
  return Status(Code::Usage, 5009, "step '{}' takes f32 with {} axes or more, '{}' is {} with {}", step_->op, axes,
                pipeline_.value(step_->in[0]).name, name_of(array.dtype), array.shape.size())
      .hint("decode_audio gives f32, dtype makes it");
}

// The other one, k, has so many axes.
Status SectionExpander::need_as(size_t k, size_t axes) const {
  const nest::Array& array = function_.arrays[values_.at(step_->in.at(k)).array];
  if (array.dtype == DType::F32 && array.shape.size() == axes) return ok();
  return Status(Code::Usage, 5009, "step '{}' takes f32 with {} axes beside '{}', '{}' is {} with {}", step_->op, axes, pipeline_.value(step_->in[0]).name,
                pipeline_.value(step_->in[k]).name, name_of(array.dtype), array.shape.size());
}

// The extent of the last axis, which is not the run's to decide.
Result<int64_t> SectionExpander::row_length() const {
  const ir::Expr* extent = function_.arrays[in().array].shape.back();
  if (extent->is_const() && extent->i > 0) return extent->i;
  return Status(Code::Usage, 5009, "step '{}' takes rows of a length that is known, and the run decides that of '{}'", step_->op,
                pipeline_.value(step_->in[0]).name)
      .hint("frame makes such rows");
}

lang::Value SectionExpander::table(const std::vector<double>& values, const std::vector<int64_t>& shape) {
  return constant(DType::F32, std::vector<float>(values.begin(), values.end()), shape);
}

Result<lang::Value> SectionExpander::apply_two(const std::string& name, const lang::Value& first, const lang::Value& second, const std::string& domain, Attributes attributes) {
  lang::Call call = call_of(name, std::move(attributes), domain);
  if (domain == "ai.onnx") call.opset = 17;
  call.inputs = {first, second};
  MLC_ASSIGN(const std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return out[0];
}

Status SectionExpander::expand(const Fit& s) {
  MLC_RETURN_IF_ERROR(need_sound(1));
  return set(apply("Fit", in(), {{"samples", s.samples}}));
}

Status SectionExpander::expand(const Resample& s) {
  MLC_RETURN_IF_ERROR(need_sound(1));
  if (s.from == s.to) return set(in());
  const ResampleTaps filter = resample_taps(s);
  return set(apply_two("Resample", in(), table(filter.taps, {s.to, filter.count}), "mlc.pipeline",
                       {{"from", s.from}, {"before", filter.before}, {"length", std::string(s.like == Resample::Like::Torchaudio ? "rounded" : "exact")}}));
}

Status SectionExpander::expand(const Frame& s) {
  MLC_RETURN_IF_ERROR(need_sound(1));
  static constexpr const char* kEdges[] = {"none", "zeros", "reflect"};
  static constexpr const char* kEnds[] = {"drop", "pad", "drop_whole"};
  const ir::Expr* samples = function_.arrays[in().array].shape.back();
  if (samples->is_const() && samples->i < least_samples(s))
    return Status(Code::Usage, 5009, "step 'frame' needs {} samples, '{}' has {}", least_samples(s), pipeline_.value(step_->in[0]).name, samples->i);
  return set(apply("Frame", in(), {{"length", s.length}, {"hop", s.hop}, {"edge", std::string(kEdges[static_cast<size_t>(s.edge)])},
                                   {"last", std::string(kEnds[static_cast<size_t>(s.end)])}}));
}

Status SectionExpander::expand(const Window& s) {
  MLC_RETURN_IF_ERROR(need_sound(1));
  MLC_ASSIGN(const int64_t length, row_length());
  return set(apply_two("Windowed", in(), table(window_table(s, length), {length}), "mlc.pipeline"));
}

Status SectionExpander::expand(const PreEmphasis& s) {
  MLC_RETURN_IF_ERROR(need_sound(1));
  return set(apply("PreEmphasis", in(), {{"factor", s.factor}}));
}

Result<lang::Value> SectionExpander::fourier(const lang::Value& complex, int64_t length, Attributes attributes) {
  lang::Value n_fft = constant(DType::I64, std::vector<int64_t>{length}, {});
  n_fft.elements = {ctx_.integer(length)};
  return apply_two("DFT", complex, n_fft, "ai.onnx", std::move(attributes));
}

Status SectionExpander::expand(const Stft& s) {
  MLC_RETURN_IF_ERROR(need_sound(1));
  MLC_ASSIGN(const int64_t length, row_length());
  if (length > s.n_fft)
    return Status(Code::Usage, 5009, "step 'stft' has an 'n_fft' of {}, and the rows of '{}' are longer: {}", s.n_fft,
                  pipeline_.value(step_->in[0]).name, length);
  const auto rank = static_cast<int64_t>(function_.arrays[in().array].shape.size());
  if (s.power != 0) return set(apply("PowerSpectrum", in(), {{"axis", rank - 1}, {"length", s.n_fft}, {"power", int64_t{s.power}}}));
  MLC_ASSIGN(const lang::Value complex, apply("NewAxis", in(), {{"at", rank}}));
  return set(fourier(complex, s.n_fft, {{"axis", rank - 1}, {"onesided", int64_t{1}}}));
}

Status SectionExpander::expand(const Istft& s) {
  MLC_RETURN_IF_ERROR(need_sound(2));
  const auto& shape = function_.arrays[in().array].shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const ir::Expr *parts = shape.back(), *bins = shape[shape.size() - 2];
  if (!parts->is_const() || parts->i != 2 || !bins->is_const() || bins->i != s.n_fft / 2 + 1)
    return Status(Code::Usage, 5009, "step 'istft' with an 'n_fft' of {} takes spectra [.., {}, 2], '{}' has others", s.n_fft, s.n_fft / 2 + 1,
                  pipeline_.value(step_->in[0]).name)
        .hint("stft with \"power\": \"complex\" makes such, and a program may");
  lang::Value spectrum = in();
  if (step_->in.size() > 1) {
    MLC_RETURN_IF_ERROR(need_as(1, shape.size() - 1));
    MLC_ASSIGN(spectrum, apply_two("Masked", spectrum, values_.at(step_->in[1]), "mlc.pipeline"));
  }
  MLC_ASSIGN(const lang::Value rows, fourier(spectrum, s.n_fft, {{"axis", rank - 2}, {"onesided", int64_t{1}}, {"inverse", int64_t{1}}}));
  return set(apply("Column", rows, {{"index", int64_t{0}}}));
}

Status SectionExpander::expand(const OverlapAdd& s) {
  MLC_RETURN_IF_ERROR(need_sound(2));
  MLC_ASSIGN(const int64_t length, row_length());
  if (s.goes_on) return go_on(s, length);
  const std::vector<double> weights = s.has_window ? window_table(s.window, length) : std::vector<double>(static_cast<size_t>(length), 1);
  lang::Call call = call_of("OverlapAdd", {{"hop", s.hop}, {"start", s.is_centered ? length / 2 : 0}, {"divided", flag(s.has_window)}}, "mlc.pipeline");
  call.inputs = {in(), table(weights, {length})};
  if (step_->in.size() > 1) call.inputs.emplace_back(values_.at(step_->in[1]));
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return set(std::move(out[0]));
}

Status SectionExpander::go_on(const OverlapAdd& s, int64_t length) {
  if (s.hop >= length)
    return Status(Code::Usage, 5009, "step 'overlap_add' has a 'before', and rows of {} samples that begin {} apart do not overlap", length, s.hop)
        .hint("leave out 'before' and 'rest'");
  MLC_RETURN_IF_ERROR(need_as(1, function_.arrays[in().array].shape.size() - 1));
  const ir::Expr* before = function_.arrays[values_.at(step_->in[1]).array].shape.back();
  if (before->is_const() && before->i != length - s.hop)
    return Status(Code::Usage, 5009, "step 'overlap_add' takes a 'before' of {} samples, by which its rows overlap, '{}' has {}", length - s.hop,
                  pipeline_.value(step_->in[1]).name, before->i);
  lang::Call call = call_of("OverlapAddOn", {{"hop", s.hop}}, "mlc.pipeline");
  call.inputs = {in(), table(overlap_table(s, length), {length}), values_.at(step_->in[1])};
  call.outputs = {true, true};
  MLC_ASSIGN(std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  for (size_t k = 0; k < step_->out.size(); ++k) values_[step_->out[k]] = std::move(out[k]);
  return ok();
}

Status SectionExpander::expand(const Mel& s) {
  MLC_RETURN_IF_ERROR(need_sound(2));
  MLC_ASSIGN(const int64_t bins, row_length());
  if (bins != s.n_fft / 2 + 1)
    return Status(Code::Usage, 5009, "step 'mel' has an 'n_fft' of {}, whose spectra have {} columns, and '{}' has {}", s.n_fft, s.n_fft / 2 + 1,
                  pipeline_.value(step_->in[0]).name, bins);
  return set(apply_two("MatMul", in(), table(mel_weights(s), {bins, s.bands}), "ai.onnx"));
}

Status SectionExpander::expand(const Log& s) {
  MLC_RETURN_IF_ERROR(need_sound(s.has_range ? 2 : 1));
  static constexpr const char* kNames[] = {"ln", "log10", "db"};
  MLC_ASSIGN(lang::Value value, apply("Logarithm", in(), {{"how", std::string(kNames[static_cast<size_t>(s.how)])}, {"least", s.floor}}));
  if (s.has_range) {
    MLC_ASSIGN(value, apply("BelowPeak", value, {{"range", s.below_peak}}));
  }
  return set(value);
}

Status SectionExpander::expand(const MeanVar& s) {
  MLC_RETURN_IF_ERROR(need_sound(s.over == MeanVar::Over::Row ? 1 : 2));
  static constexpr const char* kOver[] = {"row", "column", "all"};
  static constexpr const char* kDeviations[] = {"none", "population", "sample"};
  return set(apply("MeanVar", in(), {{"over", std::string(kOver[static_cast<size_t>(s.over)])},
                                     {"deviation", std::string(kDeviations[static_cast<size_t>(s.deviation)])},
                                     {"epsilon", s.epsilon}, {"in_variance", flag(s.adds_to_variance)}}));
}

}  // namespace mlc::pipeline
