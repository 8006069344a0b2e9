#include "packager/compile/source/dims.h"

#include <algorithm>
#include <set>
#include <variant>

#include "base/counted.h"
#include "base/text/nearest_name.h"
#include "packager/compile/expand.h"
#include "packager/model/verify.h"

namespace mlc::compile {

namespace {

// The free axes of all inputs, by name.
template <class Model, class Visit>
void each_free(Model& model, const Visit& visit) {
  for (auto& port : model.graph.inputs)
    for (size_t axis = 0; axis < port.shape.size(); ++axis)
      if (std::holds_alternative<std::string>(port.shape[axis])) visit(free_axis_name(port, axis), port.shape[axis]);
}

}  // namespace

bool has_free_extent(const model::Model& model, const std::string& wanted) {
  bool found = false;
  each_free(model, [&](const std::string& name, const model::Axis&) { found = found || name == wanted; });
  return found;
}

void rename_free_extent(model::Model& model, const std::string& from, const std::string& to) {
  each_free(model, [&](const std::string& name, model::Axis& axis) {
    if (name == from) axis = to;
  });
}

Status apply_bounds(ir::Context& ctx, const std::vector<DimBound>& bounds, model::Model& model) {
  std::set<std::string> free;
  each_free(model, [&](const std::string& name, model::Axis&) { free.insert(name); });
  for (const DimBound& bound : bounds) {
    if (!free.count(bound.name)) {
      std::string known;
      for (const std::string& name : free) known += (known.empty() ? "it has '" : ", '") + name + "'";
      return Status(Code::Usage, "--dim: the model has no free extent '" + bound.name + "'").fact(known.empty() ? "all of its extents are fixed" : known);
    }
    if (bound.lo < bound.hi) {
      ctx.declare_sym(bound.name, bound.lo, bound.hi);
      continue;
    }
    each_free(model, [&](const std::string& name, model::Axis& axis) {
      if (name == bound.name) axis = bound.lo;
    });
  }
  return ok();
}

namespace {

// "[N, 3]"
std::string shown(const std::vector<model::Axis>& shape) {
  std::string text = "[";
  for (const model::Axis& axis : shape) {
    const int64_t* extent = std::get_if<int64_t>(&axis);
    text += (text.size() > 1 ? ", " : "") + (extent ? std::to_string(*extent) : std::get<std::string>(axis));
  }
  return text + "]";
}

Status unknown(const std::string& what, const std::string& name, const std::vector<std::string>& known) {
  Status status(Code::Usage, what + " '" + name + "'");
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string_view near = nearest_name(name, names);
  return near.empty() ? status : std::move(status).hint("did you mean '" + std::string(near) + "'?");
}

}  // namespace

Status apply_shapes(const std::vector<GivenShape>& shapes, model::Model& model) {
  for (const GivenShape& given : shapes) {
    std::vector<std::string> names;
    for (const model::Port& port : model.graph.inputs) names.push_back(port.name);
    const auto at = std::find(names.begin(), names.end(), given.name);
    if (at == names.end()) return unknown("--shape: the model has no input", given.name, names);
    model::Port& port = model.graph.inputs[static_cast<size_t>(at - names.begin())];
    if (port.list_depth || port.map_key != DType::None) return Status(Code::Usage, "--shape: input '" + port.name + "' is no tensor");
    bool fits = !port.has_shape || port.shape.size() == given.shape.size();
    for (size_t axis = 0; fits && axis < port.shape.size(); ++axis)
      fits = !std::holds_alternative<int64_t>(port.shape[axis]) || port.shape[axis] == given.shape[axis];
    if (!fits) return Status(Code::Usage, "--shape: input '" + port.name + "' has the shape " + shown(port.shape) + ", which " + shown(given.shape) + " does not fit");
    port.shape = given.shape;
    port.has_shape = true;
  }
  return ok();
}

Status apply_feeds(const std::vector<std::string>& names, model::Model& model) {
  model::Graph& graph = model.graph;
  for (const std::string& name : names) {
    if (std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const model::Port& port) { return port.name == name; }))
      return Status(Code::Usage, "--feed: '" + name + "' is an input that has to be fed anyway");
    const auto value = graph.initializers.find(name);
    if (value == graph.initializers.end()) {
      std::vector<std::string> known;
      for (const auto& [each, tensor] : graph.initializers) known.push_back(each);
      return unknown("--feed: the model has no initializer", name, known);
    }
    const auto declared = std::find_if(graph.defaults.begin(), graph.defaults.end(), [&](const model::Port& port) { return port.name == name; });
    model::Port port;
    if (declared != graph.defaults.end()) {
      port = *declared;
      graph.defaults.erase(declared);
    } else {
      port.name = name;
      port.has_shape = false;
      graph.order.push_back(name);
    }
    if (!port.has_shape) port.shape.assign(value->second.shape.begin(), value->second.shape.end());
    port.has_shape = true;
    port.dtype = value->second.dtype;
    graph.initializers.erase(value);
    graph.inputs.push_back(std::move(port));
  }
  const auto place = [&](const model::Port& port) { return std::find(graph.order.begin(), graph.order.end(), port.name); };
  if (!names.empty())
    std::stable_sort(graph.inputs.begin(), graph.inputs.end(), [&](const model::Port& a, const model::Port& b) { return place(a) < place(b); });
  return ok();
}

Status apply(ir::Context& ctx, const InterfaceChoices& choices, model::Model& model) {
  MLC_RETURN_IF_ERROR(apply_feeds(choices.fed, model));
  if (!choices.fed.empty()) MLC_RETURN_IF_ERROR(model::verify(model));  // names of inputs have to be better than those of constants
  MLC_RETURN_IF_ERROR(apply_shapes(choices.shapes, model));
  return apply_bounds(ctx, choices.dims, model);
}

std::string defaults_remark(const model::Model& model) {
  constexpr size_t kShown = 4;
  const std::vector<model::Port>& defaults = model.graph.defaults;
  if (defaults.empty() || model.ir_version < 4) return {};
  std::string names;
  for (size_t k = 0; k < defaults.size() && k < kShown; ++k) names += (k ? ", '" : "'") + defaults[k].name + "'";
  if (defaults.size() > kShown) names += " and " + std::to_string(defaults.size() - kShown) + " more";
  return counted(defaults.size(), "input has a default and is a constant", "inputs have defaults and are constants") + ": " + names +
         "; --feed NAME makes one an input";
}

}  // namespace mlc::compile
