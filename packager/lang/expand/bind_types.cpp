// Inputs to parameters, and the element types that follow.
#include <algorithm>

#include "packager/lang/expand/expander.h"

namespace mlc::lang {

void Expander::collect_inputs() {
  inputs_.resize(op_.params.size());
  size_t next = 0;
  auto take = [&](const Param& p, const std::optional<Value>& v) {
    Input in;
    if (!v) return in;
    if (v->array >= function_.arrays.size())
      mismatch("input " + p.name + " names array " + std::to_string(v->array) + ", which the function does not have");
    const nest::Array& a = function_.arrays[v->array];
    in.present = true;
    in.array = v->array;
    if (p.optional && !p.many)
      for (Ex e : a.shape)
        if (e->is_int(0)) in.present = false;  // of length zero reads as absent
    if (!v->elements.empty()) {
      size_t count = 1;
      for (Ex e : a.shape) {
        auto n = const_extent(e);
        if (!n) { count = SIZE_MAX; break; }
        count *= *n;
      }
      if (count == v->elements.size() && count <= kMaxElements) in.elements = v->elements;
    }
    return in;
  };
  for (size_t p = 0; p < op_.params.size(); ++p) {
    const Param& param = op_.params[p];
    if (param.many) {
      // Several in a row take turns: the remaining inputs are groups of one of each.
      size_t group = 1;
      while (p + group < op_.params.size() && op_.params[p + group].many) ++group;
      const size_t after = op_.params.size() - p - group;
      for (size_t turn = 0; next + after < call_.inputs.size(); turn = (turn + 1) % group) {
        const Param& one = op_.params[p + turn];
        if (!call_.inputs[next]) mismatch("input " + std::to_string(next) + " is absent, but each of " + one.name + " is needed");
        inputs_[p + turn].push_back(take(one, call_.inputs[next++]));
      }
      if (inputs_[p].empty() && !param.optional) mismatch("at least one input " + param.name + " is needed");
      for (size_t turn = 1; turn < group; ++turn)
        if (inputs_[p + turn].size() != inputs_[p].size())
          mismatch("has " + std::to_string(inputs_[p].size()) + " inputs " + param.name + ", but " + std::to_string(inputs_[p + turn].size()) +
                   " inputs " + op_.params[p + turn].name);
      p += group - 1;
      continue;
    }
    Input in;
    if (next < call_.inputs.size()) in = take(param, call_.inputs[next++]);
    if (!in.present && !param.optional) mismatch("input " + param.name + " is missing");
    inputs_[p].push_back(std::move(in));
  }
  for (; next < call_.inputs.size(); ++next)
    if (call_.inputs[next])
      mismatch("has " + std::to_string(call_.inputs.size()) + " inputs, the operator takes at most " +
               std::to_string(op_.params.size()));
  const size_t results = op_.results.size();
  const bool many = std::any_of(op_.results.begin(), op_.results.end(), [](const auto& r) { return r.many; });
  if (!many)
    for (size_t k = results; k < call_.outputs.size(); ++k)
      if (call_.outputs[k])
        mismatch("has " + std::to_string(call_.outputs.size()) + " outputs, the operator has " + std::to_string(results));
  // Elements of every input array, for reads at places known while building.
  for (auto& items : inputs_)
    for (auto& in : items)
      if (in.present && !in.elements.empty()) elements_[in.array] = in.elements;
}

bool Expander::class_admits(const std::string& cls, DType t) const {
  if (cls == "any") return true;
  if (cls == "num") return is_float(t) || is_int(t);
  if (cls == "float") return is_float(t);
  if (cls == "int") return is_int(t);
  if (cls == "signed") return is_signed_int(t);
  if (cls == "unsigned") return is_unsigned_int(t);
  return dtype_named(cls) == t;
}

void Expander::bind_type(const std::string& element, DType actual, const std::string& what) {
  if (auto fixed = dtype_named(element)) {
    if (*fixed != actual)
      mismatch(what + " has element type " + std::string(name_of(actual)) + ", expected " + element);
    return;
  }
  auto [it, fresh] = types_.try_emplace(element, actual);
  if (!fresh && it->second != actual)
    mismatch(what + " has element type " + std::string(name_of(actual)) + ", but " + element + " is " +
             std::string(name_of(it->second)) + " by an earlier input");
  for (const auto& v : op_.type_variables) {
    if (v.name != element) continue;
    bool admitted = false;
    std::string classes;
    for (const auto& c : v.classes) {
      admitted = admitted || class_admits(c, actual);
      classes += (classes.empty() ? "" : " or ") + c;
    }
    if (!admitted) mismatch(what + " has element type " + std::string(name_of(actual)) + ", expected " + classes);
  }
}

DType Expander::element_type(const std::string& element, Pos pos) const {
  if (auto fixed = dtype_named(element)) return *fixed;
  if (auto it = types_.find(element); it != types_.end()) return in_memory(it->second);
  fail_call(pos, "the element type " + element + " does not follow from the inputs of this call");
}

void Expander::bind_types() {
  for (size_t p = 0; p < op_.params.size(); ++p)
    for (size_t item = 0; item < inputs_[p].size(); ++item)
      if (inputs_[p][item].present)
        bind_type(op_.params[p].type.element, function_.arrays[inputs_[p][item].array].dtype,
                  "input " + item_name(op_.params[p], item));
  for (const auto& v : op_.type_variables) {
    if (v.fallback.empty() || types_.count(v.name)) continue;
    const auto other = types_.find(v.fallback);
    const auto fixed = other == types_.end() ? dtype_named(v.fallback) : other->second;
    if (fixed) bind_type(v.name, *fixed, v.name + ", which no input says,");
  }
}

}  // namespace mlc::lang
