#include "packager/pipeline/generation.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/problems.h"
#include "packager/pipeline/port_patterns.h"

namespace mlc::pipeline {
namespace {

class Names {
 public:
  Names(const Generate& step, const model::Model& model) : step_(step), model_(model) {
    for (const model::Port& port : model.graph.outputs) outputs_.insert(port.name);
  }

  Result<compile::Generation> run() {
    compile::Generation g;
    g.tokens = step_.tokens, g.logits = step_.logits;
    g.start = step_.start, g.end = step_.end, g.most = step_.most;
    g.again = step_.again, g.mask = step_.mask, g.positions = step_.positions;
    for (const std::string& name : {g.tokens, g.again, g.mask, g.positions})
      if (!name.empty()) take(name);
    if (!outputs_.count(g.logits)) add("has no output '" + g.logits + "'");
    for (const auto& [name, id] : step_.inputs)
      if (name != g.tokens && name != g.mask) take(name);
    g.carry = carried(step_.carry);
    g.once = carried(step_.once);
    for (const model::Port& port : model_.graph.inputs)
      if (!fed_.count(port.name)) add("needs input '" + port.name + "', which is not in 'in', 'carry' or 'once'");
    if (!problems_.ok()) return problems_;
    return g;
  }

 private:
  void add(const std::string& what) {
    constexpr size_t kMost = 50;
    if (problems_.facts.size() < kMost) add_problem(problems_, Status(Code::Usage, 5009, "the model " + what));
  }

  // An input that something feeds; false if something else does, too, or there is none.
  bool take(const std::string& name) {
    const auto& inputs = model_.graph.inputs;
    const auto port = std::find_if(inputs.begin(), inputs.end(), [&](const model::Port& p) { return p.name == name; });
    if (port == inputs.end()) return add("has no input '" + name + "'"), false;
    if (!fed_.insert(name).second) return add("is given '" + name + "' twice"), false;
    if (port->list_depth || port->map_key != DType::None || !port->has_shape) add("takes '" + name + "' as something else than an array of known rank");
    const bool is_number = name == step_.tokens || name == step_.mask || name == step_.positions;
    if (is_number && port->dtype != DType::I64 && port->dtype != DType::I32) add("takes '" + name + "' as " + std::string(name_of(port->dtype)) + ", and i64 or i32 is generated");
    return true;
  }

  std::vector<compile::Generation::Names> carried(const std::vector<std::pair<std::string, std::string>>& patterns) {
    std::vector<compile::Generation::Names> names;
    for (const auto& [input, output] : patterns) {
      bool any = false;
      for (const model::Port& port : model_.graph.inputs) {
        const auto texts = matched(input, port.name);
        if (!texts) continue;
        any = true;
        if (!take(port.name)) continue;
        names.emplace_back(port.name, filled(output, *texts));
        if (!outputs_.count(names.back().second)) add("has no output '" + names.back().second + "', which '" + port.name + "' is carried from");
      }
      if (!any) add("has no input '" + input + "'");
    }
    return names;
  }

  const Generate& step_;
  const model::Model& model_;
  std::set<std::string> outputs_, fed_;
  Status problems_;
};

}  // namespace

Result<compile::Generation> generation_of(const Generate& step, const model::Model& model) { return Names(step, model).run(); }

}  // namespace mlc::pipeline
