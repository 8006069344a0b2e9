// A statement that calls a graph of the model's: `m[d] = graph g(x)`, where `g` is an attribute.
#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {

// The array that a name of the text means, as the graph takes it.
Value Expander::whole_array(const std::string& name, Pos pos) {
  const auto found = arrays_.find(name);
  if (found == arrays_.end() || found->second.size() != 1 || !found->second[0].present)
    fail_here(pos, "the graph is given '" + name + "', which is no array here");
  Value value;
  value.array = found->second[0].id;
  if (const auto e = elements_.find(value.array); e != elements_.end()) value.elements = e->second;
  return value;
}

void Expander::graph_statement(const Stmt& s) {
  committed_ = true;
  solve_products(false);
  std::vector<Value> results;
  for (const std::string& name : s.names) results.push_back(whole_array(name, s.pos));
  if (const auto given = attributes_.find(s.text); given != attributes_.end()) {
    const auto* graph = std::get_if<GraphAttr>(given->second);
    auto expanded = graph->expand(results);
    if (!expanded.ok()) fail(std::move(expanded).status());
    results = std::move(expanded).value();
  }
  if (results.size() != s.targets.size())
    mismatch("attribute '" + s.text + "' is a graph with " + std::to_string(results.size()) + " outputs, expected " + std::to_string(s.targets.size()));
  for (size_t k = 0; k < s.targets.size(); ++k) bind_temporary(s.targets[k], results[k], "attribute '" + s.text + "': output " + std::to_string(k));
}

// A temporary that exists already: its axes are those that the target says.
void Expander::bind_temporary(const Target& t, const Value& value, const std::string& what) {
  ScopedDims dims(*this);
  for (const auto& name : dims_in(t.index)) dims.bind(name, t.pos);
  ArrayInfo a;
  target_index(t, &a.slots);
  const nest::Array& made = function_.arrays[value.array];
  if (made.dtype == DType::Str) mismatch(what + " holds strings, numbers are expected");
  if (made.shape.size() != a.slots.size())
    mismatch(what + " has " + std::to_string(made.shape.size()) + " axes, expected " + std::to_string(a.slots.size()));
  for (size_t axis = 0; axis < a.slots.size(); ++axis) {
    if (!a.slots[axis].extent) fail_here(t.pos, "the axes of " + t.array + " are dims");
    unify(a.slots[axis].extent, made.shape[axis], what + ", axis " + std::to_string(axis), "expected", "made");
  }
  a.name = t.array;
  a.present = true;
  a.id = value.array;
  a.dtype = in_memory(made.dtype);
  if (!value.elements.empty()) elements_[a.id] = value.elements;
  if (!arrays_[t.array].empty()) fail_here(t.pos, t.array + " is written before: what a graph makes has a name of its own");
  arrays_[t.array].push_back(std::move(a));
}

}  // namespace mlc::lang
