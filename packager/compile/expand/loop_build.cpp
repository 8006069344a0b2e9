// What a loop carries: shapes are taken to stay as they are at first. Where one run gives another extent, the axis is
// free inside (a symbol that each run binds) and the body is expanded again, until it agrees with what is assumed.
#include <algorithm>

#include "packager/compile/expand/graph_expander.h"

namespace mlc::compile {
namespace {

// One of the carried values as the body takes it.
struct Carried {
  DType dtype = DType::None;
  uint8_t depth = 0;  // 0: a tensor
  bool optional = false;
  ItemShape shape;    // of a tensor: axes with null for the free ones
  bool filled = false;  // an optional that comes out of a run as what it may hold
};

}  // namespace

std::vector<uint32_t> GraphExpander::share_arguments(std::vector<GraphExpander*> bodies) {
  std::vector<uint32_t> arguments;
  for (GraphExpander* body : bodies)
    for (const Capture& capture : body->captures_)
      if (std::find(arguments.begin(), arguments.end(), capture.outer) == arguments.end()) arguments.push_back(capture.outer);
  for (GraphExpander* body : bodies)
    for (uint32_t outer : arguments) body->function_.inputs.push_back(body->adopt_array(outer));
  return arguments;
}

// One loop while it is built.
struct GraphExpander::LoopBuild {
  GraphExpander& g;
  const LoopPlan& plan;
  std::vector<Carried> carried;
  Status first_failure;

  // One attempt: a body that was expanded under what is assumed of the carried values.
  struct Attempt {
    std::unique_ptr<nest::Function> function = std::make_unique<nest::Function>();
    std::unique_ptr<GraphExpander> body;
    LoopPlan::Run run;
  };

  size_t take_as_first();
  Result<bool> expand(Attempt& attempt);
  Result<bool> loosen(Status failure);
  Result<bool> settle(Attempt& attempt);
  Result<bool> settle_list(size_t k, Attempt& attempt, const std::set<const ir::Sym*>& own);
  Result<bool> settle_tensor(size_t k, Attempt& attempt);
  Result<std::vector<Item>> finish(Attempt attempt);
  Result<std::vector<uint32_t>> body_outputs(Attempt& attempt);
  Item result_carried(size_t k, Emit& outside);
  Item result_scanned(size_t k, const Attempt& attempt, Emit& outside);

