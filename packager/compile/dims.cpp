#include "packager/compile/dims.h"

#include <set>
#include <variant>

#include "packager/compile/expand.h"

namespace mlc::compile {

Status apply_bounds(ir::Context& ctx, const std::vector<DimBound>& bounds, model::Model& model) {
  std::set<std::string> free;
  const auto each_free = [&](const auto& visit) {
    for (model::Port& port : model.graph.inputs)
      for (size_t axis = 0; axis < port.shape.size(); ++axis)
        if (std::holds_alternative<std::string>(port.shape[axis])) visit(free_axis_name(port, axis), port.shape[axis]);
  };
  each_free([&](const std::string& name, model::Axis&) { free.insert(name); });
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
    each_free([&](const std::string& name, model::Axis& axis) {
      if (name == bound.name) axis = bound.lo;
    });
  }
  return ok();
}

}  // namespace mlc::compile
