// The C table over runner.h: options and tensors to the types of the C++ side, a Status to a code and an MlioError. This and
// mlio_stream.cpp have exceptions, for they end those of an allocation that failed.
#include "runtime/mlio/mlio.h"

#include "runtime/mlio/handles.h"
#include "runtime/services/services.h"

namespace mlc::api {

// What the structs were in version 1. These numbers never change.
template <> inline constexpr uint32_t kFirstSize<MlioPipelineInfo> = 32;
template <> inline constexpr uint32_t kFirstSize<MlioInput> = 32;
template <> inline constexpr uint32_t kFirstSize<MlioOutput> = 24;
template <> inline constexpr uint32_t kFirstSize<MlioAnswersInfo> = 32;
template <> inline constexpr uint32_t kFirstSize<MlioAnswer> = 96;
template <> inline constexpr uint32_t kFirstSize<MlioClass> = 40;
template <> inline constexpr uint32_t kFirstSize<MlioLine> = 32;
template <> inline constexpr uint32_t kFirstSize<MlioBox> = 56;
template <> inline constexpr uint32_t kFirstSize<MlioImage> = 40;
template <> inline constexpr uint32_t kFirstSize<MlioSound> = 48;

}  // namespace mlc::api

using mlc::Bytes;
using mlc::Code;
using mlc::HostTensor;
using mlc::Result;
using mlc::Status;
using mlc::api::fill;
using mlc::mlio::fail;
using mlc::mlio::guarded;
using mlc::mlio::ModelRef;
using mlc::mlio::no_memory;
using mlc::pipeline::Classes;
using mlc::pipeline::FoundBoxes;
using mlc::pipeline::GivenInput;
using mlc::pipeline::ImageFile;
using mlc::pipeline::SoundFile;
using mlc::pipeline::Text;
using mlc::pipeline::ValueKind;

namespace mlc::mlio {

MlioError& no_memory() {
  static MlioError error{Status(Code::Resource, "out of memory"), "error: out of memory", true};
  return error;
}

int fail(Status status, MlioError** error) {
  const int code = static_cast<int>(status.code);
  if (!error) return code;
  std::string text = status.text();
  *error = new MlioError{std::move(status), std::move(text)};
  return code;
}

MlioAnswers* answers_of(Ran ran) {
  auto answers = std::make_unique<MlioAnswers>(MlioAnswers{std::move(ran), {}});
  for (const auto& a : answers->ran.answers) {
    std::vector<MlcString>& strings = answers->strings.emplace_back();
    if (const auto* t = std::get_if<HostTensor>(&a.value))
      for (const std::string& s : t->strings) strings.push_back({s.data(), s.size()});
  }
  return answers.release();
}

}  // namespace mlc::mlio

namespace {

Status none(const char* what) { return Status(Code::Usage, "{}", what); }

MlcString string_of(const std::string& s) { return {s.data(), s.size()}; }

const MlcService* mlio_services(uint32_t* count) {
  const auto services = mlc::services::all();
  if (count) *count = static_cast<uint32_t>(services.size());
  return services.data();
}

int mlio_open(const MlcApi* mlc, const MlcModel* model, const char* name, MlioPipeline** out, MlioError** error) {
  if (out) *out = nullptr;
  return guarded(error, [&] {
    if (!mlc || !model || !out) return fail(none("open: no table, no model, or no place for the result"), error);
    const ModelRef ref{*mlc, model};
    mlc::mlio::Choice choice;
    if (name) choice.pipeline = name;
    auto target = mlc::mlio::choose_target(ref, choice);
    if (!target) return fail(std::move(target).status(), error);
    if (!target->pipeline)
      return fail(Status(Code::NotFound, "this container has no pipeline").hint("mlpack build --pipeline puts one in"), error);
    auto p = std::make_unique<MlioPipeline>(MlioPipeline{ref, std::move(*target), {}});
    for (const auto id : p->description().inputs) {
      std::vector<const char*>& types = p->media_types.emplace_back();
      for (const std::string& type : p->description().value(id).accept) types.push_back(type.c_str());
    }
    *out = p.release();
    return static_cast<int>(MLC_OK);
  });
}

void mlio_release(MlioPipeline* p) { delete p; }

int mlio_info(const MlioPipeline* p, MlioPipelineInfo* out) {
  if (!p) return MLC_USAGE;
  MlioPipelineInfo info{};
  info.name = p->description().name.c_str();
  info.program = p->target.program;
  info.num_inputs = static_cast<uint32_t>(p->description().inputs.size());
  info.num_outputs = static_cast<uint32_t>(p->description().outputs.size());
  return fill(info, out);
}

int mlio_input(const MlioPipeline* p, uint32_t index, MlioInput* out) {
  if (!p || index >= p->description().inputs.size()) return MLC_USAGE;
  const auto& value = p->description().value(p->description().inputs[index]);
  MlioInput input{};
  input.name = value.name.c_str();
  input.is_array = value.kind == ValueKind::Tensor;
  input.num_media_types = static_cast<uint32_t>(p->media_types[index].size());
  input.media_types = p->media_types[index].data();
  if (const auto ends = p->target.pipeline->ends_of(value.name)) input.first_bytes = ends->first, input.last_bytes = ends->last;
  input.rate = p->target.pipeline->rate_of(value.name).value_or(0);
  return fill(input, out);
}

int32_t kind_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::Classes: return MLIO_CLASSES;
    case ValueKind::Text: return MLIO_TEXT;
    case ValueKind::Boxes: return MLIO_BOXES;
    case ValueKind::Image: return MLIO_IMAGE;
    case ValueKind::Sound: return MLIO_SOUND;
    case ValueKind::Media:
    case ValueKind::Strings:
    case ValueKind::Bytes:
    case ValueKind::Tensor:
    case ValueKind::List: return MLIO_ARRAY;
  }
  return MLIO_ARRAY;
}