  Item list_in(GraphExpander& where, const Carried& c, uint32_t array);
  std::string name_of(size_t k) const { return k < plan.names.size() ? plan.names[k] : std::string(); }
  Ex extent_or_free(Ex known, size_t k, size_t axis, int64_t hi = INT64_MAX) {
    return known ? known : g.ctx_.sym(g.fresh_symbol(name_of(k) + "." + std::to_string(axis), 0, hi));
  }
  Status wrong(size_t k, const std::string& what) const {
    return Status(Code::Malformed, plan.label + ": carried value " + std::to_string(k) + " " + what);
  }
  Status another_type(size_t k, const Attempt& attempt, const std::string& note = "") const {
    return wrong(k, "is " + g.type_text(plan.carried[k]) + " before and " + attempt.body->type_text(attempt.run.carried[k]) + " after a run" + note);
  }
};

Result<std::vector<Item>> GraphExpander::build_loop(const LoopPlan& plan) {
  LoopBuild build{*this, plan, {}, {}};
  const size_t attempts = build.take_as_first();
  for (size_t k = 0; k < attempts; ++k) {
    LoopBuild::Attempt attempt;
    MLC_ASSIGN(const bool is_expanded, build.expand(attempt));
    if (!is_expanded) continue;
    MLC_ASSIGN(const bool agreed, build.settle(attempt));
    if (agreed) return build.finish(std::move(attempt));
  }
  return Status(Code::Malformed, plan.label + ": the shapes that the loop carries do not settle");
}

// Answers how many attempts there can be: each but the last frees an axis or forgets something about a list.
size_t GraphExpander::LoopBuild::take_as_first() {
  size_t axes = 0;
  for (const Item& item : plan.carried) {
    Carried c;
    c.shape = g.shape_of(item);
    c.dtype = item.list ? item.list->dtype : g.function_.arrays[item.tensor.array].dtype;
    if (item.list) c.depth = item.list->depth, c.optional = item.list->optional;
    if (c.shape.axes) axes += c.shape.axes->size();
    carried.push_back(std::move(c));
  }
  return axes + 4 * carried.size() + 2;
}

// A list of the run that `array` holds.
Item GraphExpander::LoopBuild::list_in(GraphExpander& where, const Carried& c, uint32_t array) {
  auto list = where.made_of(c.dtype, c.depth, c.optional, {});
  list->items.reset();
  list->array = array;
  list->shape = c.shape;
  return {lang::Value{nest::kNoArray, {}}, list};
}

// False: it did not fit what was assumed, which is loosened.
Result<bool> GraphExpander::LoopBuild::expand(Attempt& attempt) {
  nest::Function& function = *attempt.function;
  function.name = g.function_.name + "/" + plan.label + "." + std::to_string(g.all_.bodies++);
  attempt.body = std::make_unique<GraphExpander>(g.all_, function, &g);
  Emit inside(g.ctx_, function, plan.label);
  const uint32_t iteration = inside.array("iteration", DType::I64, {}, nest::Array::Kind::Input);
  const uint32_t condition = inside.array("condition", DType::Bool, {}, nest::Array::Kind::Input);
  function.inputs = {iteration, condition};
  std::vector<Item> inputs;
  for (size_t k = 0; k < carried.size(); ++k) {
    const Carried& c = carried[k];
    const std::string name = "carried." + (name_of(k).empty() ? std::to_string(k) : name_of(k));
    std::vector<Ex> shape;
    if (!c.depth)
      for (size_t axis = 0; axis < c.shape.axes->size(); ++axis) {
        Ex extent = (*c.shape.axes)[axis];
        shape.push_back(extent ? extent : g.ctx_.sym(attempt.body->fresh_symbol(name + "." + std::to_string(axis), 0, INT64_MAX)));
      }
    const uint32_t array = inside.array(name, c.dtype, std::move(shape), nest::Array::Kind::Input, c.depth);
    function.inputs.push_back(array);
    inputs.push_back(c.depth ? list_in(*attempt.body, c, array) : Item::of(array));
  }
  // The body only runs while the condition holds.
  auto run = plan.run(*attempt.body, Item::of(iteration), {lang::Value{condition, {g.ctx_.boolean(true)}}, nullptr}, inputs);
  if (!run.ok()) return loosen(std::move(run).status());
  if (run->carried.size() != carried.size() || run->scanned.size() != plan.num_scanned)
    return Status(Code::Malformed, plan.label + ": the body has another number of results than the node");
  attempt.run = std::move(*run);
  return true;
}

// Perhaps it failed because of what is assumed: once more without assumptions about shapes.
Result<bool> GraphExpander::LoopBuild::loosen(Status failure) {
  if (failure.code == Code::Resource) return failure;
  bool loosened = false;
  for (Carried& c : carried)
    if (!c.depth)
      for (Ex& extent : *c.shape.axes) {
        loosened = loosened || extent;
        extent = nullptr;
      }
  if (!first_failure.ok()) return std::move(first_failure);
  if (!loosened) return failure;
  first_failure = std::move(failure);
  return false;
}

// Whether all carried values come out of a run as they went in; where not, less is assumed of them from now on.
Result<bool> GraphExpander::LoopBuild::settle(Attempt& attempt) {
  const std::set<const ir::Sym*> own = attempt.body->own_symbols();
  bool agreed = true;
  for (size_t k = 0; k < carried.size(); ++k) {
    Carried& c = carried[k];
    Item& result = attempt.run.carried[k];
    if (c.optional && (result.list ? result.list->depth : 0) + 1 == c.depth) {
      c.filled = true;
      result = {lang::Value{nest::kNoArray, {}}, attempt.body->made_of(c.dtype, c.depth, true, {result})};
    }
    if ((c.depth > 0) != (result.list != nullptr)) return another_type(k, attempt);
    MLC_ASSIGN(const bool agrees, c.depth ? settle_list(k, attempt, own) : settle_tensor(k, attempt));
    agreed = agreed && agrees;
  }
  return agreed;
}

Result<bool> GraphExpander::LoopBuild::settle_list(size_t k, Attempt& attempt, const std::set<const ir::Sym*>& own) {
  Carried& c = carried[k];
  const List& list = *attempt.run.carried[k].list;
  const bool is_typed_now = c.dtype == DType::None && list.dtype != DType::None;
  if (is_typed_now) c.dtype = list.dtype;
  if (list.depth != c.depth || list.dtype != c.dtype) return another_type(k, attempt);
  ItemShape shape = attempt.body->shape_of(attempt.run.carried[k]);
  if (shape.axes)
    for (Ex& extent : *shape.axes)
      if (extent && !is_free_of(extent, own)) extent = nullptr;
  ItemShape both = joined(c.shape, shape);
  const bool agrees = !is_typed_now && same(both, c.shape);
  c.shape = std::move(both);
  return agrees;
}

Result<bool> GraphExpander::LoopBuild::settle_tensor(size_t k, Attempt& attempt) {
  Carried& c = carried[k];
  const ItemShape shape = attempt.body->shape_of(attempt.run.carried[k]);
  const DType dtype = attempt.body->function_.arrays[attempt.run.carried[k].tensor.array].dtype;
  if (dtype != c.dtype || shape.axes->size() != c.shape.axes->size()) return another_type(k, attempt, "; only extents may change");
  bool agrees = true;
  for (size_t axis = 0; axis < shape.axes->size(); ++axis) {
    Ex& extent = (*c.shape.axes)[axis];
    if (!extent || extent == (*shape.axes)[axis]) continue;
    extent = nullptr;
    agrees = false;
  }
  return agrees;
}

// The outputs of a body that is settled; answers the arrays that the loop starts with.
Result<std::vector<uint32_t>> GraphExpander::LoopBuild::body_outputs(Attempt& attempt) {
  GraphExpander& body = *attempt.body;
  MLC_ASSIGN(const uint32_t condition, body.array_of(attempt.run.condition, plan.label));
  attempt.function->outputs.push_back(condition);
  std::vector<uint32_t> start;
  for (size_t k = 0; k < carried.size(); ++k) {
    MLC_ASSIGN(const uint32_t inner, body.array_of(attempt.run.carried[k], plan.label));
    attempt.function->outputs.push_back(inner);
    MLC_ASSIGN(const uint32_t outer, g.array_of(plan.carried[k], plan.label));
    start.push_back(outer);
  }
  for (size_t k = 0; k < plan.num_scanned; ++k) {
    const Item& item = attempt.run.scanned[k];
    if (item.list) return Status(Code::Malformed, plan.label + ": scanned value " + std::to_string(k) + " is a list, only tensors are collected");
    attempt.function->outputs.push_back(item.tensor.array);
  }
  return start;
}

Item GraphExpander::LoopBuild::result_carried(size_t k, Emit& outside) {
  const Carried& c = carried[k];
  std::vector<Ex> shape;
  if (!c.depth)
    for (size_t axis = 0; axis < c.shape.axes->size(); ++axis) shape.push_back(extent_or_free((*c.shape.axes)[axis], k, axis));
  const uint32_t array = outside.array(name_of(k), c.dtype, std::move(shape), nest::Array::Kind::Temp, c.depth);
  return c.depth ? list_in(g, c, array) : Item::of(array);
}

// One more axis in front: the runs.
Item GraphExpander::LoopBuild::result_scanned(size_t k, const Attempt& attempt, Emit& outside) {
  const nest::Array& a = attempt.function->arrays[attempt.run.scanned[k - carried.size()].tensor.array];
  const std::set<const ir::Sym*> own = attempt.body->own_symbols();
  const bool always = plan.condition == nest::kNoArray || g.number_of({plan.condition, {}}) == 1;
  const bool goes_on = attempt.body->number_of(attempt.run.condition.tensor) == 1;
  const Ex runs = plan.trip_count ? g.ctx_.max(plan.trip_count, g.ctx_.integer(0)) : nullptr;
  std::vector<Ex> shape;
  shape.push_back(extent_or_free(always && goes_on ? runs : nullptr, k, 0, runs ? std::max<int64_t>(ir::interval_of(runs).hi, 0) : INT64_MAX));
  for (size_t axis = 0; axis < a.shape.size(); ++axis)
    shape.push_back(extent_or_free(is_free_of(a.shape[axis], own) ? a.shape[axis] : nullptr, k, axis + 1));
  return Item::of(outside.array(name_of(k), a.dtype, std::move(shape)));
}

Result<std::vector<Item>> GraphExpander::LoopBuild::finish(Attempt attempt) {
  MLC_ASSIGN(const std::vector<uint32_t> start, body_outputs(attempt));
  std::vector<uint32_t> inputs{plan.trips, plan.condition}, outputs;
  inputs.insert(inputs.end(), start.begin(), start.end());
  for (uint32_t argument : share_arguments({attempt.body.get()})) inputs.push_back(argument);
  Emit outside(g.ctx_, g.function_, plan.label);
  std::vector<Item> results;
  for (size_t k = 0; k < carried.size() + plan.num_scanned; ++k) {
    if (name_of(k).empty()) {
      outputs.push_back(nest::kNoArray);
      results.emplace_back();
      continue;
    }
    results.push_back(k < carried.size() ? result_carried(k, outside) : result_scanned(k, attempt, outside));
    outputs.push_back(results.back().list ? results.back().list->array : results.back().tensor.array);
  }
  nest::Control& control = outside.control(StepOp::Loop, std::move(inputs), std::move(outputs));
  control.carried = static_cast<uint32_t>(carried.size());
  control.bodies.push_back(std::move(attempt.function));
  for (size_t k = 0; k < carried.size(); ++k)
    if (carried[k].filled && results[k].list) {
      MLC_ASSIGN(results[k], g.list_at(*results[k].list, outside.constant(0), plan.label, "", g.hint(name_of(k))));
    }
  return results;
}

}  // namespace mlc::compile
