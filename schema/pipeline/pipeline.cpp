#include "schema/pipeline/pipeline.h"

#include <algorithm>

namespace mlc::pipeline {
namespace {

// Values in the order in which they are added, each once.
class ValueList {
 public:
  explicit ValueList(const Pipeline& p) : has_(p.values.size(), false) {}
  void add(ValueId id) {
    if (!has_[id]) ids_.push_back(id);
    has_[id] = true;
  }
  std::vector<ValueId> take() && { return std::move(ids_); }

 private:
  std::vector<ValueId> ids_;
  std::vector<bool> has_;
};

// The stage whose step makes each value; inputs count as made before.
std::vector<Stage> origins(const Pipeline& p) {
  std::vector<Stage> made(p.values.size(), Stage::Before);
  for (const Step& s : p.steps)
    for (ValueId id : s.out) made[id] = stage_of(s.what);
  return made;
}

}  // namespace

Stage stage_of(const Op& op) {
  if (std::holds_alternative<DecodeImage>(op) || std::holds_alternative<DecodeAudio>(op) || std::holds_alternative<Tokenize>(op)) return Stage::Before;
  if (std::holds_alternative<TopK>(op) || std::holds_alternative<CtcGreedy>(op) || std::holds_alternative<Detokenize>(op)) return Stage::After;
  return Stage::Array;
}

bool decode_alike(const Step& a, const Step& b) {
  if (a.what.index() != b.what.index() || a.in != b.in) return false;
  if (const auto* image = std::get_if<DecodeImage>(&a.what)) return *image == std::get<DecodeImage>(b.what);
  const auto* audio = std::get_if<DecodeAudio>(&a.what);
  return audio && *audio == std::get<DecodeAudio>(b.what);
}

std::vector<ValueId> array_inputs(const Pipeline& p) {
  auto made = origins(p);
  ValueList ids(p);
  for (const Step& s : p.steps)
    if (stage_of(s.what) == Stage::Array)
      for (ValueId id : s.in)
        if (made[id] == Stage::Before) ids.add(id);
  return std::move(ids).take();
}

std::vector<ValueId> array_outputs(const Pipeline& p) {
  auto made = origins(p);
  ValueList ids(p);
  for (const Step& s : p.steps)
    if (stage_of(s.what) == Stage::After)
      for (ValueId id : s.in)
        if (made[id] == Stage::Array) ids.add(id);
  for (ValueId id : p.outputs)
    if (made[id] == Stage::Array) ids.add(id);
  return std::move(ids).take();
}

std::vector<std::string> assets(const Pipeline& p) {
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Step& s : p.steps) add(asset_of(s));
  return names;
}

std::string asset_of(const Step& step) {
  if (auto* t = std::get_if<TopK>(&step.what)) return t->labels;
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