int mlio_output(const MlioPipeline* p, uint32_t index, MlioOutput* out) {
  if (!p || index >= p->description().outputs.size()) return MLC_USAGE;
  const auto& value = p->description().value(p->description().outputs[index]);
  MlioOutput output{};
  output.name = value.name.c_str();
  output.kind = kind_of(value.kind);
  return fill(output, out);
}

// Strings, copied: one, or a list of them.
Result<HostTensor> texts_of(const MlcTensor& t) {
  const uint64_t count = t.rank == 0 ? 1 : static_cast<uint64_t>(t.shape[0]);
  if (t.rank > 1 || (t.rank == 1 && t.shape[0] < 0) || t.bytes / sizeof(MlcString) != count || t.bytes % sizeof(MlcString) != 0)
    return Status(Code::InputMismatch, 4001, "strings are no list of as many as the shape says");
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < count; ++i) {
    const MlcString& s = static_cast<const MlcString*>(t.data)[i];
    if (!s.data && s.bytes > 0) return Status(Code::InputMismatch, 4001, "string {} has no data", i);
    texts.emplace_back(s.data ? s.data : "", static_cast<size_t>(s.bytes));
  }
  return HostTensor::of_strings({static_cast<int64_t>(count)}, std::move(texts));
}

Status input_given(const MlioPipeline& pipeline, const MlioGiven& g, std::vector<mlc::io::LoadedInput>& loaded, std::vector<GivenInput>& given) {
  const std::string name = g.name ? g.name : "";
  if (g.tensor) {
    const MlcTensor& t = *g.tensor;
    const auto what = [&] { return "input '" + name + "'"; };
    if (t.list_depth > 0 || t.dtype <= MLC_NONE || t.dtype > static_cast<int>(mlc::kLastDType) || t.rank > MLC_MAX_RANK ||
        (t.rank > 0 && !t.shape) || (t.bytes > 0 && !t.data))
      return Status(Code::InputMismatch, 4001, "no valid type, shape or data").note(what());
    if (t.dtype == MLC_STR) {
      auto texts = texts_of(t);
      if (!texts) return std::move(texts).status().note(what());
      given.push_back({name, {}, std::move(*texts)});
      return mlc::ok();
    }
    auto view = HostTensor::view(static_cast<mlc::DType>(t.dtype), {t.shape, t.shape + t.rank}, t.data, t.bytes);
    if (!view) return std::move(view).status().note(what());
    given.push_back({name, {}, std::move(*view)});
    return mlc::ok();
  }
  if (!g.file.data && g.file.bytes > 0) return none("run: an input without tensor and file");
  if (pipeline.target.pipeline->ends_of(name)) {
    given.push_back({name, Bytes(static_cast<const std::byte*>(g.file.data), static_cast<size_t>(g.file.bytes)), {}, g.gap_at, g.gap});
    return mlc::ok();
  }
  if (g.gap > 0) return Status(Code::InputMismatch, 4001, "bytes are left out, and all of them are needed").note("input '" + name + "'");
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(g.file.data));
  MLC_ASSIGN(mlc::io::LoadedInput input,
             mlc::io::load_bytes(mlc::HostBuffer::borrow(data, static_cast<size_t>(g.file.bytes)), name, "input '" + name + "'"));
  loaded.push_back(std::move(input));
  mlc::mlio::give(name, loaded.back(), given);
  return mlc::ok();
}

