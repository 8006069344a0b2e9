#include "bindings/triton/pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/cli/json_tree.h"

namespace mlc::triton {
namespace {

constexpr std::string_view kDefault = "default";
constexpr std::string_view kPlainText = "text/plain";

// By reference, as status_of is.
Status status_of_mlio(int code, MlioError* const& error) {
  if (code == MLC_OK) return ok();
  std::string text = mlio().error_message(error);
  for (uint32_t i = 0; const char* fact = mlio().error_fact(error, i); ++i) text += std::string("; ") + fact;
  if (const char* help = mlio().error_help(error); help != nullptr && help[0] != '\0') text += std::string("; help: ") + help;
  mlio().error_release(error);
  return Status(static_cast<Code>(code), "{}", text);
}

template <class Struct>
Struct sized() {
  Struct out = {};
  out.size = sizeof out;
  return out;
}

std::string_view view_of(MlcString text) { return {text.data, text.bytes}; }

cli::Json scored(int64_t index, MlcString label, double score) {
  cli::Json out = {{"index", index}};
  if (label.bytes > 0) out["label"] = view_of(label);
  out["score"] = score;
  return out;
}

bool takes_texts(const MlioInput& input) {
  return std::any_of(input.media_types, input.media_types + input.num_media_types, [](const char* type) { return type == kPlainText; });
}

// The array of the program that has this name.
Result<Port> array_of(const std::vector<Port>& ports, const char* what, const char* name) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  if (found != ports.end()) return *found;
  return Status(Code::Unsupported, "the pipeline's {} '{}' is an array that its program does not have by this name; its type is needed", what, name);
}

}  // namespace

const MlioApi& mlio() {
  static const MlioApi* const table = mlio_get_api(MLIO_API_VERSION);
  return *table;
}

Result<PipelineHandle> open_pipeline(const MlcModel* model, const std::string& name) {
  MlioPipeline* pipeline = nullptr;
  MlioError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of_mlio(mlio().open(&api(), model, name == kDefault ? nullptr : name.c_str(), &pipeline, &error), error));
  return PipelineHandle(pipeline);
}

uint32_t program_of(const MlioPipeline* pipeline) {
  auto info = sized<MlioPipelineInfo>();
  mlio().info(pipeline, &info);
  return info.program;
}

Status ports_of_pipeline(const MlioPipeline* pipeline, std::vector<Port>& inputs, std::vector<Port>& outputs) {
  auto info = sized<MlioPipelineInfo>();
  mlio().info(pipeline, &info);
  std::vector<Port> in, out;
  for (uint32_t i = 0; i < info.num_inputs; ++i) {
    auto input = sized<MlioInput>();
    mlio().input(pipeline, i, &input);
    if (input.is_array) {
      MLC_ASSIGN(Port port, array_of(inputs, "input", input.name));
      in.push_back(std::move(port));
    } else if (takes_texts(input)) {
      in.push_back({input.name, MLC_STR, {-1}});
    } else {
      in.push_back({input.name, MLC_STR, {1}, true});
    }
  }
  for (uint32_t i = 0; i < info.num_outputs; ++i) {
    auto output = sized<MlioOutput>();
    mlio().output(pipeline, i, &output);
    if (output.kind == MLIO_ARRAY) {
      MLC_ASSIGN(Port port, array_of(outputs, "output", output.name));
      out.push_back(std::move(port));
    } else {
      out.push_back({output.name, MLC_STR, {output.kind == MLIO_IMAGE || output.kind == MLIO_SOUND ? 1 : -1}});
    }
  }
  inputs = std::move(in);
  outputs = std::move(out);
  return ok();
}

void PipelineRun::AnswersDeleter::operator()(MlioAnswers* answers) const { mlio().answers_release(answers); }

