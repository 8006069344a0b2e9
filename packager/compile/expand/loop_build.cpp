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

Result<std::vector<Item>> GraphExpander::build_loop(const LoopPlan& plan) {
  std::vector<Carried> carried;
  size_t axes = 0;
  for (const Item& item : plan.carried) {
    Carried c;
    c.shape = shape_of(item);
    c.dtype = item.list ? item.list->dtype : function_.arrays[item.tensor.array].dtype;
    if (item.list) c.depth = item.list->depth, c.optional = item.list->optional;
    if (c.shape.axes) axes += c.shape.axes->size();
    carried.push_back(std::move(c));
  }
  auto name_of = [&](size_t k) { return k < plan.names.size() ? plan.names[k] : std::string(); };
  auto wrong = [&](size_t k, const std::string& what) {
    return Status(Code::Malformed, plan.label + ": carried value " + std::to_string(k) + " " + what);
  };
  Status first_failure;
  // Each attempt but the last frees an axis or forgets something about a list.
  for (size_t attempt = 0; attempt < axes + 4 * carried.size() + 2; ++attempt) {
    auto function = std::make_unique<nest::Function>();
    function->name = function_.name + "/" + plan.label + "." + std::to_string(all_.bodies++);
    GraphExpander body(all_, *function, this);
    Emit inside(ctx_, *function, plan.label);
    const uint32_t iteration = inside.array("iteration", DType::I64, {}, nest::Array::Kind::Input);
    const uint32_t condition = inside.array("condition", DType::Bool, {}, nest::Array::Kind::Input);
    function->inputs = {iteration, condition};
    std::vector<Item> inputs;
    for (size_t k = 0; k < carried.size(); ++k) {
      const Carried& c = carried[k];
      const std::string name = "carried." + (name_of(k).empty() ? std::to_string(k) : name_of(k));
      std::vector<Ex> shape;
      if (!c.depth)
        for (size_t axis = 0; axis < c.shape.axes->size(); ++axis) {
          Ex extent = (*c.shape.axes)[axis];
          shape.push_back(extent ? extent : ctx_.sym(body.fresh_symbol(name + "." + std::to_string(axis), 0, INT64_MAX)));
        }
      const uint32_t array = inside.array(name, c.dtype, std::move(shape), nest::Array::Kind::Input, c.depth);
      function->inputs.push_back(array);
      Item item = Item::of(array);
      if (c.depth) {
        auto list = body.made_of(c.dtype, c.depth, c.optional, {});
        list->items.reset();
        list->array = array;
        list->shape = c.shape;
        item = {lang::Value{nest::kNoArray, {}}, list};
      }
      inputs.push_back(std::move(item));
    }
    // The body only runs while the condition holds.
    auto run = plan.run(body, Item::of(iteration), {lang::Value{condition, {ctx_.boolean(true)}}, nullptr}, inputs);
    if (!run.ok()) {
      if (run.status().code == Code::Resource) return std::move(run).status();
      // Perhaps because of what is assumed: once more without assumptions about shapes.
      bool loosened = false;
      for (Carried& c : carried)
        if (!c.depth)
          for (Ex& extent : *c.shape.axes) {
            loosened = loosened || extent;
            extent = nullptr;
          }
      if (!first_failure.ok() || !loosened) return first_failure.ok() ? std::move(run).status() : std::move(first_failure);
      first_failure = std::move(run).status();
      continue;
    }
    if (run->carried.size() != carried.size() || run->scanned.size() != plan.num_scanned)
      return Status(Code::Malformed, plan.label + ": the body has another number of results than the node");
    const std::set<const ir::Sym*> own = body.own_symbols();
    bool agreed = true;
    for (size_t k = 0; k < carried.size(); ++k) {
      Carried& c = carried[k];
      Item& result = run->carried[k];
      if (c.optional && (result.list ? result.list->depth : 0) + 1 == c.depth) {
        c.filled = true;
        result = {lang::Value{nest::kNoArray, {}}, body.made_of(c.dtype, c.depth, true, {result})};
      }
      if ((c.depth > 0) != (result.list != nullptr)) return wrong(k, "is " + type_text(plan.carried[k]) + " before and " + body.type_text(result) + " after a run");
      ItemShape shape = body.shape_of(result);
      if (c.depth) {
        if (c.dtype == DType::None && result.list->dtype != DType::None) {
          c.dtype = result.list->dtype;
          agreed = false;
        }
        if (result.list->depth != c.depth || result.list->dtype != c.dtype)
          return wrong(k, "is " + type_text(plan.carried[k]) + " before and " + body.type_text(result) + " after a run");
        if (shape.axes)
          for (Ex& extent : *shape.axes)
            if (extent && !is_free_of(extent, own)) extent = nullptr;
        const ItemShape both = joined(c.shape, shape);
        if (!same(both, c.shape)) agreed = false;
        c.shape = both;
        continue;
      }
      const DType dtype = body.function_.arrays[result.tensor.array].dtype;
      if (dtype != c.dtype || shape.axes->size() != c.shape.axes->size())
        return wrong(k, "is " + type_text(plan.carried[k]) + " before and " + body.type_text(result) + " after a run; only extents may change");
      for (size_t axis = 0; axis < shape.axes->size(); ++axis) {
        Ex& extent = (*c.shape.axes)[axis];
        if (!extent || extent == (*shape.axes)[axis]) continue;
        extent = nullptr;
        agreed = false;
      }
    }
    if (!agreed) continue;

    // The body is settled: its outputs, then the loop itself.
    MLC_ASSIGN(const uint32_t condition_out, body.array_of(run->condition, plan.label));
    const bool always = plan.condition == nest::kNoArray || number_of({plan.condition, {}}) == 1;
    const bool goes_on = body.number_of(run->condition.tensor) == 1;
    function->outputs.push_back(condition_out);
    std::vector<uint32_t> control_inputs{plan.trips, plan.condition}, outputs;
    for (size_t k = 0; k < carried.size(); ++k) {
      MLC_ASSIGN(const uint32_t inner, body.array_of(run->carried[k], plan.label));
      function->outputs.push_back(inner);
      MLC_ASSIGN(const uint32_t outer, array_of(plan.carried[k], plan.label));
      control_inputs.push_back(outer);
    }
    for (size_t k = 0; k < plan.num_scanned; ++k) {
      if (run->scanned[k].list) return Status(Code::Malformed, plan.label + ": scanned value " + std::to_string(k) + " is a list, only tensors are collected");
      function->outputs.push_back(run->scanned[k].tensor.array);
    }
    for (uint32_t argument : share_arguments({&body})) control_inputs.push_back(argument);
    Emit outside(ctx_, function_, plan.label);
    std::vector<Item> results;
    for (size_t k = 0; k < carried.size() + plan.num_scanned; ++k) {
      const std::string name = name_of(k);
      if (name.empty()) {
        outputs.push_back(nest::kNoArray);
        results.emplace_back();
        continue;
      }
      const bool scanned = k >= carried.size();
      std::vector<Ex> shape;
      auto extent_of = [&](Ex known, size_t axis, int64_t hi = INT64_MAX) {
        shape.push_back(known ? known : ctx_.sym(fresh_symbol(name + "." + std::to_string(axis), 0, hi)));
      };
      if (scanned) {
        const nest::Array& a = function->arrays[run->scanned[k - carried.size()].tensor.array];
        const bool exact = plan.trip_count && always && goes_on;
        const Ex runs = plan.trip_count ? ctx_.max(plan.trip_count, ctx_.integer(0)) : nullptr;
        extent_of(exact ? runs : nullptr, 0, runs ? std::max<int64_t>(ir::interval_of(runs).hi, 0) : INT64_MAX);
        for (size_t axis = 0; axis < a.shape.size(); ++axis) extent_of(is_free_of(a.shape[axis], own) ? a.shape[axis] : nullptr, axis + 1);
        outputs.push_back(outside.array(name, a.dtype, std::move(shape)));
        results.push_back(Item::of(outputs.back()));
        continue;
      }
      const Carried& c = carried[k];
      if (!c.depth)
        for (size_t axis = 0; axis < c.shape.axes->size(); ++axis) extent_of((*c.shape.axes)[axis], axis);
      outputs.push_back(outside.array(name, c.dtype, std::move(shape), nest::Array::Kind::Temp, c.depth));
      Item item = Item::of(outputs.back());
      if (c.depth) {
        auto list = made_of(c.dtype, c.depth, c.optional, {});
        list->items.reset();
        list->array = outputs.back();
        list->shape = c.shape;
        item = {lang::Value{nest::kNoArray, {}}, list};
      }
      results.push_back(std::move(item));
    }
    nest::Control& control = outside.control(nest::Control::Kind::Loop, std::move(control_inputs), std::move(outputs));
    control.carried = static_cast<uint32_t>(carried.size());
    control.bodies.push_back(std::move(function));
    for (size_t k = 0; k < carried.size(); ++k)
      if (carried[k].filled && results[k].list) {
        MLC_ASSIGN(results[k], list_at(*results[k].list, outside.constant(0), plan.label, "", hint(name_of(k))));
      }
    return results;
  }
  return Status(Code::Malformed, plan.label + ": the shapes that the loop carries do not settle");
}

}  // namespace mlc::compile