int mlio_run(const MlioPipeline* p, MlcSession* session, const MlioRunOptions* o, const MlioGiven* inputs,
             uint32_t num_inputs, MlioAnswers** out, MlioError** error) {
  if (out) *out = nullptr;
  return guarded(error, [&] {
    if (!p || !session || !out || (num_inputs > 0 && !inputs))
      return fail(none("run: no pipeline, session or inputs, or no place for the result"), error);
    auto options = mlc::api::read_options(o, "MlioRunOptions");
    if (!options) return fail(std::move(options).status(), error);
    auto run = mlc::api::read_options(options->run, "MlcRunOptions");
    if (!run) return fail(std::move(run).status(), error);
    std::vector<mlc::io::LoadedInput> loaded;
    std::vector<GivenInput> given;
    loaded.reserve(num_inputs);
    for (uint32_t i = 0; i < num_inputs; ++i)
      if (Status s = input_given(*p, inputs[i], loaded, given); !s.ok()) return fail(std::move(s), error);
    auto ran = mlc::mlio::run_pipeline(p->model, p->target, session, &*run, std::move(given),
                                       options->top > 0 ? std::optional<int64_t>(options->top) : std::nullopt);
    if (!ran) return fail(std::move(ran).status(), error);
    *out = mlc::mlio::answers_of(std::move(*ran));
    return static_cast<int>(MLC_OK);
  });
}

void mlio_answers_release(MlioAnswers* a) { delete a; }

int mlio_answers_info(const MlioAnswers* a, MlioAnswersInfo* out) {
  if (!a) return MLC_USAGE;
  MlioAnswersInfo info{};
  info.num_answers = static_cast<uint32_t>(a->ran.answers.size());
  info.before_ns = a->ran.before_ns, info.run_ns = a->ran.run_ns, info.after_ns = a->ran.after_ns, info.first_sample = a->ran.first_sample;
  return fill(info, out);
}

// The answer if it is a T, else null.
template <class T>
const T* answer_as(const MlioAnswers* a, uint32_t index) {
  return a && index < a->ran.answers.size() ? std::get_if<T>(&a->ran.answers[index].value) : nullptr;
}

int mlio_answer(const MlioAnswers* a, uint32_t index, MlioAnswer* out) {
  if (!a || index >= a->ran.answers.size()) return MLC_USAGE;
  MlioAnswer answer{};
  answer.name = a->ran.answers[index].name.c_str();
  if (const auto* c = answer_as<Classes>(a, index)) {
    answer.kind = MLIO_CLASSES;
    answer.num_rows = static_cast<uint32_t>(c->rows.size());
  } else if (const auto* text = answer_as<Text>(a, index)) {
    answer.kind = MLIO_TEXT;
    answer.num_rows = static_cast<uint32_t>(text->lines.size());
  } else if (const auto* found = answer_as<FoundBoxes>(a, index)) {
    answer.kind = MLIO_BOXES;
    answer.num_rows = static_cast<uint32_t>(found->boxes.size());
  } else if (answer_as<ImageFile>(a, index)) {
    answer.kind = MLIO_IMAGE;
  } else if (answer_as<SoundFile>(a, index)) {
    answer.kind = MLIO_SOUND;
  } else if (const auto* t = answer_as<HostTensor>(a, index)) {
    answer.array = {answer.name, const_cast<std::byte*>(t->data.data()), t->data.size(), static_cast<int32_t>(t->dtype),
                    static_cast<uint32_t>(t->shape.size()), t->shape.data()};
    if (t->dtype == mlc::DType::Str) {
      answer.array.data = const_cast<MlcString*>(a->strings[index].data());
      answer.array.bytes = a->strings[index].size() * sizeof(MlcString);
    }
  }
  return fill(answer, out);
}

uint32_t mlio_num_classes(const MlioAnswers* a, uint32_t index, uint32_t row) {
  const auto* c = answer_as<Classes>(a, index);
  return c && row < c->rows.size() ? static_cast<uint32_t>(c->rows[row].size()) : 0;
}

