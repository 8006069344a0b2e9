#include "runtime/cli/complete_values.h"

#include <functional>
#include <set>
#include <string>

#include "base/cli/report.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/isolation/passed_lines.h"
#include "runtime/trust/trust_command.h"

namespace mlc::cli {
namespace {

using Names = std::set<std::string>;
using NamesOf = std::function<void(const OpenModel&, const CommandLine&, Names&)>;

void add_variants(const OpenModel& model, const CommandLine& line, Names& out) {
  if (line.option == "require") out.insert("native");
  for (uint32_t i = 0; i < model.info.num_variants; ++i) out.insert(variant_at(model, i).name);
}

void add_programs(const OpenModel& model, const CommandLine&, Names& out) {
  for (uint32_t i = 0; i < model.info.num_programs; ++i) out.insert(mlio::program_at(model, i).name);
}

InputOptions input_options(const CommandLine& line) {
  InputOptions o;
  o.raw = line.given.contains("raw");
  o.pipeline = line.value("pipeline");
  o.program = line.value("program");
  return o;
}

void add_pipelines(const OpenModel& model, const CommandLine&, Names& out) {
  if (const auto names = mlio::pipeline_names(model))
    for (const std::string& name : *names) out.insert(name);
}

void add_inputs(const OpenModel& model, const CommandLine& line, Names& out) {
  const auto target = choose_target(model, input_options(line));
  if (!target) return;
  for (const std::string& name : input_names(model, *target)) out.insert(name + "=");
}

void add_extents(const OpenModel& model, const CommandLine& line, Names& out) {
  const auto target = choose_target(model, input_options(line));
  if (!target) return;
  for (uint32_t i = 0; i < mlio::program_at(model, target->program).num_inputs; ++i)
    for (const std::string& name : free_extents(mlio::port_at(model, target->program, false, i))) out.insert(name + "=");
}

// The words that `names_of` finds in the container; none if it cannot be opened.
Completions from_container(const CommandLine& line, const NamesOf& names_of) {
  const PassedLines words;
  ContainerOptions container;
  if (!use_own_container(container)) container.file = line.value("file");
  container.remember = false;
  const ContainerCommand command{.name = "complete", .container = container, .keep = words.descriptor()};
  const int exit_code = answer(command, [&](OpenFiles& files) -> Result<Report> {
    MLC_ASSIGN(const OpenModel model, open_model(files));
    Names names;
    names_of(model, line, names);
    MLC_RETURN_IF_ERROR(words.put({names.begin(), names.end()}));
    return Report{};
  });
  Completions out;
  if (exit_code != 0) return out;
  for (std::string& word : words.get()) out.words.push_back({std::move(word), ""});
  return out;
}

}  // namespace

std::optional<Completions> values_of_line(const CommandLine& line) {
  if (line.option == "input") {
    if (const size_t equals = line.word.rfind('='); equals != line.word.npos) {
      const std::string name = line.word.substr(0, equals + 1);
      return Completions{{{name + "random", ""}, {name + "zeros", ""}}, true};
    }
    Completions inputs = from_container(line, add_inputs);
    inputs.words.push_back({"random", "numbers made up for the type and shape"});
    inputs.words.push_back({"zeros", ""});
    inputs.files = true;
    return inputs;
  }
  if (line.option == "variant" || line.option == "require") return from_container(line, add_variants);
  if (line.option == "program") return from_container(line, add_programs);
  if (line.option == "pipeline") return from_container(line, add_pipelines);
  if (line.option == "dim") return from_container(line, add_extents);
  if (line.option == "remove") return trusted_key_ids();
  for (const char* text : {"time-limit", "memory-limit", "duration", "warmup", "id", "models", "top"})
    if (line.option == text) return Completions{};
  return std::nullopt;
}

}  // namespace mlc::cli
