#include "packager/compile/source/states.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/checked.h"
#include "packager/nest/text/print.h"
#include "packager/pipeline/port_patterns.h"

namespace mlc::compile {
namespace {

using nest::Array;
using nest::Function;

constexpr uint32_t kNone = UINT32_MAX;

uint32_t place_of(const Function& f, const std::vector<uint32_t>& ports, const std::string& name) {
  for (uint32_t k = 0; k < ports.size(); ++k)
    if (f.arrays[ports[k]].name == name) return k;
  return kNone;
}

std::string names_of(const Function& f, const std::vector<uint32_t>& ports) {
  constexpr size_t kShown = 12;
  std::string text;
  for (size_t k = 0; k < std::min(ports.size(), kShown); ++k) text += (k ? ", '" : "'") + f.arrays[ports[k]].name + "'";
  return text + (ports.size() > kShown ? ", ..." : "");
}

std::string text_of(const ir::Expr* extent) { return extent->op == ir::Op::Sym ? extent->sym->name : ir::to_string(extent); }

std::string type_of(const Array& array) {
  std::string text = std::string(name_of(array.dtype)) + " [";
  for (size_t k = 0; k < array.shape.size(); ++k) text += (k ? ", " : "") + text_of(array.shape[k]);
  return text + "]";
}

// Whether an array of the one is an array of the other, as far as a state goes.
Status fits(const Function& f, const Array& input, const Array& output) {
  const std::string pair = "--state " + input.name + "=" + output.name + ": ";
  for (const Array* array : {&input, &output})
    if (array->list_depth > 0 || array->dtype == DType::Str) return Status(Code::Usage, pair + "'" + array->name + "' is no array of numbers");
  if (input.dtype != output.dtype || input.shape != output.shape)
    return Status(Code::Usage, pair + "the input is " + type_of(input) + ", the output " + type_of(output) + "; a state has one type and one shape")
        .hint("a cache that grows is carried by a pipeline: \"carry\" of the step 'generate'");
  for (const ir::Expr* extent : input.shape)
    if (!extent->is_const())
      return Status(Code::Usage, pair + "the extent " + text_of(extent) + " is free, and those of a state are fixed").hint("--dim " + text_of(extent) + "=VALUE");
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  std::vector<uint64_t> factors{bytes_of(input.dtype)};
  for (const ir::Expr* extent : input.shape) factors.push_back(static_cast<uint64_t>(extent->i));
  const auto bytes = checked_product(factors);
  if (!bytes || *bytes > kMostBytes) return Status(Code::Usage, pair + type_of(input) + " has more than 1 GiB, which no state may");
  const auto decides = [&](const Function::Element& e) { return &f.arrays[e.input] == &input; };
  if (std::any_of(f.elements.begin(), f.elements.end(), decides)) return Status(Code::Usage, pair + "values of the input decide extents, which are known before a state is");
  return ok();
}

}  // namespace

Status pair_states(std::span<const StatePair> pairs, Function& f) {
  for (const StatePair& pair : pairs) {
    bool any = false;
    for (uint32_t input = 0; input < f.inputs.size(); ++input) {
      const Array& array = f.arrays[f.inputs[input]];
      const auto texts = pipeline::matched(pair.input, array.name);
      if (!texts) continue;
      any = true;
      const std::string wanted = pipeline::filled(pair.output, *texts);
      const uint32_t output = place_of(f, f.outputs, wanted);
      if (output == kNone) return Status(Code::Usage, "--state: the model has no output '" + wanted + "'").fact("it has " + names_of(f, f.outputs));
      const auto same = [&](const Function::State& s) { return s.input == input; };
      if (std::any_of(f.states.begin(), f.states.end(), same)) return Status(Code::Usage, "--state: input '" + array.name + "' is named twice");
      MLC_RETURN_IF_ERROR(fits(f, array, f.arrays[f.outputs[output]]));
      f.states.push_back({static_cast<uint32_t>(f.states.size()), input, output});
    }
    if (!any) return Status(Code::Usage, "--state: the model has no input '" + pair.input + "'").fact("it has " + names_of(f, f.inputs));
  }
  std::set<uint32_t> kept;
  for (const Function::State& s : f.states) kept.insert(s.output);
  if (!f.states.empty() && kept.size() == f.outputs.size()) return Status(Code::Usage, "--state: all outputs are states, and a run would answer nothing");
  return ok();
}

FirstRun::FirstRun(Function& function) : function_(function), inputs_(function.inputs), outputs_(function.outputs) {
  std::set<uint32_t> inputs, outputs;
  for (const Function::State& s : function.states) inputs.insert(s.input), outputs.insert(s.output);
  function.inputs.clear(), function.outputs.clear();
  for (uint32_t k = 0; k < inputs_.size(); ++k) {
    if (!inputs.contains(k)) {
      function.inputs.push_back(inputs_[k]);
      continue;
    }
    Array& array = function.arrays[inputs_[k]];
    uint64_t bytes = bytes_of(array.dtype);
    for (const ir::Expr* extent : array.shape) bytes *= static_cast<uint64_t>(extent->i);
    auto zeros = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    array.kind = Array::Kind::Const;
    array.data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*zeros), zeros});
  }
  for (uint32_t k = 0; k < outputs_.size(); ++k)
    if (!outputs.contains(k)) function.outputs.push_back(outputs_[k]);
}

FirstRun::~FirstRun() {
  for (const Function::State& s : function_.states) {
    Array& array = function_.arrays[inputs_[s.input]];
    array.kind = Array::Kind::Input;
    array.data = nullptr;
  }
  function_.inputs = std::move(inputs_);
  function_.outputs = std::move(outputs_);
}

}  // namespace mlc::compile