Status PipelineRun::run(const Model& model, MlcSession* session, std::span<const MlcTensor> inputs) {
  std::vector<MlioGiven> given;
  for (const MlcTensor& tensor : inputs) {
    const auto port = std::find_if(model.inputs().begin(), model.inputs().end(), [&](const Port& one) { return one.name == tensor.name; });
    if (port == model.inputs().end()) return Status(Code::InputMismatch, "the pipeline has no input '{}'", tensor.name);
    MlioGiven one = {};
    one.name = tensor.name;
    if (port->is_file) {
      if (tensor.dtype != MLC_STR || tensor.bytes != sizeof(MlcString))
        return Status(Code::InputMismatch, "input '{}': BYTES [1] expected, the bytes of one file", tensor.name);
      const auto& file = *static_cast<const MlcString*>(tensor.data);
      one.file = {file.data, file.bytes};
    } else {
      one.tensor = &tensor;
    }
    given.push_back(one);
  }
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  const int code = mlio().run(model.pipeline(), session, nullptr, given.data(), static_cast<uint32_t>(given.size()), &answers, &error);
  MLC_RETURN_IF_ERROR(status_of_mlio(code, error));
  answers_.reset(answers);
  auto info = sized<MlioAnswersInfo>();
  mlio().answers_info(answers, &info);
  for (uint32_t i = 0; i < info.num_answers; ++i) {
    auto answer = sized<MlioAnswer>();
    mlio().answer(answers, i, &answer);
    MLC_RETURN_IF_ERROR(read(answer, i));
  }
  return ok();
}

Status PipelineRun::read(const MlioAnswer& answer, uint32_t index) {
  const MlioAnswers* const all = answers_.get();
  std::vector<std::string> texts;
  switch (answer.kind) {
    case MLIO_ARRAY:
      outputs_.push_back(answer.array);
      return ok();
    case MLIO_TEXT:
      for (uint32_t i = 0; i < answer.num_rows; ++i) {
        auto line = sized<MlioLine>();
        mlio().line(all, index, i, &line);
        texts.emplace_back(view_of(line.text));
      }
      break;
    case MLIO_CLASSES:
      for (uint32_t row = 0; row < answer.num_rows; ++row) {
        cli::Json list = cli::Json::array();
        for (uint32_t i = 0; i < mlio().num_classes(all, index, row); ++i) {
          auto one = sized<MlioClass>();
          mlio().class_at(all, index, row, i, &one);
          list.push_back(scored(one.index, one.label, one.score));
        }
        texts.push_back(list.print());
      }
      break;
    case MLIO_BOXES:
      for (uint32_t i = 0; i < answer.num_rows; ++i) {
        auto box = sized<MlioBox>();
        mlio().box(all, index, i, &box);
        cli::Json one = scored(box.index, box.label, box.score);
        cli::Json corners = cli::Json::array();
        for (const float corner : {box.x1, box.y1, box.x2, box.y2}) corners.push_back(static_cast<double>(corner));
        one["box"] = std::move(corners);
        texts.push_back(one.print());
      }
      break;
    case MLIO_IMAGE: {
      auto image = sized<MlioImage>();
      mlio().image(all, index, &image);
      add_bytes(image.file);
      return ok();
    }
    case MLIO_SOUND: {
      auto sound = sized<MlioSound>();
      mlio().sound(all, index, &sound);
      add_bytes(sound.file);
      return ok();
    }
    default:
      return Status(Code::Unsupported, "output '{}' is of a kind that this backend does not know ({})", answer.name, answer.kind);
  }
  add_texts(std::move(texts));
  return ok();
}

void PipelineRun::add_texts(std::vector<std::string> texts) {
  Texts out{std::move(texts), {}, 0};
  for (const std::string& text : out.own) out.strings.push_back({text.data(), text.size()});
  add(std::move(out));
}

void PipelineRun::add_bytes(MlcBytes file) { add(Texts{{}, {{static_cast<const char*>(file.data), file.bytes}}, 0}); }

// Moved vectors keep their elements where they are, and so what the strings point to.
void PipelineRun::add(Texts texts) {
  Texts& kept = texts_.emplace_back(std::move(texts));
  kept.count = static_cast<int64_t>(kept.strings.size());
  MlcTensor out = {};
  out.dtype = MLC_STR;
  out.rank = 1;
  out.shape = &kept.count;
  out.data = kept.strings.data();
  out.bytes = kept.strings.size() * sizeof(MlcString);
  outputs_.push_back(out);
}

}  // namespace mlc::triton
