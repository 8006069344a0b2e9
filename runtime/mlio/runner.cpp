#include "runtime/mlio/runner.h"

#include <algorithm>
#include <cstddef>
#include <ctime>

#include "base/checked.h"
#include "runtime/api/sized.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::mlio {
namespace {

constexpr const char* kPipelineAsset = "pipeline.json";

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

MlcModelInfo info_of(ModelRef m) {
  auto info = sized<MlcModelInfo>();
  m.api.model_info(m.model, &info);
  return info;
}

Result<Bytes> asset_of(ModelRef m, const std::string& name) {
  MlcBytes data{};
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(m.api, m.api.asset_data(m.model, name.c_str(), &data, &error), error));
  return Bytes(static_cast<const std::byte*>(data.data), static_cast<size_t>(data.bytes));
}

// What is wrong with a pipeline that is stored in a container is the file's mistake, not the caller's.
Status in_container(Status status) {
  if (status.code == Code::Usage) status.code = Code::Malformed;
  return std::move(status).note("the pipeline in the container");
}

// The description of the pipelines, or an empty text where there is none.
Result<std::string_view> pipeline_text(ModelRef m) {
  auto text = asset_of(m, kPipelineAsset);
  if (!text && text.status().code == Code::NotFound) return std::string_view();
  if (!text) return std::move(text).status();
  return std::string_view(reinterpret_cast<const char*>(text->data()), text->size());
}

}  // namespace

Status status_of(const MlcApi& api, int code, MlcError*& error) {
  if (code == MLC_OK) return ok();
  Status s(static_cast<Code>(code), static_cast<uint16_t>(api.error_number(error)), api.error_message(error));
  for (uint32_t i = 0; const char* fact = api.error_fact(error, i); ++i) s.facts.emplace_back(fact);
  s.help = api.error_help(error);
  api.error_release(error);
  error = nullptr;
  return s;
}

uint32_t num_programs(ModelRef m) { return info_of(m).num_programs; }

MlcProgram program_at(ModelRef m, uint32_t index) {
  auto p = sized<MlcProgram>();
  m.api.program(m.model, index, &p);
  return p;
}

MlcPort port_at(ModelRef m, uint32_t program, bool is_output, uint32_t index) {
  auto p = sized<MlcPort>();
  m.api.port(m.model, program, is_output, index, &p);
  return p;
}

Result<uint32_t> program_index(ModelRef m, const std::string& name) {
  std::string known;
  for (uint32_t i = 0; i < num_programs(m); ++i) {
    const MlcProgram p = program_at(m, i);
    if (name.empty() ? p.is_default != 0 : name == p.name) return i;
    known += (known.empty() ? "" : ", ") + std::string(p.name);
  }
  return Status(Code::Usage, "no program '" + name + "' in this container").fact("it has " + known);
}

Result<Target> choose_target(ModelRef m, const Choice& choice) {
  Target target;
  MLC_ASSIGN(const std::string_view text, pipeline_text(m));
  target.has_pipeline = !text.empty();
  if (choice.raw || text.empty()) {
    auto program = program_index(m, choice.program.empty() ? "main" : choice.program);
    if (!program && choice.program.empty()) program = program_index(m, "");
    MLC_ASSIGN(target.program, std::move(program));
    return target;
  }
  auto file = pipeline::parse(text, kPipelineAsset);
  if (!file) return in_container(std::move(file).status());
  MLC_ASSIGN(const uint32_t default_program, program_index(m, ""));
  const std::string wanted = choice.pipeline.empty() ? program_at(m, default_program).name : choice.pipeline;
  std::string known;
  for (pipeline::Pipeline& p : file->pipelines) {
    known += (known.empty() ? "" : ", ") + p.name;
    if (p.name != wanted) continue;
    MLC_ASSIGN(target.program, program_index(m, p.name));
    const auto lookup = [&](std::string_view name) { return asset_of(m, std::string(name)); };
    auto host = pipeline::HostPipeline::create(std::move(p), lookup);
    if (!host) return in_container(std::move(host).status());
    target.pipeline = std::move(*host);
    return target;
  }
  return Status(Code::Usage, "no pipeline '" + wanted + "' in this container").fact("it has " + known);
}

Result<std::vector<std::string>> pipeline_names(ModelRef m) {
  std::vector<std::string> names;
  MLC_ASSIGN(const std::string_view text, pipeline_text(m));
  if (text.empty()) return names;
  auto file = pipeline::parse(text, kPipelineAsset);
  if (!file) return in_container(std::move(file).status());
  for (const pipeline::Pipeline& p : file->pipelines) names.push_back(p.name);
  return names;
}

io::LoadedInput of_ends(io::FileEnds ends) {
  io::LoadedInput input;
  input.bytes = std::move(ends.bytes);
  input.gap_at = ends.gap_at, input.gap = ends.gap;
  return input;
}

