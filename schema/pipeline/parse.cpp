// A file: its models, its pipelines, and the names of all programs.
#include <tuple>
#include <unordered_set>

#include "schema/pipeline/build_pipeline.h"
#include "schema/pipeline/pipeline.h"
#include "schema/pipeline/reader.h"

namespace mlc::pipeline {
namespace {

using Kind = Json::Kind;

// A model: its path, or {"model": path, "dims": {name: number or [least, most]}}.
void read_program(const Json& key, const Json& value, ProgramFile& program, Problems& problems) {
  program.name = key.text();
  program.where = key.where();
  if (value.is(Kind::String)) {
    program.model = value.text();
    return;
  }
  const std::string what = "program " + quoted(program.name);
  if (!value.is(Kind::Object)) return problems.add(5004, value.where(), what + " is neither the path of a model nor an object with one");
  ObjectReader r(value, what, problems);
  program.model = r.string(r.required("model"), "model");
  if (const Json* dims = r.optional("dims"); dims && !dims->is(Kind::Object)) r.wrong(*dims, "dims", "is no object of names of free extents");
  else if (dims)
    for (const auto& [name, bounds] : dims->members()) {
      ProgramFile::Bound bound{std::string(name.text())};
      if (bounds.is(Kind::Array)) std::tie(bound.lo, bound.hi) = r.pair(&bounds, name.text(), 0, INT64_MAX);
      else bound.lo = bound.hi = r.integer(&bounds, name.text(), 0, INT64_MAX);
      if (bound.lo > bound.hi) r.wrong(bounds, name.text(), "has a least extent above the greatest one");
      program.dims.push_back(std::move(bound));
    }
  r.finish();
}

void read_programs(const Json& programs, PipelineFile& file, Problems& problems) {
  if (!programs.is(Kind::Object) || programs.size() == 0 || programs.size() > kMaxPrograms)
    return problems.add(5004, programs.where(), "'programs' is no object of 1 to " + std::to_string(kMaxPrograms) + " models");
  for (const auto& [key, value] : programs.members()) {
    read_program(key, value, file.programs.emplace_back(), problems);
    if (file.programs.back().model.empty()) problems.add(5004, value.where(), "program " + quoted(key.text()) + " has no path of a model");
  }
}

// All programs of the container have names of their own.
void check_names(const PipelineFile& file, Problems& problems) {
  std::unordered_set<std::string> names;
  for (const ProgramFile& program : file.programs) names.insert(program.name);
  for (const Pipeline& p : file.pipelines)
    for (const Pipeline* each : with_bodies(p))
      for (const Section& section : sections(*each))
        if (section.is_array && !names.insert(section.program).second)
          problems.add(5004, {}, "pipeline " + quoted(p.name) + " needs the name " + quoted(section.program) + " for a program, which another one has");
}

}  // namespace

Result<PipelineFile> parse(std::string_view text, std::string_view file_name) {
  auto document = parse_json(text, file_name, kTextLimits);
  if (!document.ok()) return Status(Code::Usage, 5006, document.status().message);
  const Json& root = document->root();
  Problems problems(file_name);
  if (!root.is(Kind::Object)) {
    problems.add(5006, root.where(), "a pipeline is an object");
    return problems.status();
  }
  PipelineFile file;
  ObjectReader top(root, "the pipeline", problems);
  top.integer(top.required("mlc_pipeline"), "mlc_pipeline", 1, 1);
  if (const Json* programs = top.optional("programs")) read_programs(*programs, file, problems);
  if (const Json* several = top.optional("pipelines")) {
    top.finish();
    if (several->size() == 0 || !several->is(Kind::Object))
      problems.add(5004, several->where(), "'pipelines' is not an object of named pipelines");
    for (const auto& [key, value] : several->members()) {
      const std::string what = "pipeline " + quoted(key.text());
      file.pipelines.push_back({std::string(key.text()), {}, {}, {}, {}, std::string(file_name)});
      ObjectReader one(value, what, problems);
      if (!value.is(Kind::Object)) {
        problems.add(5004, value.where(), what + " is not an object");
        continue;
      }
      build_pipeline(file.pipelines.back(), one, problems);
      one.finish();
    }
  } else {
    file.pipelines.push_back({"default", {}, {}, {}, {}, std::string(file_name)});
    build_pipeline(file.pipelines.back(), top, problems);
    top.finish();
  }
  if (!problems.any()) check_names(file, problems);
  if (problems.any()) return problems.status();
  return file;
}

}  // namespace mlc::pipeline
