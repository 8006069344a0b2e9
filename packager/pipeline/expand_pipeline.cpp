#include "packager/pipeline/expand_pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/problems.h"
#include "packager/nest/text/names.h"
#include "packager/pipeline/generation.h"
#include "packager/pipeline/section_expander.h"

namespace mlc::pipeline {

Result<nest::Function> SectionExpander::run() {
  for (const uint32_t k : section_.steps) {
    step_ = &pipeline_.steps[k];
    const auto* run = std::get_if<Run>(&step_->what);
    const auto* generate = std::get_if<Generate>(&step_->what);
    if (!run && !generate) continue;
    if (auto program = program_of(run ? run->program : generate->program); !program.ok()) return placed(std::move(program).status());
  }
  for (const ValueId id : section_.in) MLC_RETURN_IF_ERROR(add_input(id));
  for (const uint32_t k : section_.steps) {
    step_ = &pipeline_.steps[k];
    Status done = std::visit([&](const auto& what) { return expand(what); }, step_->what);
    if (!done.ok()) return placed(std::move(done));
  }
  for (const ValueId id : section_.out) MLC_RETURN_IF_ERROR(add_output(id));
  if (section_.lengths) MLC_RETURN_IF_ERROR(check_groups());
  for (size_t k = 0; k < section_.out.size(); ++k) {
    const nest::Array& array = function_.arrays[function_.outputs[k]];
    KnownArray& known = known_[section_.out[k]];
    known.dtype = array.dtype;
    for (const ir::Expr* extent : array.shape) known.shape.push_back(extent_of(extent));
    known.classes = classes_of(section_.out[k]);
  }
  nest::interface_names_first(function_);
  return std::move(function_);
}

// A program that runs for groups of rows: each run takes as many rows as it is given, and gives one for each, all of one shape.
Status SectionExpander::check_groups() const {
  const auto tokenize = std::find_if(pipeline_.steps.begin(), pipeline_.steps.end(),
                                     [&](const Step& s) { return std::find(s.out.begin(), s.out.end(), *section_.lengths) != s.out.end(); });
  Status problems;
  const auto refuse = [&](const std::string& why) {
    add_problem(problems, Status(Code::Usage, 5009, place_of(pipeline_, tokenize->where) + "'pad' is to \"longest_of_group\", and " + why + ": pad to \"longest\""));
  };
  if (const auto rows = extent_of(function_.arrays[function_.inputs[0]].shape[0]); rows && *rows != 1)
    refuse("the model takes " + counted(static_cast<uint64_t>(*rows), "row") + ", no more and no fewer");
  for (size_t k = 0; k < section_.out.size(); ++k) {
    const std::vector<const ir::Expr*>& shape = function_.arrays[function_.outputs[k]].shape;
    const bool has_rows = !shape.empty() && std::all_of(shape.begin() + 1, shape.end(), [](const ir::Expr* extent) { return extent_of(extent).has_value(); });
    if (!has_rows) refuse("'" + pipeline_.value(section_.out[k]).name + "' has no row of one shape for each text: its extents depend on the tokens");
  }
  return problems;
}

// Of detections, in this section or before it.
std::optional<int64_t> SectionExpander::classes_of(ValueId id) const {
  if (const auto here = classes_.find(id); here != classes_.end()) return here->second;
  const auto known = known_.find(id);
  return known == known_.end() ? std::nullopt : known->second.classes;
}

// Every problem of the step, with the place of the step.
Status SectionExpander::placed(Status problems) const {
  const std::string place = place_of(pipeline_, step_->where);
  problems.message = place + problems.message;
  if (problems.number == 5009)
    for (std::string& fact : problems.facts) fact = place + fact;
  return problems;
}

lang::Call SectionExpander::call_of(const std::string& name, Attributes attributes, const std::string& domain) const {
  lang::Call call;
  call.domain = domain;
  call.name = name;
  call.opset = domain == "ai.onnx" ? 13 : 1;
  call.attributes = std::move(attributes);
  call.source = "step '" + step_->op + "'";
  return call;
}

// One operator of one result.
Result<lang::Value> SectionExpander::apply(const std::string& name, const lang::Value& in, Attributes attributes, const std::string& domain) {
  lang::Call call = call_of(name, std::move(attributes), domain);
  call.inputs = {in};
  MLC_ASSIGN(const std::vector<lang::Value> out, library_.expand(ctx_, function_, call));
  return out[0];
}

Status SectionExpander::set(Result<lang::Value> out) {
  MLC_ASSIGN(values_[step_->out.at(0)], std::move(out));
  return ok();
}

Result<const model::Model*> SectionExpander::program_of(const std::string& name) const {
  const auto program = programs_.find(name);
  if (program != programs_.end()) return program->second;
  std::string known;
  for (const auto& [each, model] : programs_) known += " " + each;
  return Status(Code::Usage, 5009, "step '" + step_->op + "': there is no program '" + name + "', known here:" + known);
}

Status SectionExpander::expand(const Run& s) {
  MLC_ASSIGN(const model::Model* model, program_of(s.program));
  MLC_ASSIGN(const auto given, given_to(s));
  const std::string scope = function_.name + (++runs_ == 1 ? "" : "/" + std::to_string(runs_));
  std::vector<std::string> wanted;
  for (const auto& [name, id] : s.outputs) wanted.push_back(name);
  MLC_ASSIGN(const auto results, compile::expand_graph(ctx_, library_, *model, function_, scope, given, wanted));
  for (const auto& [name, id] : s.outputs) values_[id] = results.at(name);
  return ok();
}

Status SectionExpander::expand(const Generate& s) {
  MLC_ASSIGN(const model::Model* model, program_of(s.program));
  MLC_ASSIGN(const auto given, given_to(s));
  MLC_ASSIGN(const compile::Generation generation, generation_of(s, *model));
  const std::string label = "generate" + (++runs_ == 1 ? "" : std::to_string(runs_));
  MLC_ASSIGN(const std::optional<compile::Sampling> sampling, sampling_of(s));
  return set(compile::expand_generation(ctx_, library_, *model, function_, label, given, generation, sampling));
}

Result<std::optional<compile::Sampling>> SectionExpander::sampling_of(const Generate& s) const {
  if (!s.sampling) return std::optional<compile::Sampling>();
  compile::Sampling sampling{s.sampling->temperature, s.sampling->top_k, static_cast<int64_t>(std::rint(s.sampling->top_p * (1 << 20))), s.sampling->seed, {}};
  if (s.sampling->has_seed_input) {
    sampling.seed_value = values_.at(step_->in.back());
    const nest::Array& seed = function_.arrays[sampling.seed_value->array];
    const bool is_one = std::all_of(seed.shape.begin(), seed.shape.end(), [](const ir::Expr* extent) { return extent->is_const() && extent->i == 1; });
    if (!is_one || (seed.dtype != DType::I64 && seed.dtype != DType::I32))
      return Status(Code::Usage, 5009, "step 'generate' takes a 'seed' of one i64 or i32, '{}' is something else", pipeline_.value(step_->in.back()).name);
  }
  return std::optional(sampling);
}

namespace {

// What a step on the host gives of arrays that are known: the rows of all items, or a batch of them.
void know_results(const Step& step, ExpandedPipeline& all, const Pipeline& p) {
  Known& known = all.known[&p];
  if (const auto* batch = std::get_if<Batch>(&step.what)) {
    const auto item = known.find(step.in[0]);
    if (item == known.end() || item->second.shape.empty()) return;
    KnownArray array = item->second;
    array.shape[0] = batch->most == 1 ? std::optional<int64_t>(1) : std::nullopt;
    known[step.out[0]] = std::move(array);
  }
  if (const auto* bytes = std::get_if<FileBytes>(&step.what)) known[step.out[0]] = {DType::I32, {bytes->length()}};
  if (const auto* tokenize = std::get_if<Tokenize>(&step.what))
    for (size_t k = 0; k < step.out.size(); ++k) {
      if (tokenize->parts[k] == Tokenize::Part::Texts) known[step.out[k]] = {DType::I64, {std::nullopt}};
      if (tokenize->parts[k] == Tokenize::Part::Offsets) known[step.out[k]] = {DType::I64, {std::nullopt, std::nullopt, 2}};
    }
  if (std::holds_alternative<JoinWindows>(step.what)) {
    const auto rows = known.find(step.in[0]);
    if (rows == known.end() || rows->second.shape.empty()) return;
    KnownArray array = rows->second;
    array.shape[0] = std::nullopt;
    known[step.out[0]] = std::move(array);
  }
  if (std::holds_alternative<TextBoxes>(step.what)) {
    known[step.out[0]] = {DType::F32, {std::nullopt, 4, 2}};
    if (step.out.size() > 1) known[step.out[1]] = {DType::F32, {std::nullopt}};
  }
  if (const auto* each = std::get_if<ForEach>(&step.what))
    for (size_t k = 0; k < step.out.size(); ++k) {
      const auto& inner = all.known[each->body.get()];
      const auto item = inner.find(each->results[k]);
      if (item == inner.end() || item->second.shape.empty()) continue;
      KnownArray array = item->second;
      array.shape[0] = std::nullopt;
      known[step.out[k]] = std::move(array);
    }
}

// What a run gives is what the next one takes. Extents that the run decides are compared there.
Status check_carried(const Pipeline& p, const Known& known) {
  const auto shown = [](const KnownArray& array) {
    std::string text = std::string(name_of(array.dtype)) + "[";
    for (size_t axis = 0; axis < array.shape.size(); ++axis) text += (axis ? "," : "") + (array.shape[axis] ? std::to_string(*array.shape[axis]) : "?");
    return text + "]";
  };
  Status problems;
  for (const Stream::Carried& carried : p.stream->carry) {
    const auto to = known.find(carried.value), from = known.find(carried.from);
    if (to == known.end() || from == known.end()) continue;
    bool fits = to->second.dtype == from->second.dtype && to->second.shape.size() == from->second.shape.size();
    for (size_t axis = 0; fits && axis < to->second.shape.size(); ++axis)
      fits = from->second.shape[axis].value_or(*to->second.shape[axis]) == *to->second.shape[axis];
    if (fits) continue;
    add_problem(problems, Status(Code::Usage, 5009, place_of(p, carried.where) + "the stream carries '" + p.value(carried.value).name + "', which is " +
        shown(to->second) + ", and '" +
                                                        p.value(carried.from).name + "' is " + shown(from->second)));
  }
  return problems;
}

}  // namespace

// Recursion: bodies have none of their own.
Result<ExpandedPipeline> expand_pipeline(ir::Context& ctx, const lang::Library& library, const Models& programs, const Pipeline& pipeline) {
  ExpandedPipeline all;
  for (const Section& section : sections(pipeline)) {
    if (section.is_array) {
      MLC_ASSIGN(nest::Function function, SectionExpander(ctx, library, programs, pipeline, section, all.known[&pipeline]).run());
      all.functions.push_back(std::move(function));
      continue;
    }
    for (const uint32_t k : section.steps) {
      const Step& step = pipeline.steps[k];
      if (const auto* each = std::get_if<ForEach>(&step.what)) {
        MLC_ASSIGN(ExpandedPipeline body, expand_pipeline(ctx, library, programs, *each->body));
        for (nest::Function& function : body.functions) all.functions.push_back(std::move(function));
        all.known.merge(body.known);
      }
      know_results(step, all, pipeline);
    }
  }
  if (pipeline.stream) MLC_RETURN_IF_ERROR(check_carried(pipeline, all.known[&pipeline]));
  return all;
}

}  // namespace mlc::pipeline