void give(const std::string& name, io::LoadedInput& input, std::vector<pipeline::GivenInput>& given) {
  if (input.tensors.empty()) given.push_back({name, input.bytes.bytes(), std::nullopt, input.gap_at, input.gap});
  for (NamedTensor& t : input.tensors)
    given.push_back({input.tensors.size() > 1 || name.empty() ? t.name : name, {}, std::move(t.tensor)});
}

Views views_of(ModelRef m, uint32_t program, const std::vector<NamedTensor>& tensors) {
  Views views;
  views.items.reserve(tensors.size());
  const auto is_list = [&](const std::string& name) {
    for (uint32_t i = 0; i < program_at(m, program).num_inputs; ++i)
      if (const MlcPort p = port_at(m, program, false, i); name == p.name) return p.list_depth > 0;
    return false;
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    const NamedTensor& t = tensors[i];
    MlcTensor view{t.name.c_str(), const_cast<std::byte*>(t.tensor.data.data()), t.tensor.data.size(),
                   static_cast<MlcDType>(t.tensor.dtype), static_cast<uint32_t>(t.tensor.shape.size()),
                   t.tensor.shape.data()};
    if (t.tensor.dtype == DType::Str) {
      std::vector<MlcString>& strings = views.strings.emplace_back();
      for (const std::string& s : t.tensor.strings) strings.push_back({s.data(), s.size()});
      view.data = strings.data();
      view.bytes = strings.size() * sizeof(MlcString);
    }
    if (!is_list(t.name)) {
      views.tensors.push_back(view);
      continue;
    }
    if (i == 0 || tensors[i - 1].name != t.name) {
      views.items.emplace_back();
      views.tensors.push_back({t.name.c_str()});
    }
    views.items.back().push_back(view);
    MlcTensor& list = views.tensors.back();
    list.list_depth = 1;
    list.num_items = static_cast<uint32_t>(views.items.back().size());
    list.items = views.items.back().data();
  }
  return views;
}

namespace {

class Results {
 public:
  explicit Results(pipeline::AnswerBudget& budget) : budget_(budget) {}

  // Recursion: the depth of lists.
  Status add(const std::string& name, const MlcTensor& o) {
    MLC_RETURN_IF_ERROR(budget_.take(sizeof(NamedTensor) + 2 * name.size() + o.rank * sizeof(int64_t), name));
    for (uint32_t i = 0; i < o.num_items; ++i) MLC_RETURN_IF_ERROR(add(name + "." + std::to_string(i), o.items[i]));
    if (o.list_depth > 0) return ok();
    std::vector<int64_t> shape(o.shape, o.shape + o.rank);
    if (o.dtype == MLC_STR) {
      std::vector<std::string> strings;
      for (uint64_t k = 0; k < o.bytes / sizeof(MlcString); ++k) {
        const MlcString& s = static_cast<const MlcString*>(o.data)[k];
        MLC_RETURN_IF_ERROR(budget_.take(sizeof(std::string) + s.bytes, name));
        strings.emplace_back(s.data, s.bytes);
      }
      out.push_back({name, HostTensor::of_strings(std::move(shape), std::move(strings))});
      return ok();
    }
    MLC_ASSIGN(HostTensor t, HostTensor::view(static_cast<DType>(o.dtype), std::move(shape), o.data, o.bytes));
    out.push_back({name, std::move(t)});
    return ok();
  }

  std::vector<NamedTensor> out;

 private:
  pipeline::AnswerBudget& budget_;
};

}  // namespace

Result<std::vector<NamedTensor>> results_of(ModelRef m, uint32_t program, const std::vector<MlcTensor>& outputs, pipeline::AnswerBudget& budget) {
  Results results(budget);
  for (uint32_t i = 0; i < outputs.size(); ++i)
    MLC_RETURN_IF_ERROR(results.add(port_at(m, program, true, i).name, outputs[i]));
  return std::move(results.out);
}

io::DecodeLimits decode_limits(ModelRef m) { return {.together = info_of(m).native_allowed == 0}; }

pipeline::AnswerBudget answer_budget(ModelRef m) {
  return info_of(m).native_allowed ? pipeline::AnswerBudget() : pipeline::AnswerBudget::of_untrusted();
}

Result<std::vector<MlcTensor>> run_once(ModelRef m, MlcSession* session, uint32_t program, const MlcRunOptions* options,
                                        const std::vector<MlcTensor>& inputs) {
  const MlcProgram p = program_at(m, program);
  std::vector<MlcTensor> outputs(p.num_outputs, MlcTensor{});
  auto all = options ? *options : sized<MlcRunOptions>();
  all.size = sizeof all;
  all.program = p.name;
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(m.api,
                                m.api.run(session, &all, inputs.data(), static_cast<uint32_t>(inputs.size()),
                                          outputs.data(), static_cast<uint32_t>(outputs.size()), &error),
                                error));
  return outputs;
}

