#include "schema/pipeline/pipeline.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace mlc::pipeline {
namespace {

// Values in the order in which they are added, each once.
class ValueList {
 public:
  void add(ValueId id) {
    if (has_.insert(id).second) ids_.push_back(id);
  }
  std::vector<ValueId> take() && { return std::move(ids_); }

 private:
  std::vector<ValueId> ids_;
  std::unordered_set<ValueId> has_;
};

// Where each step runs: even stages are on the host, odd ones are compiled. Those behind `batch` come after all others.
class Stages {
 public:
  explicit Stages(const Pipeline& p) : stage_(p.values.size(), 0), batched_(p.values.size(), false) {
    for (const Step& step : p.steps) {
      size_t stage = 0;
      bool batched = std::holds_alternative<Batch>(step.what);
      for (const ValueId id : step.in) stage = std::max(stage, stage_[id]), batched = batched || batched_[id];
      const bool is_odd = is_array_step(step.what);
      if ((stage % 2 == 1) != is_odd) ++stage;
      for (const ValueId id : step.out) stage_[id] = stage, batched_[id] = batched;
      of_step_.emplace_back(batched, stage);
    }
  }
  // Of each step: whether it works on batches, and its stage.
  const std::vector<std::pair<bool, size_t>>& of_step() const { return of_step_; }

 private:
  std::vector<size_t> stage_;
  std::vector<bool> batched_;
  std::vector<std::pair<bool, size_t>> of_step_;
};

void find_groups(const Pipeline& p, std::vector<Section>& all) {
  std::map<ValueId, ValueId> lengths;  // by what one step makes
  for (const Step& step : p.steps)
    if (const auto* tokenize = std::get_if<Tokenize>(&step.what); tokenize && tokenize->groups)
      for (const ValueId id : step.out) lengths.emplace(id, step.out.back());
  for (Section& section : all)
    for (const ValueId id : section.in)
      if (const auto found = lengths.find(id); section.is_array && found != lengths.end() && p.value(id).is_tokens) section.lengths = found->second;
}

}  // namespace

bool is_decoder(const Op& op) {
  return std::holds_alternative<DecodeImage>(op) || std::holds_alternative<DecodeAudio>(op) || std::holds_alternative<FileBytes>(op) ||
         std::holds_alternative<Tokenize>(op);
}

bool is_array_step(const Op& op) {
  return !is_decoder(op) && !std::holds_alternative<TopK>(op) && !std::holds_alternative<CtcGreedy>(op) && !std::holds_alternative<Detokenize>(op) &&
         !std::holds_alternative<NameBoxes>(op) && !std::holds_alternative<Draw>(op) && !std::holds_alternative<ImageOut>(op) &&
         !std::holds_alternative<WavOut>(op) &&
         !std::holds_alternative<TextBoxes>(op) && !std::holds_alternative<Cut>(op) && !std::holds_alternative<ForEach>(op) &&
         !std::holds_alternative<Batch>(op) && !std::holds_alternative<JoinWindows>(op);
}

bool decode_alike(const Step& a, const Step& b) {
  if (a.what.index() != b.what.index() || a.in != b.in) return false;
  if (const auto* image = std::get_if<DecodeImage>(&a.what)) return *image == std::get<DecodeImage>(b.what);
  const auto* audio = std::get_if<DecodeAudio>(&a.what);
  return audio && *audio == std::get<DecodeAudio>(b.what);
}

std::vector<Section> sections(const Pipeline& p) {
  constexpr uint32_t kNone = UINT32_MAX;
  const Stages stages(p);
  std::map<std::pair<bool, size_t>, uint32_t> numbers;
  for (const auto& key : stages.of_step()) numbers.emplace(key, kNone);
  std::vector<Section> all;
  size_t programs = 0;
  for (auto& [key, number] : numbers) {
    number = static_cast<uint32_t>(all.size());
    Section& section = all.emplace_back();
    section.is_batched = key.first;
    section.is_array = key.second % 2 == 1;
    if (section.is_array && ++programs) section.program = p.name + (programs == 1 ? "" : "." + std::to_string(programs));
  }
  std::vector<uint32_t> made_in(p.values.size(), kNone);
  for (uint32_t k = 0; k < p.steps.size(); ++k) {
    const uint32_t number = numbers.at(stages.of_step()[k]);
    all[number].steps.push_back(k);
    for (const ValueId id : p.steps[k].out) made_in[id] = number;
  }
  std::vector<ValueList> in(all.size()), out(all.size());
  const auto read = [&](ValueId id, uint32_t by) {
    if (made_in[id] == by) return;
    if (by != kNone) in[by].add(id);
    if (made_in[id] != kNone) out[made_in[id]].add(id);
  };
  for (uint32_t by = 0; by < all.size(); ++by)
    for (const uint32_t k : all[by].steps)
      for (const ValueId id : p.steps[k].in) read(id, by);
  for (const ValueId id : p.outputs) read(id, kNone);
  if (p.stream)
    for (const Stream::Carried& carried : p.stream->carry) read(carried.from, kNone);
  for (size_t k = 0; k < all.size(); ++k) all[k].in = std::move(in[k]).take(), all[k].out = std::move(out[k]).take();
  find_groups(p, all);
  return all;
}

std::vector<std::string> programs_of(const Pipeline& p, const Section& section) {
  std::vector<std::string> names;
  for (const uint32_t k : section.steps) {
    const auto* run = std::get_if<Run>(&p.steps[k].what);
    const auto* generate = std::get_if<Generate>(&p.steps[k].what);
    if (!run && !generate) continue;
    const std::string& name = run ? run->program : generate->program;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<const Pipeline*> with_bodies(const Pipeline& p) {
  std::vector<const Pipeline*> all{&p};
  for (size_t next = 0; next < all.size(); ++next)
    for (const Step& step : all[next]->steps)
      if (const auto* each = std::get_if<ForEach>(&step.what)) all.push_back(each->body.get());
  return all;
}

std::vector<std::string> assets(const Pipeline& p) {
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Pipeline* each : with_bodies(p))
    for (const Step& s : each->steps) add(asset_of(s));
  return names;
}

std::string asset_of(const Step& step) {
  if (auto* t = std::get_if<TopK>(&step.what)) return t->labels;
  if (auto* b = std::get_if<NameBoxes>(&step.what)) return b->labels;
  if (auto* c = std::get_if<CtcGreedy>(&step.what)) return c->charset;
  if (auto* t = std::get_if<Tokenize>(&step.what)) return t->tokenizer;
  if (auto* d = std::get_if<Detokenize>(&step.what)) return d->tokenizer;
  return {};
}

bool wants_tokenizer(const Step& step) {
  return std::holds_alternative<Tokenize>(step.what) || std::holds_alternative<Detokenize>(step.what);
}

std::string place_of(const Pipeline& p, Position where) {
  return p.file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": ";
}

}  // namespace mlc::pipeline
