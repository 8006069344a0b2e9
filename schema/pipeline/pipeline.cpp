#include "schema/pipeline/pipeline.h"

#include <algorithm>

namespace mlc::pipeline {
namespace {

void add_once(std::vector<ValueId>& ids, ValueId id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

// The stage whose step makes each value; inputs count as made before.
std::vector<Stage> origins(const Pipeline& p) {
  std::vector<Stage> made(p.values.size(), Stage::Before);
  for (const Step& s : p.steps)
    for (ValueId id : s.out) made[id] = stage_of(s.what);
  return made;
}

}  // namespace

Stage stage_of(const Op& op) {
  if (std::holds_alternative<DecodeImage>(op) || std::holds_alternative<DecodeAudio>(op)) return Stage::Before;
  if (std::holds_alternative<TopK>(op) || std::holds_alternative<CtcGreedy>(op)) return Stage::After;
  return Stage::Array;
}

std::vector<ValueId> array_inputs(const Pipeline& p) {
  auto made = origins(p);
  std::vector<ValueId> ids;
  for (const Step& s : p.steps)
    if (stage_of(s.what) == Stage::Array)
      for (ValueId id : s.in)
        if (made[id] == Stage::Before) add_once(ids, id);
  return ids;
}

std::vector<ValueId> array_outputs(const Pipeline& p) {
  auto made = origins(p);
  std::vector<ValueId> ids;
  for (const Step& s : p.steps)
    if (stage_of(s.what) == Stage::After)
      for (ValueId id : s.in)
        if (made[id] == Stage::Array) add_once(ids, id);
  for (ValueId id : p.outputs)
    if (made[id] == Stage::Array) add_once(ids, id);
  return ids;
}

std::vector<std::string> assets(const Pipeline& p) {
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Step& s : p.steps) {
    if (auto* t = std::get_if<TopK>(&s.what)) add(t->labels);
    if (auto* c = std::get_if<CtcGreedy>(&s.what)) add(c->charset);
  }
  return names;
}

}  // namespace mlc::pipeline