pipeline::Programs programs_of(ModelRef m, MlcSession* session, const MlcRunOptions* options, pipeline::AnswerBudget& budget, uint64_t& run_ns) {
  pipeline::Programs programs;
  programs.run = [m, session, options, &budget, &run_ns](const std::string& name, const std::vector<NamedTensor>& inputs) -> Result<std::vector<NamedTensor>> {
    MLC_ASSIGN(const uint32_t program, program_index(m, name));
    const uint64_t start = now_ns();
    const Views views = views_of(m, program, inputs);
    MLC_ASSIGN(const std::vector<MlcTensor> outputs, run_once(m, session, program, options, views.tensors));
    run_ns += now_ns() - start;
    return results_of(m, program, outputs, budget);
  };
  programs.no_rows = [m](const std::string& name, const std::string& output) -> Result<HostTensor> {
    MLC_ASSIGN(const uint32_t program, program_index(m, name));
    for (uint32_t i = 0; i < program_at(m, program).num_outputs; ++i) {
      const MlcPort port = port_at(m, program, true, i);
      if (output != port.name) continue;
      std::vector<int64_t> shape;
      for (uint32_t axis = 0; axis < port.rank; ++axis) shape.push_back(axis == 0 ? 0 : std::max<int64_t>(port.extents[axis], 0));
      return HostTensor::zeros(static_cast<DType>(port.dtype), std::move(shape));
    }
    return Status(Code::Internal, "program '{}' has no output '{}'", name, output);
  };
  programs.zeros = [m, &budget](const std::string& name, const std::string& input) -> Result<HostTensor> {
    MLC_ASSIGN(const uint32_t program, program_index(m, name));
    for (uint32_t i = 0; i < program_at(m, program).num_inputs; ++i) {
      const MlcPort port = port_at(m, program, false, i);
      if (input != port.name) continue;
      std::vector<int64_t> shape(port.extents, port.extents + port.rank);
      if (port.list_depth > 0 || port.dtype == MLC_STR || std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; }))
        return Status(Code::Malformed, "the stream of the pipeline carries '{}', and program '{}' does not say how large it is", input, name);
      uint64_t elements = 1;
      for (const int64_t extent : shape) elements = checked_mul(elements, static_cast<uint64_t>(extent)).value_or(UINT64_MAX);
      MLC_RETURN_IF_ERROR(budget.take(elements, bytes_of(static_cast<DType>(port.dtype)), input));
      return HostTensor::zeros(static_cast<DType>(port.dtype), std::move(shape));
    }
    return Status(Code::Malformed, "the stream of the pipeline carries '{}', which program '{}' does not take", input, name);
  };
  programs.row_runs = [m, session](const std::string& name, const std::string& input) -> Result<pipeline::RowRuns> {
    MLC_ASSIGN(const uint32_t program, program_index(m, name));
    pipeline::RowRuns runs;
    for (uint32_t i = 0; i < program_at(m, program).num_inputs; ++i) {
      const MlcPort port = port_at(m, program, false, i);
      if (input != port.name || port.rank == 0) continue;
      if (const int64_t most = port.extents[0] >= 0 ? port.extents[0] : port.max[0]; most >= 0) runs.most_rows = std::max<int64_t>(1, most);
    }
    // A device has room for more, and to begin takes it as long as a few hundred tokens.
    auto info = sized<MlcSessionInfo>();
    const bool tells = m.api.size >= offsetof(MlcApi, program_info) + sizeof m.api.program_info;  // an older libmlrt does not
    if (tells && m.api.program_info(session, program, &info) == MLC_OK && info.device && *info.device != 0) runs.most_tokens = 16384, runs.run_tokens = 256;
    return runs;
  };
  return programs;
}

Result<Ran> run_pipeline(ModelRef m, const Target& target, MlcSession* session, const MlcRunOptions* options,
                         std::vector<pipeline::GivenInput> given, std::optional<int64_t> top) {
  Ran ran;
  const uint64_t start = now_ns();
  MLC_ASSIGN(std::vector<NamedTensor> made, target.pipeline->before(std::move(given), decode_limits(m)));
  const uint64_t ready = now_ns();
  pipeline::AnswerBudget budget = answer_budget(m);
  const pipeline::Programs programs = programs_of(m, session, options, budget, ran.run_ns);
  MLC_ASSIGN(ran.answers, target.pipeline->run(std::move(made), top, budget, programs));
  ran.before_ns = ready - start, ran.after_ns = now_ns() - ready - ran.run_ns;
  return ran;
}

}  // namespace mlc::mlio