int mlio_class_at(const MlioAnswers* a, uint32_t index, uint32_t row, uint32_t place, MlioClass* out) {
  if (place >= mlio_num_classes(a, index, row)) return MLC_USAGE;
  const mlc::pipeline::Scored& s = answer_as<Classes>(a, index)->rows[row][place];
  MlioClass found{};
  found.index = s.index, found.score = s.score, found.label = string_of(s.label);
  return fill(found, out);
}

int mlio_line(const MlioAnswers* a, uint32_t index, uint32_t place, MlioLine* out) {
  const auto* text = answer_as<Text>(a, index);
  if (!text || place >= text->lines.size()) return MLC_USAGE;
  MlioLine line{};
  line.text = string_of(text->lines[place].text), line.score = text->lines[place].score.value_or(0);
  return fill(line, out);
}

int mlio_box(const MlioAnswers* a, uint32_t index, uint32_t place, MlioBox* out) {
  const auto* found = answer_as<FoundBoxes>(a, index);
  if (!found || place >= found->boxes.size()) return MLC_USAGE;
  const mlc::pipeline::FoundBox& from = found->boxes[place];
  MlioBox box{};
  box.x1 = from.x1, box.y1 = from.y1, box.x2 = from.x2, box.y2 = from.y2;
  box.index = from.index, box.score = from.score, box.label = string_of(from.label);
  return fill(box, out);
}

int mlio_image(const MlioAnswers* a, uint32_t index, MlioImage* out) {
  const auto* file = answer_as<ImageFile>(a, index);
  if (!file) return MLC_USAGE;
  MlioImage image{};
  image.height = static_cast<uint32_t>(file->height), image.width = static_cast<uint32_t>(file->width);
  image.media_type = file->media_type.c_str();
  image.file = {file->bytes.data(), file->bytes.size()};
  return fill(image, out);
}

int mlio_sound(const MlioAnswers* a, uint32_t index, MlioSound* out) {
  const auto* file = answer_as<SoundFile>(a, index);
  if (!file) return MLC_USAGE;
  MlioSound sound{};
  sound.rate = static_cast<uint32_t>(file->rate), sound.channels = static_cast<uint32_t>(file->channels);
  sound.samples = static_cast<uint64_t>(file->samples);
  sound.media_type = file->media_type.c_str();
  sound.file = {file->bytes.data(), file->bytes.size()};
  return fill(sound, out);
}

int error_code(const MlioError* e) { return e ? static_cast<int>(e->status.code) : MLC_OK; }
const char* error_text(const MlioError* e) { return e ? e->text.c_str() : ""; }
const char* error_message(const MlioError* e) { return e ? e->status.message.c_str() : ""; }
int error_number(const MlioError* e) { return e ? e->status.number : 0; }
const char* error_fact(const MlioError* e, uint32_t index) {
  return e && index < e->status.facts.size() ? e->status.facts[index].c_str() : nullptr;
}
const char* error_help(const MlioError* e) { return e ? e->status.help.c_str() : ""; }
void error_release(MlioError* e) {
  if (e && !e->is_kept) delete e;
}

constexpr MlioApi kApi = {MLIO_API_VERSION, sizeof(MlioApi),   mlio_services,        mlio_open,     mlio_release,
                          mlio_info,        mlio_input,        mlio_output,          mlio_run,      mlio_answers_release,
                          mlio_answers_info, mlio_answer,      mlio_num_classes,     mlio_class_at, mlio_line,
                          error_code,       error_text,        error_message,        error_number,  error_fact,
                          error_help,       error_release,     mlio_box,             mlio_image,    mlio_sound,
                          mlc::mlio::stream_info, mlc::mlio::stream_open, mlc::mlio::stream_release, mlc::mlio::stream_push,
                          mlc::mlio::stream_finish, mlc::mlio::stream_next, mlc::mlio::stream_reset, mlc::mlio::stream_give};

}  // namespace

mlc::Status mlc::mlio::give_one(const MlioPipeline& pipeline, const MlioGiven& given, std::vector<io::LoadedInput>& loaded, std::vector<pipeline::GivenInput>& all) {
  return input_given(pipeline, given, loaded, all);
}

extern "C" MLC_EXPORT const MlioApi* mlio_get_api(uint32_t version) {
  // The error for no memory is made while there is some.
  return version >= 1 && version <= MLIO_API_VERSION && no_memory().is_kept ? &kApi : nullptr;
}
