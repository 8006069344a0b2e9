#include "runtime/pipeline/pipeline_run.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/pipeline/page/cut_pictures.h"
#include "runtime/pipeline/host_steps.h"
#include "runtime/pipeline/page/text_boxes.h"

namespace mlc::pipeline {
namespace {

Result<HostTensor> view_of(const HostTensor& t) {
  return HostTensor::view(t.dtype, t.shape, const_cast<std::byte*>(t.data.data()), t.data.size());
}

}  // namespace

Status PipelineRun::set(std::vector<NamedTensor> made) {
  std::unordered_map<std::string_view, ValueId> ids;
  for (ValueId id = 0; id < p_.values.size(); ++id) ids.emplace(p_.values[id].name, id);
  for (NamedTensor& t : made)
    if (const auto found = ids.find(t.name); found != ids.end()) values_[found->second] = std::move(t.tensor);
  return ok();
}

Status PipelineRun::all_sections() {
  const std::vector<Section> all = sections(p_);
  const auto runs_programs = [&](const Section& s) {
    return s.is_array || std::any_of(s.steps.begin(), s.steps.end(), [&](uint32_t k) { return std::holds_alternative<ForEach>(p_.steps[k].what); });
  };
  size_t last = 0;
  for (size_t k = 0; k < all.size(); ++k)
    if (runs_programs(all[k])) last = k;
  for (size_t k = 0; k < all.size(); ++k) MLC_RETURN_IF_ERROR(section(all[k], k < last));
  return ok();
}

Status PipelineRun::section(const Section& section, bool keeps) {
  if (section.is_array) return run_program(section, keeps);
  for (const uint32_t k : section.steps)
    if (const Step& step = p_.steps[k]; !is_decoder(step.what)) MLC_RETURN_IF_ERROR(run_step(step));
  return ok();
}

Result<const HostTensor*> PipelineRun::tensor(ValueId id) const {
  if (const auto* t = std::get_if<HostTensor>(&values_[id])) return t;
  return Status(Code::Internal, "no step has made '{}'", p_.value(id).name);
}

Status PipelineRun::run_program(const Section& section, bool keeps) {
  if (section.lengths) {
    MLC_ASSIGN(const HostTensor* lengths, tensor(*section.lengths));
    MLC_ASSIGN(const RowRuns runs, context_.programs.row_runs(section.program, p_.value(section.in[0]).name));
    const std::vector<RowGroup> groups = row_groups(lengths->as<int64_t>(), runs);
    if (groups.size() > 1) return run_groups(section, groups);
  }
  std::vector<NamedTensor> inputs;
  for (const ValueId id : section.in) {
    MLC_ASSIGN(const HostTensor* from, tensor(id));
    MLC_ASSIGN(HostTensor view, view_of(*from));
    inputs.push_back({p_.value(id).name, std::move(view)});
  }
  MLC_ASSIGN(std::vector<NamedTensor> results, context_.programs.run(section.program, inputs));
  std::unordered_map<std::string_view, HostTensor*> by_name;
  for (NamedTensor& t : results) by_name.emplace(t.name, &t.tensor);
  for (const ValueId id : section.out) {
    const std::string& name = p_.value(id).name;
    const auto found = by_name.find(name);
    if (found == by_name.end()) return Status(Code::Internal, "program '{}' gave no '{}'", section.program, name);
    if (!keeps) {
      values_[id] = std::move(*found->second);
      continue;
    }
    MLC_RETURN_IF_ERROR(context_.budget.take(found->second->data.size(), name));
    paid_[id] = found->second->data.size();
    MLC_ASSIGN(values_[id], found->second->clone());
  }
  return ok();
}

Status PipelineRun::run_groups(const Section& section, const std::vector<RowGroup>& groups) {
  const auto makes = [&](const Step& step) { return std::find(step.out.begin(), step.out.end(), *section.lengths) != step.out.end(); };
  const bool padded_left = std::get<Tokenize>(std::find_if(p_.steps.begin(), p_.steps.end(), makes)->what).pad_left;
  int64_t count = 0;
  for (const RowGroup& group : groups) count += static_cast<int64_t>(group.rows.size());
  for (const RowGroup& group : groups) {
    std::vector<NamedTensor> inputs;
    for (const ValueId id : section.in) {
      MLC_ASSIGN(const HostTensor* from, tensor(id));
      MLC_ASSIGN(HostTensor rows, rows_of(*from, group, padded_left));
      inputs.push_back({p_.value(id).name, std::move(rows)});
    }
    MLC_ASSIGN(const std::vector<NamedTensor> results, context_.programs.run(section.program, inputs));
    MLC_RETURN_IF_ERROR(add_group(section, group, results, count));
  }
  return ok();
}

Status PipelineRun::add_group(const Section& section, const RowGroup& group, const std::vector<NamedTensor>& results, int64_t count) {
  for (const ValueId id : section.out) {
    const std::string& name = p_.value(id).name;
    const auto found = std::find_if(results.begin(), results.end(), [&](const NamedTensor& t) { return t.name == name; });
    if (found == results.end()) return Status(Code::Internal, "program '{}' gave no '{}'", section.program, name);
    const HostTensor& rows = found->tensor;
    if (rows.shape.empty() || static_cast<uint64_t>(rows.shape[0]) != group.rows.size() || rows.dtype == DType::Str)
      return Status(Code::InputMismatch, 4001, "'{}' is {}, and {} texts give {} rows", name, type_text(rows.dtype, rows.shape), group.rows.size(), group.rows.size());
    if (!std::holds_alternative<HostTensor>(values_[id])) {
      std::vector<int64_t> shape = rows.shape;
      shape[0] = count;
      MLC_ASSIGN(const uint64_t bytes, tensor_size(rows.dtype, shape));
      MLC_RETURN_IF_ERROR(context_.budget.take(bytes, name));
      paid_[id] = bytes;
      MLC_ASSIGN(values_[id], HostTensor::zeros(rows.dtype, std::move(shape)));
    }
    HostTensor& all = std::get<HostTensor>(values_[id]);
    if (all.dtype != rows.dtype || !std::equal(all.shape.begin() + 1, all.shape.end(), rows.shape.begin() + 1, rows.shape.end()))
      return Status(Code::InputMismatch, 4001, "'{}' is {} for some texts and {} for others; rows of all texts have one shape", name,
                    type_text(all.dtype, all.shape), type_text(rows.dtype, rows.shape));
    const size_t each = rows.data.size() / group.rows.size();
    for (size_t k = 0; k < group.rows.size(); ++k) std::copy_n(rows.data.data() + k * each, each, all.data.data() + group.rows[k] * each);
  }
  return ok();
}

const std::vector<std::string>& PipelineRun::lines(const std::string& name) const {
  static const std::vector<std::string> none;
  const auto found = context_.assets.lines.find(name);
  return found == context_.assets.lines.end() ? none : found->second;
}

Status PipelineRun::run_step(const Step& step) {
  if (const auto* each = std::get_if<ForEach>(&step.what)) {
    std::vector<Tensors> lists;
    for (const ValueId id : step.in) {
      auto* list = std::get_if<Tensors>(&values_[id]);
      if (!list) return Status(Code::Internal, "no step has made '{}'", p_.value(id).name);
      Tensors& items = lists.emplace_back();
      for (const HostTensor& item : *list) {
        MLC_ASSIGN(HostTensor view, view_of(item));
        items.push_back(std::move(view));
      }
    }
    auto results = run_for_each(*each, lists, context_);
    if (!results) return std::move(results).status().note("step 'for_each'");
    for (size_t k = 0; k < step.out.size(); ++k) values_[step.out[k]] = std::move((*results)[k]);
    return ok();
  }
  RunValue& out = values_[step.out[0]];
  MLC_ASSIGN(const HostTensor* in, tensor(step.in[0]));
  if (const auto* best = std::get_if<TopK>(&step.what)) {
    TopK wanted = *best;
    if (context_.top) wanted.k = *context_.top;
    MLC_ASSIGN(out, top_k(wanted, *in, lines(wanted.labels), context_.budget));
  } else if (const auto* ctc = std::get_if<CtcGreedy>(&step.what)) {
    MLC_ASSIGN(out, ctc_greedy(*ctc, *in, lines(ctc->charset), context_.budget));
  } else if (const auto* parts = std::get_if<Cut>(&step.what)) {
    MLC_ASSIGN(const HostTensor* where, tensor(step.in[1]));
    if (parts->has_corners) {
      MLC_ASSIGN(out, cut_pictures(*in, *where, parts->upright, context_.budget));
    } else {
      MLC_ASSIGN(out, cut(*in, *where, context_.budget));
    }
  } else if (const auto* boxes = std::get_if<TextBoxes>(&step.what)) {
    return find_text(step, *boxes, *in);
  } else if (const auto* windows = std::get_if<JoinWindows>(&step.what)) {
    MLC_ASSIGN(const HostTensor* texts, tensor(step.in[1]));
    MLC_ASSIGN(out, join_windows(*windows, *in, *texts, context_.budget));
  } else if (const auto* ids = std::get_if<Detokenize>(&step.what)) {
    MLC_ASSIGN(out, detokenize(*ids, context_.assets.tokenizers.at(ids->tokenizer), *in, context_.budget));
  } else if (const auto* names = std::get_if<NameBoxes>(&step.what)) {
    MLC_ASSIGN(out, name_boxes(*names, *in, lines(names->labels), context_.budget));
  } else if (std::holds_alternative<Draw>(step.what)) {
    const auto* boxes = std::get_if<FoundBoxes>(&values_[step.in[1]]);
    if (!boxes) return Status(Code::Internal, "no step has made '{}'", p_.value(step.in[1]).name);
    MLC_ASSIGN(out, draw(*in, *boxes, context_.budget));
  } else if (std::holds_alternative<ImageOut>(step.what)) {
    MLC_ASSIGN(out, image_out(*in, context_.budget));
  } else if (const auto* file = std::get_if<WavOut>(&step.what)) {
    MLC_ASSIGN(out, wav_out(*file, *in, context_.budget));
  } else {
    return Status(Code::Internal, "step '{}' is not one of the host", step.op);
  }
  return ok();
}

Status PipelineRun::find_text(const Step& step, const TextBoxes& what, const HostTensor& map) {
  // What a program gives is a picture as far as the pipeline says, and a file may say what is not so.
  const auto size = [](const HostTensor& picture) -> Result<Size> {
    if (picture.shape.size() == 3) return Size{picture.shape[0], picture.shape[1]};
    return Status(Code::InputMismatch, 4001, "step 'text_boxes' takes the size of a picture [h, w, c], found {}", type_text(picture.dtype, picture.shape));
  };
  MLC_ASSIGN(const HostTensor* picture, tensor(step.in[1]));
  MLC_ASSIGN(const Size whole, size(*picture));
  Size covered;
  if (step.in.size() > 2) {
    MLC_ASSIGN(const HostTensor* resized, tensor(step.in[2]));
    MLC_ASSIGN(covered, size(*resized));
  } else if (map.shape.size() >= 2) {
    covered = {map.shape[map.shape.size() - 2], map.shape.back()};
  }
  MLC_ASSIGN(FoundCorners found, text_boxes(what, map, covered, whole, context_.budget));
  values_[step.out[0]] = std::move(found.corners);
  if (step.out.size() > 1) values_[step.out[1]] = std::move(found.scores);
  return ok();
}

Result<RunValue> PipelineRun::take(ValueId id, uint64_t* paid) {
  if (std::holds_alternative<std::monostate>(values_[id])) return Status(Code::Internal, "no step has made '{}'", p_.value(id).name);
  if (paid) *paid += paid_[id];
  paid_[id] = 0;
  return std::move(values_[id]);
}

Result<Answer> PipelineRun::take_answer(ValueId id) {
  MLC_ASSIGN(RunValue value, take(id));
  Answer answer{p_.value(id).name, {}};
  if (auto* t = std::get_if<HostTensor>(&value)) answer.value = std::move(*t);
  else if (auto* classes = std::get_if<Classes>(&value)) answer.value = std::move(*classes);
  else if (auto* text = std::get_if<Text>(&value)) answer.value = std::move(*text);
  else if (auto* boxes = std::get_if<FoundBoxes>(&value)) answer.value = std::move(*boxes);
  else if (auto* image = std::get_if<ImageFile>(&value)) answer.value = std::move(*image);
  else if (auto* sound = std::get_if<SoundFile>(&value)) answer.value = std::move(*sound);
  else return Status(Code::Internal, "'{}' is a list, which is no answer", answer.name);
  return answer;
}

}  // namespace mlc::pipeline
