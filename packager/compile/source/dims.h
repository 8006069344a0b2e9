// What the user says of a model's inputs: which there are, their shapes, bounds of their free extents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/model/model.h"

namespace mlc::compile {

// Bounds of a free extent ("--dim batch=1..8"); equal ends freeze it.
struct DimBound {
  std::string name;
  int64_t lo = 0, hi = INT64_MAX;
};

// The shape of an input ("--shape x=[N,3]"), where the file does not say it.
struct GivenShape {
  std::string name;
  std::vector<model::Axis> shape;
};

// An input that is what an output was in the run before ("--state h=hn"); patterns with equally many '*'.
struct StatePair {
  std::string input, output;
};

struct InterfaceChoices {
  std::vector<std::string> fed;  // --feed: initializers that become inputs
  std::vector<GivenShape> shapes;
  std::vector<DimBound> dims;
  std::vector<StatePair> states;  // of a model alone (states.h)
};

// Bounds on free extents are declared, fixed ones replace the name wherever it stands.
Status apply_bounds(ir::Context& ctx, const std::vector<DimBound>& bounds, model::Model& model);
bool has_free_extent(const model::Model& model, const std::string& name);
void rename_free_extent(model::Model& model, const std::string& from, const std::string& to);
// A shape for an input without one, or extents and names for free axes of one that has.
Status apply_shapes(const std::vector<GivenShape>& shapes, model::Model& model);
// Initializers become inputs, which have no default then.
Status apply_feeds(const std::vector<std::string>& names, model::Model& model);
Status apply(ir::Context& ctx, const InterfaceChoices& choices, model::Model& model);

// A line on inputs that the file gives a default, which are constants here; empty if there are none. Before version 4 of
// the format all weights are listed as inputs, which says nothing.
std::string defaults_remark(const model::Model& model);

}  // namespace mlc::compile
