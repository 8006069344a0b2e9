#include "packager/compile/interface.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace mlc::compile {
namespace {

constexpr size_t kMaxText = 200;  // longer expressions are not readable

bool is_plain_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

// `e` in the grammar of index expressions, if it has a form there, is short enough to be read, and is about `free` alone.
std::optional<std::string> text_of(const ir::Expr* e, const std::unordered_set<const ir::Sym*>& free) {
  std::unordered_map<const ir::Expr*, std::string> text;
  bool expressible = true;
  ir::walk(e, [&](const ir::Expr* node) {
    if (!expressible) return;
    const auto arg = [&](size_t k) { return text.at(node->args[k]); };
    const auto call = [&](const char* name) { return std::string(name) + "(" + arg(0) + ", " + arg(1) + ")"; };
    std::string& out = text[node];
    switch (node->op) {
      case ir::Op::Const: out = node->i < 0 ? "(0 - " + std::to_string(-node->i) + ")" : std::to_string(node->i); break;
      case ir::Op::Sym: out = node->sym->name; expressible = is_plain_name(out) && free.count(node->sym); break;
      case ir::Op::Add: out = "(" + arg(0) + " + " + arg(1) + ")"; break;
      case ir::Op::Sub: out = "(" + arg(0) + " - " + arg(1) + ")"; break;
      case ir::Op::Mul: out = arg(0) + "*" + arg(1); break;
      case ir::Op::FloorDiv: out = call("floordiv"); break;
      case ir::Op::FloorMod: out = call("mod"); break;
      case ir::Op::Min: out = call("min"); break;
      case ir::Op::Max: out = call("max"); break;
      default: expressible = false;
    }
    expressible = expressible && !is_float(node->type.dtype) && out.size() <= kMaxText;
  });
  return expressible ? std::optional(text.at(e)) : std::nullopt;
}

}  // namespace

bool is_state(const nest::Function& function, size_t place, uint32_t nest::Function::State::*side) {
  return std::any_of(function.states.begin(), function.states.end(), [&](const nest::Function::State& s) { return s.*side == place; });
}

format::Method method_of(const nest::Function& function) {
  format::Method method;
  method.name = function.name;
  const auto dim_named = [&](const std::string& name, int64_t min, int64_t max, int64_t multiple) {
    for (uint32_t k = 0; k < method.dims.size(); ++k)
      if (method.dims[k].name == name) return k;
    method.dims.push_back({name, min, max, multiple});
    return static_cast<uint32_t>(method.dims.size() - 1);
  };
  std::unordered_set<const ir::Sym*> free;
  for (uint32_t input : function.inputs)
    for (const ir::Expr* extent : function.arrays[input].shape)
      if (extent->op == ir::Op::Sym) free.insert(extent->sym);
  std::unordered_map<const ir::Expr*, std::string> own;
  const auto ports_of = [&](const std::vector<uint32_t>& arrays) {
    std::vector<format::Port> ports;
    for (uint32_t number : arrays) {
      const nest::Array& array = function.arrays[number];
      format::Port port;
      port.name = array.name;
      port.dtype = array.dtype;
      port.list_depth = array.list_depth;
      for (size_t axis = 0; axis < array.shape.size(); ++axis) {
        const ir::Expr* extent = array.shape[axis];
        if (extent->is_const())
          port.dims.push_back(format::DimRef::constant(extent->i));
        else if (extent->op == ir::Op::Sym && free.count(extent->sym))
          port.dims.push_back(format::DimRef::symbol(dim_named(extent->sym->name, extent->sym->lo, extent->sym->hi, extent->sym->multiple)));
        else if (auto text = text_of(extent, free))
          port.dims.push_back(format::DimRef::expression(*text));
        else
          // One name for one extent, wherever it stands.
          port.dims.push_back(format::DimRef::symbol(dim_named(own.emplace(extent, array.name + "." + std::to_string(axis)).first->second, 0,
                                                               extent->op == ir::Op::Sym ? extent->sym->hi : INT64_MAX, 1)));
      }
      ports.push_back(std::move(port));
    }
    return ports;
  };
  std::vector<uint32_t> inputs, outputs, states;
  for (uint32_t k = 0; k < function.inputs.size(); ++k)
    if (!is_state(function, k, &nest::Function::State::input)) inputs.push_back(function.inputs[k]);
  for (uint32_t k = 0; k < function.outputs.size(); ++k)
    if (!is_state(function, k, &nest::Function::State::output)) outputs.push_back(function.outputs[k]);
  for (const nest::Function::State& s : function.states) states.push_back(function.inputs[s.input]);
  method.inputs = ports_of(inputs);
  method.outputs = ports_of(outputs);
  method.state = ports_of(states);
  return method;
}

}  // namespace mlc::compile
