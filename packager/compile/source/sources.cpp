#include "packager/compile/source/sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/files/links.h"
#include "base/problems.h"
#include "packager/import/mapping.h"
#include "packager/import/onnx.h"
#include "schema/validate/validate.h"

namespace mlc::compile {
namespace {

namespace fs = std::filesystem;

// By its first character that is no blank, which stands near its beginning; no ONNX file begins so. What is no regular file is not read.
bool is_pipeline(const std::string& path) {
  constexpr size_t kMostBlanks = 4096;
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown)) return false;
  std::ifstream file(path, std::ios::binary);
  char c = 0;
  for (size_t k = 0; k < kMostBlanks && file.get(c); ++k)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c == '{';
  return false;
}

Result<SourceModel> load_named(const pipeline::ProgramFile& program, const std::string& pipeline_path) {
  const std::string place = pipeline_path + ":" + std::to_string(program.where.line) + ":" + std::to_string(program.where.column) + ": ";
  if (!format::is_label(program.name))
    return Status(Code::Usage, 5004, place + format::quoted(program.name) + " is no name for a program");
  const std::string folder = fs::path(pipeline_path).parent_path().string();
  auto file = place_inside(folder, program.model);
  if (!file.ok() && file.status().code == Code::Malformed)
    return Status(Code::Usage, 5004, place + format::quoted(program.model) + " leads out of the folder of " + pipeline_path).hint("put the model, or a copy of it, into that folder");
  auto model = file.ok() ? import::import_onnx(*file) : std::move(file).status();
  if (!model.ok()) {
    Status problem = std::move(model).status();
    problem.message = place + problem.message;
    return problem;
  }
  return SourceModel{program.name, *file, std::move(*model)};
}

Status load_named_models(Sources& sources) {
  sources.are_named = true;
  std::vector<pipeline::ProgramFile> programs = sources.pipelines.parsed.programs;
  std::sort(programs.begin(), programs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Status problems;
  for (const pipeline::ProgramFile& program : programs) {
    auto model = load_named(program, sources.file);
    if (model.ok()) sources.models.push_back(std::move(*model));
    else add_problem(problems, std::move(model).status());
  }
  return problems;
}

// A free extent of one model that has bounds, and a namesake without them in another one: it gets a name of its own.
std::string own_name(const Sources& sources, const SourceModel& source, const std::string& name) {
  for (const SourceModel& other : sources.models)
    if (&other != &source && has_free_extent(other.model, name)) return source.program + "." + name;
  return name;
}

}  // namespace

std::map<std::string, const model::Model*> Sources::programs() const {
  std::map<std::string, const model::Model*> all;
  for (const SourceModel& source : models) all[source.program] = &source.model;
  return all;
}

Result<Digest> Sources::digest() const {
  MLC_ASSIGN(const auto first, import::map_file(file));
  if (models.size() == 1 && !are_named) return sha256(first->bytes);
  std::vector<std::byte> digests;
  const auto add = [&](Bytes bytes) {
    const Digest one = sha256(bytes);
    const auto raw = std::as_bytes(std::span(one));
    digests.insert(digests.end(), raw.begin(), raw.end());
  };
  add(first->bytes);
  for (const SourceModel& source : models) {
    if (source.file == file) continue;
    MLC_ASSIGN(const auto mapped, import::map_file(source.file));
    add(mapped->bytes);
  }
  return sha256(Bytes(digests));
}

Result<Sources> load_sources(const std::string& path, const std::string& pipeline_path, const std::function<void()>& models_begin) {
  Sources sources;
  sources.file = path;
  std::error_code unknown;
  const bool is_folder = fs::is_directory(path, unknown);
  const bool names_models = !is_folder && is_pipeline(path);
  if (names_models && !pipeline_path.empty()) return Status(Code::Usage, path + " is a pipeline, and so is " + pipeline_path).hint("give one of them");
  if (names_models || !pipeline_path.empty()) {
    MLC_ASSIGN(sources.pipelines, load_pipelines(names_models ? path : pipeline_path));
  }
  const bool has_programs = !sources.pipelines.parsed.programs.empty();
  if (names_models && !has_programs)
    return Status(Code::Usage, path + " is a pipeline that names no models").hint("\"programs\": {\"main\": \"model.onnx\"} in it, or mlpack build MODEL --pipeline " + path);
  if (!names_models && has_programs)
    return Status(Code::Usage, pipeline_path + " names its models, and " + path + " is another one").hint("mlpack build " + pipeline_path);
  if (models_begin) models_begin();
  if (names_models) {
    MLC_RETURN_IF_ERROR(load_named_models(sources));
    return sources;
  }
  if (is_folder) {
    MLC_ASSIGN(sources.file, model_folder::model_file(path));
  }
  MLC_ASSIGN(model::Model model, import::import_onnx(sources.file));
  std::vector<model_folder::Program> more;
  if (is_folder && pipeline_path.empty()) {
    MLC_ASSIGN(sources.pipelines, pipelines_of_folder(path, model, more));
  }
  sources.models.push_back({kMainProgram, sources.file, std::move(model)});
  for (model_folder::Program& program : more) sources.models.push_back({program.name, program.file, std::move(program.model)});
  return sources;
}

Status apply(ir::Context& ctx, const InterfaceChoices& choices, Sources& sources) {
  if (!choices.states.empty() && (sources.are_named || !sources.pipelines.text.empty()))
    return Status(Code::Usage, "--state is of a model without a pipeline, which carries values itself").hint("\"carry\" of its stream, or of its step 'generate'");
  if (!sources.are_named) return apply(ctx, choices, sources.models.front().model);
  if (!choices.fed.empty() || !choices.shapes.empty() || !choices.dims.empty())
    return Status(Code::Usage, "--dim, --shape and --feed are of one model, and " + sources.file + " names several")
        .hint("bounds stand there: \"programs\": {\"NAME\": {\"model\": \"model.onnx\", \"dims\": {\"N\": [1, 8]}}}");
  for (const pipeline::ProgramFile& program : sources.pipelines.parsed.programs) {
    const auto source = std::find_if(sources.models.begin(), sources.models.end(), [&](const SourceModel& s) { return s.program == program.name; });
    std::vector<DimBound> bounds;
    for (const pipeline::ProgramFile::Bound& bound : program.dims) {
      bounds.push_back({bound.name, bound.lo, bound.hi});
      if (bound.lo == bound.hi) continue;
      bounds.back().name = own_name(sources, *source, bound.name);
      if (bounds.back().name != bound.name) rename_free_extent(source->model, bound.name, bounds.back().name);
    }
    if (Status status = apply_bounds(ctx, bounds, source->model); !status.ok()) return std::move(status).note("program '" + program.name + "'");
  }
  return ok();
}

}  // namespace mlc::compile
