#include "packager/passes/segments/state_program.h"

#include <algorithm>

namespace mlc::passes {
namespace {

using nest::Array;
using nest::Function;
using nest::kNoArray;
using nest::Program;
using nest::Step;

Array as_input(Array array) {
  array.kind = Array::Kind::Input;
  array.layout = {};
  array.data = nullptr;
  return array;
}

class StateProgram {
 public:
  StateProgram(Function& function, Parts& parts) : f_(function), parts_(parts), name_(function.name) {}

  void run() {
    Program program;
    program.interface.name = name_;
    Step load = call("load"), body = call("run"), save = call("save");
    body.inputs.assign(f_.inputs.size(), kNoArray);
    for (uint32_t k = 0; k < f_.inputs.size(); ++k) {
      if (has_state(k, &Function::State::input)) continue;
      program.interface.inputs.push_back(static_cast<uint32_t>(program.interface.arrays.size()));
      program.interface.arrays.push_back(as_input(f_.arrays[f_.inputs[k]]));
      body.inputs[k] = add_value(program, f_.inputs[k]);
    }
    for (const Function::State& s : f_.states) load.outputs.push_back(body.inputs[s.input] = add_value(program, f_.inputs[s.input]));
    for (uint32_t k = 0; k < f_.outputs.size(); ++k) {
      body.outputs.push_back(add_value(program, f_.outputs[k]));
      if (has_state(k, &Function::State::output)) continue;
      program.outputs.push_back(body.outputs.back());
      program.output_names.push_back(f_.arrays[f_.outputs[k]].name);
    }
    for (const Function::State& s : f_.states) save.inputs.push_back(body.outputs[s.output]);
    add_segment("load", [&](const Function::State& s) { return f_.inputs[s.input]; }, true);
    add_segment("save", [&](const Function::State& s) { return f_.outputs[s.output]; }, false);
    program.steps.push_back(std::move(load));
    program.steps.push_back(std::move(body));
    program.steps.push_back(std::move(save));
    parts_.programs.push_back(std::make_shared<const Program>(std::move(program)));
    f_.name = name_ + "/run";
    f_.states.clear();
  }

 private:
  bool has_state(uint32_t port, uint32_t Function::State::*side) const {
    return std::any_of(f_.states.begin(), f_.states.end(), [&](const Function::State& s) { return s.*side == port; });
  }

  Step call(const std::string& what) const {
    Step step;
    step.op = StepOp::Call;
    step.functions = {name_ + "/" + what};
    step.source = what == "run" ? name_ : "states of " + name_;
    return step;
  }

  uint32_t add_value(Program& program, uint32_t array) const {
    const Array& a = f_.arrays[array];
    program.values.push_back({a.name, a.dtype, a.list_depth, static_cast<uint32_t>(a.shape.size())});
    return static_cast<uint32_t>(program.values.size() - 1);
  }

  // Of each state one array, which the segment reads (`loads`) or writes.
  template <class ArrayOf>
  void add_segment(const std::string& what, const ArrayOf& array_of, bool loads) {
    auto segment = std::make_unique<Function>();
    segment->name = name_ + "/" + what;
    for (const Function::State& s : f_.states) {
      const auto port = static_cast<uint32_t>(segment->arrays.size());
      segment->arrays.push_back(as_input(f_.arrays[array_of(s)]));
      segment->inputs.push_back(port);
      segment->outputs.push_back(port);
      segment->states.push_back({s.number, loads ? port : kNoArray, loads ? kNoArray : port});
    }
    parts_.segments.push_back(std::move(segment));
  }

  Function& f_;
  Parts& parts_;
  const std::string name_;
};

}  // namespace

void add_state_program(Function& function, Parts& parts) { StateProgram(function, parts).run(); }

}  // namespace mlc::passes
