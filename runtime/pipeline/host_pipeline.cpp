#include "runtime/pipeline/host_pipeline.h"

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "runtime/io/media.h"
#include "runtime/pipeline/host_steps.h"
#include "runtime/pipeline/pipeline_run.h"
#include "runtime/pipeline/stream_run.h"
#include "schema/pipeline/lines.h"

namespace mlc::pipeline {
namespace {

std::string quoted_name(std::string_view s) { return "'" + std::string(s) + "'"; }

std::string listed(const std::vector<std::string>& words) {
  std::string all;
  for (const auto& w : words) all += (all.empty() ? "" : ", ") + w;
  return all;
}

const DecodeAudio* sound_decoder(const Pipeline& p, ValueId id) {
  for (const Step& step : p.steps)
    if (const auto* audio = std::get_if<DecodeAudio>(&step.what); audio && step.in[0] == id) return audio;
  return nullptr;
}

// Why an array cannot stand for the file of an input, or an empty string: it can if it is what each decoder would make of
// the file, a picture, or the samples of a sound.
std::string mismatch_of_array(const Pipeline& p, ValueId id, const HostTensor& t) {
  std::string expected = listed(p.value(id).accept);
  if (sound_decoder(p, id)) {
    if (is_decoded_sound(t)) return {};
    return "found " + type_text(t.dtype, t.shape) + ", expected " + expected + ", or samples, f32, f64 or i16: [samples] or [samples,channels] with at most " +
           std::to_string(kMostSoundChannels) + " channels";
  }
  bool fits = true;
  for (const Step& step : p.steps) {
    if (step.in.empty() || step.in[0] != id) continue;
    const std::optional<Picture>& picture = p.value(step.out[0]).picture;
    const bool is_picture = std::holds_alternative<DecodeImage>(step.what) && picture;
    fits = fits && is_picture && t.dtype == DType::U8 && t.shape.size() == 3 && t.shape[2] == picture->channels;
    if (is_picture) expected += ", or u8[height,width," + std::to_string(picture->channels) + "]";
  }
  return fits ? "" : "found " + type_text(t.dtype, t.shape) + ", expected " + expected;
}

// Why a given input does not fit its value, or an empty string.
std::string mismatch(const Pipeline& p, ValueId id, const GivenInput& given) {
  const Value& v = p.value(id);
  if (v.kind == ValueKind::Bytes) {
    if (!given.tensor || (given.tensor->dtype == DType::U8 && given.tensor->shape.size() == 1)) return {};
    return "found " + type_text(given.tensor->dtype, given.tensor->shape) + ", expected a file, or its bytes u8[n]";
  }
  if (v.kind == ValueKind::Strings) {
    if (!given.tensor || (given.tensor->dtype == DType::Str && given.tensor->shape.size() <= 1)) return {};
    return "found " + type_text(given.tensor->dtype, given.tensor->shape) + ", expected a text or a list of texts";
  }
  if (v.kind == ValueKind::Tensor && given.tensor && given.tensor->dtype == DType::Str)
    return "found " + type_text(given.tensor->dtype, given.tensor->shape) + ", expected an array of numbers";
  if (v.kind == ValueKind::Tensor) return given.tensor ? "" : "found a file, expected an array (.npy, .npz or raw)";
  if (given.tensor) return mismatch_of_array(p, id, *given.tensor);
  auto media = io::media_of(given.file);
  if (std::find(v.accept.begin(), v.accept.end(), io::media_type(media)) != v.accept.end()) return {};
  return "found " + std::string(io::describe_bytes(given.file)) + ", expected " + listed(v.accept);
}

// One that has no name is the only input that no other one is.
void name_the_only_one(const Pipeline& p, const std::vector<ValueId>& wanted, std::vector<GivenInput>& given) {
  const auto is_nameless = [](const GivenInput& g) { return g.name.empty(); };
  if (std::count_if(given.begin(), given.end(), is_nameless) != 1) return;
  std::vector<ValueId> open;
  for (const ValueId id : wanted)
    if (std::none_of(given.begin(), given.end(), [&](const GivenInput& g) { return g.name == p.value(id).name; })) open.push_back(id);
  if (open.size() == 1) std::find_if(given.begin(), given.end(), is_nameless)->name = p.value(open[0]).name;
}

Result<HostTensor> decode_one(const Step& step, const GivenInput& given, const io::DecodeLimits& limits) {
  if (const auto* image = std::get_if<DecodeImage>(&step.what)) return decode_image(*image, given.file, limits);
  if (const auto* audio = std::get_if<DecodeAudio>(&step.what))
    return given.tensor ? decode_samples(*audio, *given.tensor, limits) : decode_audio(*audio, given.file, limits);
  const FileContent content{given.tensor ? Bytes(given.tensor->data.bytes()) : given.file, given.gap_at, given.gap};
  return file_bytes(std::get<FileBytes>(step.what), content, limits);
}

// Arrays that decoders make or that are given, and that later steps take or are answers: those of the first program first.
std::vector<ValueId> made_before(const Pipeline& p) {
  std::vector<bool> is_made(p.values.size(), false);
  for (const ValueId id : p.inputs) is_made[id] = p.value(id).kind == ValueKind::Tensor;
  for (const Step& step : p.steps)
    if (is_decoder(step.what))
      for (const ValueId id : step.out) is_made[id] = true;
  std::vector<ValueId> ids;
  const auto add = [&](ValueId id) {
    if (is_made[id]) ids.push_back(id);
    is_made[id] = false;
  };
  for (const Section& section : sections(p)) {
    std::ranges::for_each(section.in, add);
    if (section.lengths) add(*section.lengths);
  }
  std::ranges::for_each(p.outputs, add);
  return ids;
}

}  // namespace

std::string_view text_in(Bytes file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

Result<HostPipeline> HostPipeline::create(Pipeline description, const AssetLookup& lookup) {
  HostPipeline host;
  host.description_ = std::move(description);
  // A pipeline of a thousand steps can ask for a thousand lists: what bounds one bounds all of them. Tokenizers likewise.
  uint64_t bytes = 0, lines = 0, tokenizer_bytes = 0;
  std::vector<const Step*> steps;
  for (const Pipeline* each : with_bodies(host.description_))
    for (const Step& step : each->steps) steps.push_back(&step);
  for (const Step* step : steps) {
    if (!wants_tokenizer(*step) || host.assets_.tokenizers.count(asset_of(*step))) continue;
    const std::string name = asset_of(*step);
    MLC_ASSIGN(const Bytes compiled, lookup(name));
    tokenizer_bytes += compiled.size();
    if (tokenizer_bytes > text::kMaxCompiledLen)
      return Status(Code::Usage, 5004, "the tokenizers of a pipeline have more than {} bytes in all", text::kMaxCompiledLen);
    auto opened = text::Compiled::open(compiled);
    if (!opened.ok()) return std::move(opened).status().note("asset '" + name + "'");
    host.assets_.tokenizers.emplace(name, *opened);
  }
  for (const std::string& name : assets(host.description_)) {
    if (host.assets_.tokenizers.count(name)) continue;
    MLC_ASSIGN(Bytes text, lookup(name));
    MLC_ASSIGN(std::vector<std::string> list, split_lines(text, name));
    bytes += text.size(), lines += list.size();
    host.assets_.lines[name] = std::move(list);
    if (bytes > kMaxListBytes || lines > kMaxLines)
      return Status(Code::Usage, 5004, "the lists of a pipeline have more than {} bytes or {} lines in all", kMaxListBytes,
                    kMaxLines);
  }
  return host;
}

std::optional<FileEnds> HostPipeline::ends_of(std::string_view input) const {
  const Pipeline& p = description_;
  const auto is_meant = [&](ValueId id) { return input.empty() ? p.inputs.size() == 1 : p.value(id).name == input; };
  const auto found = std::find_if(p.inputs.begin(), p.inputs.end(), is_meant);
  if (found == p.inputs.end() || p.value(*found).kind != ValueKind::Bytes) return std::nullopt;
  FileEnds ends;
  for (const Step& step : p.steps)
    if (const auto* bytes = std::get_if<FileBytes>(&step.what); bytes && step.in[0] == *found)
      for (const FileBytes::Part& part : bytes->parts) {
        uint64_t& end = part.from_end ? ends.last : ends.first;
        end = std::max(end, static_cast<uint64_t>(part.within));
      }
  return ends;
}

std::optional<uint32_t> HostPipeline::rate_of(std::string_view input) const {
  for (const ValueId id : description_.inputs)
    if (const DecodeAudio* audio = sound_decoder(description_, id); audio && description_.value(id).name == input) return audio->rate;
  return std::nullopt;
}

Result<std::vector<NamedTensor>> HostPipeline::before(std::vector<GivenInput> given, const io::DecodeLimits& limits) const {
  return matched(std::move(given), limits, std::nullopt);
}

Result<std::vector<NamedTensor>> HostPipeline::beside_sound(std::vector<GivenInput> given, const io::DecodeLimits& limits) const {
  if (!description_.stream) return Status(Code::Usage, "pipeline '{}' has no 'stream'", description_.name);
  return matched(std::move(given), limits, description_.stream->input);
}

Result<std::vector<NamedTensor>> HostPipeline::matched(std::vector<GivenInput> given, const io::DecodeLimits& limits, std::optional<ValueId> left_out) const {
  const Pipeline& p = description_;
  std::vector<ValueId> wanted = p.inputs;
  if (left_out) std::erase(wanted, *left_out);
  name_the_only_one(p, wanted, given);

  // Match by name; report everything that does not fit at once.
  std::vector<GivenInput*> of_value(p.values.size(), nullptr);
  std::vector<std::string> problems;
  const auto nameless = std::count_if(given.begin(), given.end(), [](const GivenInput& g) { return g.name.empty(); });
  if (nameless > 0) {
    std::string names;
    for (ValueId id : wanted) names += (names.empty() ? "" : ", ") + quoted_name(p.value(id).name);
    problems.push_back(counted(static_cast<uint64_t>(nameless), "input") + " without a name, and the pipeline takes " + names);
  }
  for (GivenInput& g : given) {
    if (g.name.empty()) continue;
    auto is_it = [&](ValueId id) { return p.value(id).name == g.name; };
    auto found = std::find_if(wanted.begin(), wanted.end(), is_it);
    if (found == wanted.end() && left_out && is_it(*left_out))
      problems.push_back(quoted_name(g.name) + " is the sound of the stream, which comes in pieces");
    else if (found == wanted.end())
      problems.push_back(quoted_name(g.name) + " is no input of the pipeline");
    else if (of_value[*found])
      problems.push_back(quoted_name(g.name) + " given twice");
    else
      of_value[*found] = &g;
  }
  for (ValueId id : wanted) {
    const Value& v = p.value(id);
    if (!of_value[id] && nameless > 0) continue;  // it may be meant
    std::string why = of_value[id] ? mismatch(p, id, *of_value[id]) : "missing, expected " + listed(v.accept);
    if (!why.empty()) problems.push_back(v.name + "   " + why);
  }
  if (!problems.empty()) {
    Status s(Code::InputMismatch, 4001, "the inputs of the pipeline do not fit");
    s.facts = std::move(problems);
    return s;
  }

  return decoded(std::move(of_value), limits);
}

Result<std::vector<NamedTensor>> HostPipeline::decoded(const std::vector<GivenInput*>& of_value, const io::DecodeLimits& limits) const {
  const Pipeline& p = description_;
  // What each value is made of: an input that is an array already, or the first step that decodes its file in this way.
  std::vector<std::optional<HostTensor>> made(p.values.size());
  std::vector<ValueId> source(p.values.size());
  for (ValueId id : p.inputs) {
    source[id] = id;
    const ValueKind kind = p.value(id).kind;
    const bool is_decoded = kind != ValueKind::Strings && kind != ValueKind::Bytes && !sound_decoder(p, id);
    if (of_value[id] && of_value[id]->tensor && is_decoded) made[id] = std::move(of_value[id]->tensor);
  }
  std::vector<const Step*> decoders;
  io::DecodeLimits left = limits;
  for (const Step& step : p.steps) {
    if (!is_decoder(step.what)) continue;
    if (std::holds_alternative<Tokenize>(step.what)) {
      MLC_RETURN_IF_ERROR(add_tokens(step, of_value, left, made));
      for (const ValueId out : step.out) source[out] = out;
      continue;
    }
    const ValueId in = step.in[0], out = step.out[0];
    if (!of_value[in]) {
      source[out] = in;
      continue;
    }
    const auto same = std::find_if(decoders.begin(), decoders.end(), [&](const Step* d) { return decode_alike(*d, step); });
    source[out] = made[in] ? in : same != decoders.end() ? (*same)->out[0] : out;
    if (source[out] != out) continue;
    decoders.push_back(&step);
    if (const auto* audio = std::get_if<DecodeAudio>(&step.what); audio && of_value[in]->tensor)
      if (Status s = check_rate(sound_decoder(p, in)->rate, audio->rate); !s.ok()) return std::move(s).note("input '" + p.value(in).name + "'");
    auto tensor = decode_one(step, *of_value[in], left);
    if (!tensor.ok()) return std::move(tensor).status().note("input '" + p.value(in).name + "'");
    left = left.after_decoding(tensor->data.size());
    made[out] = std::move(*tensor);
  }
  // The first that comes of one source owns it.
  std::vector<NamedTensor> out;
  std::map<ValueId, size_t> owners;
  for (const ValueId id : made_before(p)) {
    if (!made[source[id]]) continue;  // of an input that is left out
    const auto [owner, is_first] = owners.emplace(source[id], out.size());
    if (is_first) {
      out.push_back({p.value(id).name, std::move(*made[source[id]])});
      continue;
    }
    HostTensor& shared = out[owner->second].tensor;
    MLC_ASSIGN(HostTensor view, HostTensor::view(shared.dtype, shared.shape, shared.data.data(), shared.data.size()));
    out.push_back({p.value(id).name, std::move(view)});
  }
  return out;
}

Status HostPipeline::add_tokens(const Step& step, const std::vector<GivenInput*>& of_value, io::DecodeLimits& left,
                                std::vector<std::optional<HostTensor>>& made) const {
  std::vector<std::string> files[2];  // of one text each
  TextList lists[2];
  for (size_t k = 0; k < step.in.size(); ++k) {
    const GivenInput& given = *of_value[step.in[k]];
    lists[k].name = description_.value(step.in[k]).name;
    if (given.tensor) {
      lists[k].texts = given.tensor->strings;
      continue;
    }
    files[k].emplace_back(text_in(given.file));
    lists[k].texts = files[k];
  }
  const auto& what = std::get<Tokenize>(step.what);
  MLC_ASSIGN(std::vector<HostTensor> tokens, tokenize(what, assets_.tokenizers.at(what.tokenizer), lists[0], step.in.size() > 1 ? &lists[1] : nullptr, left));
  for (size_t k = 0; k < tokens.size(); ++k) {
    left = left.after_decoding(tokens[k].data.size());
    made[step.out[k]] = std::move(tokens[k]);
  }
  return ok();
}

std::vector<std::string> HostPipeline::programs() const {
  std::vector<std::string> names;
  for (const Pipeline* each : with_bodies(description_))
    for (const Section& section : sections(*each))
      if (section.is_array) names.push_back(section.program);
  return names;
}

Result<std::vector<Answer>> HostPipeline::run(std::vector<NamedTensor> made, std::optional<int64_t> top, AnswerBudget& budget,
                                              const Programs& programs) const {
  std::vector<HostTensor> none;
  if (!description_.stream) return run_chunk(std::move(made), top, budget, programs, {}, none);
  const std::string& sound = description_.value(description_.stream->sound).name;
  const auto found = std::find_if(made.begin(), made.end(), [&](const NamedTensor& t) { return t.name == sound; });
  if (found == made.end()) return Status(Code::Internal, "no step has made '{}'", sound);
  const HostTensor samples = std::move(found->tensor);
  made.erase(found);
  return run_all_chunks(*this, samples, std::move(made), top, budget, programs);
}

Result<std::vector<Answer>> HostPipeline::run_chunk(std::vector<NamedTensor> made, std::optional<int64_t> top, AnswerBudget& budget,
                                                    const Programs& programs, const std::vector<HostTensor>& carried, std::vector<HostTensor>& next) const {
  PipelineRun run(description_, {assets_, top, budget, programs});
  MLC_RETURN_IF_ERROR(run.set(std::move(made)));
  MLC_RETURN_IF_ERROR(run.all_sections());
  for (size_t k = 0; k < carried.size(); ++k) {
    MLC_ASSIGN(const HostTensor* from, run.tensor(description_.stream->carry[k].from));
    if (from->dtype != carried[k].dtype || from->shape != carried[k].shape) {
      const Stream::Carried& each = description_.stream->carry[k];
      return Status(Code::InputMismatch, 4001, "the stream carries '{}', which is {}, and '{}' has become {}", description_.value(each.value).name,
                    type_text(carried[k].dtype, carried[k].shape), description_.value(each.from).name, type_text(from->dtype, from->shape));
    }
    MLC_ASSIGN(HostTensor copy, from->clone());
    next.push_back(std::move(copy));
  }
  std::vector<Answer> answers;
  for (const ValueId id : description_.outputs) {
    MLC_ASSIGN(Answer answer, run.take_answer(id));
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace mlc::pipeline
