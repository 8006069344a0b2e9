#include "packager/compile/source/pipelines.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/files/links.h"
#include "base/files/regular_file.h"
#include "base/problems.h"
#include "packager/pipeline/check_lists.h"
#include "packager/pipeline/expand_pipeline.h"
#include "packager/pipeline/golden_texts.h"
#include "packager/text/compile_tokenizer.h"
#include "schema/validate/validate.h"

namespace mlc::compile {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxAssetBytes = 64u << 20;

// In the cache of a hub a folder of a revision, snapshots/REVISION, holds links into blobs/ beside snapshots/.
bool leads_to_blobs(const fs::path& folder, const std::string& name) {
  std::error_code failed, missing;
  const fs::path target = fs::canonical(folder / name, failed), blobs = fs::canonical(folder / ".." / ".." / "blobs", missing);
  return !failed && !missing && target.parent_path() == blobs;
}

Status load_asset(const pipeline::Pipeline& p, const pipeline::Step& step, const fs::path& folder, PipelineFiles& files) {
  const std::string name = pipeline::asset_of(step);
  if (name.empty() || files.assets.count(name)) return ok();
  const std::string place = pipeline::place_of(p, step.where);
  if (!format::is_label(name)) return Status(Code::Usage, 5004, place + "'" + name + "' must be a plain file name, of a file beside " + p.file);
  // A link in the folder of another person's model must not bring a file of the user's into the container.
  auto file = place_inside(folder.string(), name);
  if (!file.ok() && file.status().code == Code::Malformed && leads_to_blobs(folder, name)) file = (folder / name).string();
  if (!file.ok() && file.status().code == Code::Malformed)
    return Status(Code::Usage, 5004, place + "'" + name + "' is a symbolic link that leads out of the folder of " + p.file).hint("put the file itself there");
  auto bytes = file.ok() ? read_file(*file, kMaxAssetBytes) : std::move(file).status();
  if (!bytes.ok()) {
    Status problem = std::move(bytes).status();
    problem.message = place + problem.message;
    return problem;
  }
  if (pipeline::wants_tokenizer(step)) {
    const std::string_view json(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    bytes = text::compile_tokenizer(json, name);
    if (!bytes.ok()) {
      Status problem = std::move(bytes).status();
      problem.message = place + problem.message;
      return problem;
    }
    files.tokenizers.insert(name);
  }
  files.assets[name] = std::move(bytes).value();
  return ok();
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t limit) {
  MLC_ASSIGN(const std::string text, read_regular_file(path, limit, Code::Usage));
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(begin, begin + text.size());
}

namespace {

// `files` has the text, and the assets that are no files of the folder.
Result<PipelineFiles> with_assets(PipelineFiles files, const std::string& path, const fs::path& folder) {
  const std::string_view text(reinterpret_cast<const char*>(files.text.data()), files.text.size());
  MLC_ASSIGN(files.parsed, pipeline::parse(text, path));
  Status problems;
  for (const pipeline::Pipeline& p : files.parsed.pipelines) {
    if (p.name == kMainProgram && files.parsed.programs.empty())
      add_problem(problems, Status(Code::Usage, path + ": a pipeline may not be called '" + kMainProgram + "', which names the bare model"));
    for (const pipeline::Pipeline* each : pipeline::with_bodies(p))
      for (const pipeline::Step& step : each->steps) add_problem(problems, load_asset(*each, step, folder, files));
  }
  if (!problems.ok()) return problems;
  return files;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<PipelineFiles> load_pipelines(const std::string& path) {
  PipelineFiles files;
  MLC_ASSIGN(files.text, read_file(path, pipeline::kTextLimits.bytes));
  return with_assets(std::move(files), path, fs::path(path).parent_path());
}

Result<PipelineFiles> pipelines_of_folder(const std::string& folder, const model::Model& model, std::vector<model_folder::Program>& programs) {
  MLC_ASSIGN(model_folder::Description described, model_folder::describe(folder, model));
  PipelineFiles files;
  files.text = bytes_of(described.pipeline);
  for (const auto& [name, text] : described.assets) files.assets[name] = bytes_of(text);
  programs = std::move(described.programs);
  return with_assets(std::move(files), "pipeline of " + folder, folder);
}

Result<std::vector<nest::Function>> expand_pipelines(ir::Context& ctx, const lang::Library& library, const std::map<std::string, const model::Model*>& programs,
                                                     const PipelineFiles& files) {
  std::vector<nest::Function> functions;
  Status problems;
  for (const pipeline::Pipeline& p : files.parsed.pipelines) {
    auto expanded = pipeline::expand_pipeline(ctx, library, programs, p);
    if (!expanded.ok()) {
      add_problem(problems, std::move(expanded).status());
      continue;
    }
    add_problem(problems, pipeline::check_lists(p, *expanded, files.assets));
    for (nest::Function& function : expanded->functions) functions.push_back(std::move(function));
  }
  if (!problems.ok()) return problems;
  return functions;
}

std::vector<std::string> programs_of_section(const PipelineFiles& files, const std::string& name) {
  for (const pipeline::Pipeline& p : files.parsed.pipelines)
    for (const pipeline::Pipeline* each : pipeline::with_bodies(p))
      for (const pipeline::Section& section : pipeline::sections(*each))
        if (section.is_array && section.program == name) return pipeline::programs_of(*each, section);
  return {};
}

Result<std::vector<GivenVector>> vectors_of_texts(const PipelineFiles& files, const nest::Function& function) {
  std::vector<GivenVector> all;
  for (const pipeline::Pipeline& p : files.parsed.pipelines) {
    if (p.name != function.name || function.inputs.empty()) continue;
    const auto& shape = function.arrays[function.inputs[0]].shape;
    const int64_t fixed = !shape.empty() && shape[0]->is_const() ? shape[0]->i : 0;
    MLC_ASSIGN(const std::vector<pipeline::TextVector> vectors, pipeline::golden_texts(p, files.assets, fixed));
    for (const pipeline::TextVector& vector : vectors) {
      GivenVector& given = all.emplace_back(GivenVector{vector.name, {}});
      for (const NamedTensor& t : vector.arrays) {
        nest::Tensor tensor = nest::Tensor::zeros(t.tensor.dtype, t.tensor.shape);
        std::copy(t.tensor.data.bytes().begin(), t.tensor.data.bytes().end(), tensor.bytes.begin());
        given.arrays[t.name] = std::move(tensor);
      }
    }
  }
  return all;
}

}  // namespace mlc::compile
