#include "runtime/ensemble/composed_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/compose.h"
#include "runtime/ensemble/joined.h"

namespace mlc::ensemble {
namespace {

using exec::Function;
using exec::Port;

bool same_ports(const std::vector<Port>& a, const std::vector<Port>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Port& x, const Port& y) {
    return x.name == y.name && x.dtype == y.dtype && x.list_depth == y.list_depth && x.axes() == y.axes();
  });
}

bool same_interface(const Function& a, const Function& b) { return same_ports(a.inputs, b.inputs) && same_ports(a.outputs, b.outputs); }

// Whether each value has as many axes where it is taken as where it is made. A run looks at arrays; joining segments has none.
bool has_ranks(const exec::Plan& plan, const Function& program) {
  std::vector<size_t> axes(program.num_values, 0);
  for (size_t i = 0; i < program.inputs.size(); ++i) axes[i] = program.inputs[i].axes();
  for (const exec::Step& step : program.steps) {
    const Function& f = plan.functions[step.functions[0]];
    for (size_t k = 0; k < step.inputs.size(); ++k)
      if (axes[step.inputs[k]] != f.inputs[k].axes()) return false;
    for (size_t k = 0; k < step.outputs.size(); ++k)
      if (step.outputs[k] != exec::kNoValue) axes[step.outputs[k]] = f.outputs[k].axes();
  }
  return std::all_of(program.outputs.begin(), program.outputs.end(), [&](const Port& p) { return axes[p.value] == p.axes(); });
}

}  // namespace

std::optional<uint32_t> cut_of(const exec::Plan& plan, uint32_t function) {
  const Function& whole = plan.functions[function];
  const auto cut = whole.is_program() ? std::nullopt : plan.find(whole.name + ".*");
  if (!cut || !plan.functions[*cut].is_program() || !same_interface(whole, plan.functions[*cut])) return std::nullopt;
  std::vector<bool> called(plan.functions.size(), false);
  for (const exec::Step& step : plan.functions[*cut].steps) {
    if (step.op != StepOp::Call) return std::nullopt;
    const uint32_t callee = step.functions[0];
    if (plan.functions[callee].is_program() || called[callee]) return std::nullopt;
    called[callee] = true;
  }
  if (!has_ranks(plan, plan.functions[*cut])) return std::nullopt;
  return cut;
}

namespace {

class Composer {
 public:
  Composer(std::vector<exec::Plan> plans, std::vector<uint32_t> place) {
    out_.plans = std::move(plans);
    out_.front = out_.plans.front();
    out_.place = std::move(place);
  }

  Status add(const Staged& staged) {
    const auto cut = cut_of(out_.plans.front(), staged.function);
    if (!cut || staged.stages.size() < 2) return Status(Code::Internal, "no stages of '{}'", out_.front.functions[staged.function].name);
    Function program = out_.plans.front().functions[*cut];
    program.name = out_.front.functions[staged.function].name;
    program.steps.clear();
    for (const Stage& stage : staged.stages) MLC_RETURN_IF_ERROR(add_stage(*cut, stage, program));
    renumber_values(program);
    out_.front.functions[staged.function] = std::move(program);
    return ok();
  }

  Result<Composition> finish() {
    MLC_RETURN_IF_ERROR(exec::check_programs(out_.front));
    return std::move(out_);
  }

 private:
  // Values that stay inside of a stage are none of the program.
  static void renumber_values(Function& program) {
    std::map<uint32_t, uint32_t> number{{exec::kNoValue, exec::kNoValue}};
    for (uint32_t i = 0; i < program.inputs.size(); ++i) number.emplace(i, i);
    for (exec::Step& step : program.steps) {
      for (uint32_t& v : step.inputs) v = number.at(v);
      for (uint32_t& v : step.outputs) v = number.emplace(v, static_cast<uint32_t>(number.size() - 1)).first->second;
    }
    for (Port& p : program.outputs) p.value = number.at(p.value);
    program.num_values = static_cast<uint32_t>(number.size() - 1);
  }

  Status add_stage(uint32_t cut, const Stage& stage, Function& program) {
    const Function& steps = out_.plans.front().functions[cut];
    const exec::Step& first = steps.steps[stage.first];
    if (stage.end == stage.first + 1) {
      out_.place[first.functions[0]] = stage.part;
      program.steps.push_back(first);
      return ok();
    }
    exec::Step step;
    step.op = StepOp::Call;
    step.functions = {static_cast<uint32_t>(out_.place.size())};
    const std::string& begin = out_.front.functions[first.functions[0]].name;
    const std::string name = mlc::compose("{} to {}", begin, out_.front.functions[steps.steps[stage.end - 1].functions[0]].name);
    for (exec::Plan& plan : out_.plans) {
      // By its own program: what it calls lies behind it, and is there.
      MLC_ASSIGN(Joined made, joined(plan, plan.functions[cut], stage.first, stage.end, name));
      if (&plan == &out_.plans.front()) {
        step.inputs = made.inputs, step.outputs = made.outputs;
        out_.front.functions.push_back(made.function);
      } else if (step.inputs != made.inputs || step.outputs != made.outputs) {
        return Status(Code::Malformed, "'{}' passes other values in another variant", name);
      }
      plan.functions.push_back(std::move(made.function));
    }
    out_.place.push_back(stage.part);
    program.steps.push_back(std::move(step));
    return ok();
  }

  Composition out_;
};

}  // namespace

Result<Composition> compose_plan(std::vector<exec::Plan> plans, const std::vector<Staged>& staged, std::vector<uint32_t> place) {
  Composer composer(std::move(plans), std::move(place));
  for (const Staged& s : staged) MLC_RETURN_IF_ERROR(composer.add(s));
  return composer.finish();
}

Status have_same_functions(const exec::Plan& a, const exec::Plan& b) {
  if (a.functions.size() != b.functions.size() || a.num_states != b.num_states || a.derive != b.derive)
    return Status(Code::Malformed, "the variants have {} and {} functions, or other states", a.functions.size(), b.functions.size());
  const auto same_steps = [](const Function& x, const Function& y) {
    return x.num_values == y.num_values && std::equal(x.steps.begin(), x.steps.end(), y.steps.begin(), y.steps.end(), [](const exec::Step& s, const exec::Step& t) {
      return s.op == t.op && s.functions == t.functions && s.inputs == t.inputs && s.outputs == t.outputs;
    });
  };
  for (size_t f = 0; f < a.functions.size(); ++f) {
    const Function &x = a.functions[f], &y = b.functions[f];
    if (x.name != y.name || !same_interface(x, y) || !same_steps(x, y))
      return Status(Code::Malformed, "'{}' has another name, other ports or other steps in another variant", x.name);
  }
  return ok();
}

}  // namespace mlc::ensemble
