// Loop, Scan and SequenceMap (If: branch_build.cpp). A body that surely runs exactly once is expanded in place.
#include <algorithm>

#include "base/counted.h"
#include "packager/compile/expand/graph_expander.h"


namespace mlc::compile {

using model::Node;

int64_t int_attribute(const Node& node, const std::string& name, int64_t fallback) {
  auto at = node.attributes.find(name);
  const int64_t* value = at == node.attributes.end() ? nullptr : std::get_if<int64_t>(&at->second);
  return value ? *value : fallback;
}
std::vector<int64_t> ints_attribute(const Node& node, const std::string& name) {
  auto at = node.attributes.find(name);
  const auto* value = at == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&at->second);
  return value ? *value : std::vector<int64_t>();
}

const std::set<std::string>& structural_operators() {
  static const std::set<std::string> kOperators = {
      "If", "Loop", "Scan", "SequenceMap", "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt",
      "SequenceLength", "ConcatFromSequence", "SplitToSequence", "Optional", "OptionalGetElement", "OptionalHasElement"};
  return kOperators;
}

bool is_structural(const std::string& domain, const std::string& op) {
  return (domain == "ai.onnx" || domain.empty()) && structural_operators().count(op) > 0;
}

Status GraphExpander::structural(const Node& node) {
  Inputs in;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      in.emplace_back();
      continue;
    }
    MLC_ASSIGN(Item value, value_of(name));
    in.emplace_back(std::move(value));
  }
  if (node.op == "If") return add_if(node, in);
  if (node.op == "Loop") return add_loop(node, in);
  if (node.op == "Scan") return opset_of(node) < 9 ? add_scan8(node, in) : add_scan(node, in);
  if (node.op == "SequenceMap") return add_sequence_map(node, in);
  return add_list_operator(node, in);
}

Result<const model::Graph*> GraphExpander::body_of(const Node& node, const std::string& name) const {
  auto at = node.attributes.find(name);
  const auto* body = at == node.attributes.end() ? nullptr : std::get_if<std::shared_ptr<const model::Graph>>(&at->second);
  if (!body || !*body) return refuse(node, "attribute '" + name + "' is missing or no graph");
  return body->get();
}

Result<Item> GraphExpander::tensor_input(const Node& node, const Inputs& in, size_t k) const {
  if (k >= in.size() || !in[k]) return refuse(node, "input " + std::to_string(k) + " is missing");
  if (in[k]->list) return refuse(node, "input " + std::to_string(k) + " is " + type_text(*in[k]) + ", a tensor is expected");
  return *in[k];
}

Result<std::vector<Item>> GraphExpander::inline_body(const model::Graph& graph, const std::vector<Item>& inputs, const std::string& source) {
  if (graph.inputs.size() != inputs.size())
    return Status(Code::Malformed, source + ": the body has " + counted(graph.inputs.size(), "input") + ", " + std::to_string(inputs.size()) + " are given");
  GraphExpander body(all_, function_, this);
  for (size_t k = 0; k < inputs.size(); ++k) body.bind(graph.inputs[k].name, inputs[k]);
  MLC_RETURN_IF_ERROR(body.expand(graph));
  std::vector<Item> results;
  for (const model::Port& port : graph.outputs) {
    MLC_ASSIGN(Item value, body.value_of(port.name));
    results.push_back(std::move(value));
  }
  fresh_.insert(body.fresh_.begin(), body.fresh_.end());
  captures_.insert(captures_.end(), body.captures_.begin(), body.captures_.end());
  return results;
}

// The number of an iteration and the condition have no axes, or one of extent 1 where the body declares them so.
Item GraphExpander::as_declared(const model::Port& port, Item scalar) {
  if (!port.has_shape || port.shape.size() != 1) return scalar;
  const nest::Array one = function_.arrays[scalar.tensor.array];
  Emit emit(ctx_, function_, port.name);
  if (one.kind == nest::Array::Kind::Const) {
    scalar.tensor.array = emit.array(port.name, one.dtype, {ctx_.integer(1)}, nest::Array::Kind::Const);
    function_.arrays[scalar.tensor.array].data = one.data;
  } else {
    scalar.tensor.array = emit.with_first_axis(port.name, scalar.tensor.array);
  }
  return scalar;
}

Status GraphExpander::add_loop(const Node& node, const Inputs& in) {
  MLC_ASSIGN(const model::Graph* graph, body_of(node, "body"));
  if (graph->inputs.size() < 2 || graph->outputs.empty()) return refuse(node, "the body of a loop has at least two inputs and an output");
  LoopPlan plan;
  plan.label = node.label();
  std::optional<int64_t> trips, goes;
  if (in.size() > 0 && in[0]) {
    MLC_ASSIGN(const Item count, tensor_input(node, in, 0));
    if (function_.arrays[count.tensor.array].dtype != DType::I64) return refuse(node, "the trip count is " + type_text(count) + ", i64 is expected");
    plan.trips = count.tensor.array;
    const std::vector<Ex> elements = elements_of(count.tensor);
    if (elements.size() == 1) plan.trip_count = elements[0];
    trips = number_of(count.tensor);
  }
  if (in.size() > 1 && in[1]) {
    MLC_ASSIGN(const Item condition, tensor_input(node, in, 1));
    if (function_.arrays[condition.tensor.array].dtype != DType::Bool) return refuse(node, "the condition is " + type_text(condition) + ", bool is expected");
    plan.condition = condition.tensor.array;
    goes = number_of(condition.tensor);
    if (goes == 1) plan.condition = nest::kNoArray;
  } else {
    goes = 1;
  }
  for (size_t k = 2; k < in.size(); ++k) {
    if (!in[k]) return refuse(node, "input " + std::to_string(k) + " is missing");
    plan.carried.push_back(*in[k]);
  }
  const size_t carried = plan.carried.size();
  if (graph->inputs.size() != 2 + carried || graph->outputs.size() < 1 + carried || node.outputs.size() > graph->outputs.size() - 1)
    return refuse(node, "the body has " + counted(graph->inputs.size(), "input") + " and " + counted(graph->outputs.size(), "output") +
                            ", the node " + std::to_string(in.size()) + " and " + std::to_string(node.outputs.size()));
  plan.num_scanned = graph->outputs.size() - 1 - carried;
  bool collects = false;
  for (size_t k = 0; k + 1 < graph->outputs.size(); ++k) {
    plan.names.push_back(wanted(node, k) ? node.outputs[k] : "");
    collects = collects || (k >= carried && wanted(node, k));
  }
  // Nothing runs: what is carried comes out as it went in.
  if (((trips && *trips <= 0) || goes == 0) && !collects) {
    for (size_t k = 0; k < carried && k < node.outputs.size(); ++k) give(node, k, plan.carried[k]);
    return ok();
  }
  if (trips == 1 && goes == 1) {
    Emit emit(ctx_, function_, node.label());
    std::vector<Item> inputs{as_declared(graph->inputs[0], Item::of(emit.constant(0))), as_declared(graph->inputs[1], Item::of(emit.constant(1, DType::Bool)))};
    inputs.insert(inputs.end(), plan.carried.begin(), plan.carried.end());
    MLC_ASSIGN(std::vector<Item> results, inline_body(*graph, inputs, node.label()));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      Item& value = results[1 + k];
      if (k >= carried && wanted(node, k)) {
        if (value.list) return refuse(node, "a scanned value is a list");
        value = Item::of(emit.with_first_axis(node.outputs[k], value.tensor.array));
      }
      give(node, k, std::move(value));
    }
    return ok();
  }
  plan.run = [&](GraphExpander& body, const Item& iteration, const Item& condition, const std::vector<Item>& values) -> Result<LoopPlan::Run> {
    body.bind(graph->inputs[0].name, body.as_declared(graph->inputs[0], iteration));
    body.bind(graph->inputs[1].name, body.as_declared(graph->inputs[1], condition));
    for (size_t k = 0; k < values.size(); ++k) body.bind(graph->inputs[2 + k].name, values[k]);
    MLC_RETURN_IF_ERROR(body.expand(*graph));
    LoopPlan::Run run;
    for (size_t k = 0; k < graph->outputs.size(); ++k) {
      MLC_ASSIGN(Item value, body.value_of(graph->outputs[k].name));
      (k == 0 ? run.condition : k <= carried ? run.carried.emplace_back() : run.scanned.emplace_back()) = std::move(value);
    }
    if (run.condition.list || body.function_.arrays[run.condition.tensor.array].dtype != DType::Bool)
      return refuse(node, "the condition that the body gives is " + body.type_text(run.condition) + ", bool is expected");
    return run;
  };
  MLC_ASSIGN(std::vector<Item> results, build_loop(plan));
  for (size_t k = 0; k < node.outputs.size(); ++k)
    if (wanted(node, k)) give(node, k, std::move(results[k]));
  return ok();
}

// Per scanned input and output: the axis that runs, and whether from its end.
struct GraphExpander::ScanShape {
  std::vector<size_t> input_axes, output_axes;  // output: of the result
  std::vector<bool> input_reversed, output_reversed;
  std::vector<std::string> names;               // of the results: states, then outputs
};

Result<std::vector<Item>> GraphExpander::scan_loop(const Node& node, const model::Graph& graph, std::vector<Item> states,
                                                   const std::vector<Item>& inputs, const ScanShape& shape, uint32_t trips, Ex trip_count) {
  LoopPlan plan;
  plan.label = node.label();
  plan.trips = trips;
  plan.trip_count = trip_count;
  plan.carried = std::move(states);
  const size_t num_states = plan.carried.size();
  plan.num_scanned = graph.outputs.size() - num_states;
  plan.names = shape.names;
  plan.run = [&](GraphExpander& body, const Item& iteration, const Item& condition, const std::vector<Item>& values) -> Result<LoopPlan::Run> {
    Emit emit(ctx_, body.function_, node.label());
    for (size_t k = 0; k < values.size(); ++k) body.bind(graph.inputs[k].name, values[k]);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const uint32_t whole = body.adopt(inputs[k]).tensor.array;
      Ex place = emit.load(iteration.tensor.array);
      if (shape.input_reversed[k]) {
        const Ex count = trip_count ? trip_count : emit.load(body.adopt_array(trips));
        place = ctx_.sub(ctx_.sub(count, ctx_.integer(1)), place);
      }
      body.bind(graph.inputs[num_states + k].name, Item::of(emit.slice(graph.inputs[num_states + k].name, whole, shape.input_axes[k], place)));
    }
    MLC_RETURN_IF_ERROR(body.expand(graph));
    LoopPlan::Run run;
    run.condition = condition;
    for (size_t k = 0; k < graph.outputs.size(); ++k) {
      MLC_ASSIGN(Item value, body.value_of(graph.outputs[k].name));
      (k < num_states ? run.carried : run.scanned).push_back(std::move(value));
    }
    return run;
  };
  MLC_ASSIGN(std::vector<Item> results, build_loop(plan));
  Emit emit(ctx_, function_, node.label());
  for (size_t k = 0; k < plan.num_scanned; ++k) {
    Item& value = results[num_states + k];
    if (value.tensor.array == nest::kNoArray) continue;
    if (shape.output_axes[k] >= function_.arrays[value.tensor.array].shape.size())
      return refuse(node, "scanned output " + std::to_string(k) + " has no axis " + std::to_string(shape.output_axes[k]));
    if (shape.output_axes[k] != 0 || shape.output_reversed[k])
      value = Item::of(emit.move_first(shape.names[num_states + k], value.tensor.array, shape.output_axes[k], shape.output_reversed[k]));
  }
  return results;
}

namespace {

// A list of axes or directions: as many as there are values, or none.
Result<std::vector<int64_t>> per_value(const Node& node, const std::string& name, size_t count) {
  std::vector<int64_t> v = ints_attribute(node, name);
  if (v.empty()) v.assign(count, 0);
  if (v.size() != count)
    return Status(Code::Malformed, node.label() + ": attribute '" + name + "' has " + std::to_string(v.size()) + " entries, expected " + std::to_string(count));
  return v;
}

}  // namespace

Status GraphExpander::add_scan(const Node& node, const Inputs& in) {
  MLC_ASSIGN(const model::Graph* graph, body_of(node, "body"));
  const int64_t given = int_attribute(node, "num_scan_inputs", 0);
  if (given < 1 || static_cast<size_t>(given) > in.size() || graph->inputs.size() != in.size())
    return refuse(node, "num_scan_inputs is " + std::to_string(given) + ", the node has " + counted(in.size(), "input") + " and the body " + std::to_string(graph->inputs.size()));
  const size_t num_inputs = static_cast<size_t>(given), num_states = in.size() - num_inputs;
  if (graph->outputs.size() < num_states || node.outputs.size() > graph->outputs.size()) return refuse(node, "the body has " + std::to_string(graph->outputs.size()) + " outputs, the node " + std::to_string(node.outputs.size()));
  const size_t num_outputs = graph->outputs.size() - num_states;
  MLC_ASSIGN(const std::vector<int64_t> input_axes, per_value(node, "scan_input_axes", num_inputs));
  MLC_ASSIGN(const std::vector<int64_t> input_directions, per_value(node, "scan_input_directions", num_inputs));
  MLC_ASSIGN(const std::vector<int64_t> output_axes, per_value(node, "scan_output_axes", num_outputs));
  MLC_ASSIGN(const std::vector<int64_t> output_directions, per_value(node, "scan_output_directions", num_outputs));
  ScanShape shape;
  std::vector<Item> states, inputs;
  Ex trip_count = nullptr;
  for (size_t k = 0; k < in.size(); ++k) {
    MLC_ASSIGN(Item value, tensor_input(node, in, k));
    if (k < num_states) {
      states.push_back(std::move(value));
      continue;
    }
    const auto& extents = function_.arrays[value.tensor.array].shape;
    const int64_t rank = static_cast<int64_t>(extents.size());
    int64_t axis = input_axes[k - num_states];
    if (axis < -rank || axis >= rank) return refuse(node, "scanned input " + std::to_string(k - num_states) + " has no axis " + std::to_string(axis));
    if (axis < 0) axis += rank;
    shape.input_axes.push_back(static_cast<size_t>(axis));
    shape.input_reversed.push_back(input_directions[k - num_states] != 0);
    const Ex extent = extents[static_cast<size_t>(axis)];
    if (!trip_count) trip_count = extent;
    else if (extent != trip_count) {
      const std::string message = node.label() + ": the scanned axes have different extents, " + ir::to_string(trip_count) + " and " + ir::to_string(extent);
      if (extent->is_const() && trip_count->is_const()) return Status(Code::Malformed, message);
      function_.checks.push_back({ctx_.binary(ir::Op::Eq, trip_count, extent), message});
    }
    inputs.push_back(std::move(value));
  }
  for (size_t k = 0; k < num_outputs; ++k) {
    // A negative axis counts from the end of the result, whose rank is that of the body's output plus one.
    const model::Port& port = graph->outputs[num_states + k];
    int64_t axis = output_axes[k];
    if (axis < 0 && port.has_shape) axis += static_cast<int64_t>(port.shape.size()) + 1;
    if (axis < 0) return refuse(node, "scan_output_axes counts from the end of '" + port.name + "', whose rank the file does not say");
    shape.output_axes.push_back(static_cast<size_t>(axis));
    shape.output_reversed.push_back(output_directions[k] != 0);
  }
  for (size_t k = 0; k < graph->outputs.size(); ++k) shape.names.push_back(wanted(node, k) ? node.outputs[k] : "");
  const uint32_t trips = Emit(ctx_, function_, node.label()).number(trip_count);
  MLC_ASSIGN(std::vector<Item> results, scan_loop(node, *graph, std::move(states), inputs, shape, trips, trip_count));
  for (size_t k = 0; k < node.outputs.size(); ++k)
    if (wanted(node, k)) give(node, k, std::move(results[k]));
  return ok();
}

// Opset 8: a batch of scans, axis 0 of everything is the batch and axis 1 the sequence, whose length may differ.
Status GraphExpander::add_scan8(const Node& node, const Inputs& in) {
  MLC_ASSIGN(const model::Graph* graph, body_of(node, "body"));
  const int64_t given = int_attribute(node, "num_scan_inputs", 0);
  if (in.empty() || given < 1 || static_cast<size_t>(given) + 1 > in.size() || graph->inputs.size() + 1 != in.size())
    return refuse(node, "num_scan_inputs is " + std::to_string(given) + ", the node has " + counted(in.size(), "input"));
  const size_t num_inputs = static_cast<size_t>(given), num_states = in.size() - 1 - num_inputs;
  if (graph->outputs.size() < num_states || node.outputs.size() > graph->outputs.size()) return refuse(node, "the body has too few outputs");
  const size_t num_outputs = graph->outputs.size() - num_states;
  MLC_ASSIGN(const std::vector<int64_t> directions, per_value(node, "directions", num_inputs));
  std::vector<Item> values;
  for (size_t k = 1; k < in.size(); ++k) {
    MLC_ASSIGN(Item value, tensor_input(node, in, k));
    if (function_.arrays[value.tensor.array].shape.size() < (k <= num_states ? 1u : 2u)) return refuse(node, "input " + std::to_string(k) + " has no batch or no sequence");
    values.push_back(std::move(value));
  }
  std::optional<Item> lengths;
  if (in[0]) { MLC_ASSIGN(lengths, tensor_input(node, in, 0)); }
  const Ex batch = function_.arrays[values[0].tensor.array].shape[0], longest = function_.arrays[values[num_states].tensor.array].shape[1];
  ScanShape shape;
  shape.input_axes.assign(num_inputs, 0);
  for (int64_t d : directions) shape.input_reversed.push_back(d != 0);
  shape.output_axes.assign(num_outputs, 0);
  shape.output_reversed.assign(num_outputs, false);
  LoopPlan plan;
  plan.label = node.label();
  plan.trip_count = batch;
  plan.trips = Emit(ctx_, function_, node.label()).number(batch);
  plan.num_scanned = graph->outputs.size();
  for (size_t k = 0; k < graph->outputs.size(); ++k) {
    plan.names.push_back(wanted(node, k) ? node.outputs[k] : "");
    shape.names.push_back("of_batch." + std::to_string(k));
  }
  plan.run = [&](GraphExpander& body, const Item& iteration, const Item& condition, const std::vector<Item>&) -> Result<LoopPlan::Run> {
    Emit emit(ctx_, body.function_, node.label());
    const Ex place = emit.load(iteration.tensor.array);
    std::vector<Item> states, inputs;
    for (size_t k = 0; k < values.size(); ++k) {
      const uint32_t own = emit.slice("", body.adopt(values[k]).tensor.array, 0, place);
      (k < num_states ? states : inputs).push_back(Item::of(own));
    }
    const uint32_t trips = lengths ? emit.slice("", body.adopt(*lengths).tensor.array, 0, place) : emit.number(longest);
    MLC_ASSIGN(std::vector<Item> results, body.scan_loop(node, *graph, std::move(states), inputs, shape, trips, lengths ? nullptr : longest));
    LoopPlan::Run run;
    run.condition = condition;
    for (size_t k = 0; k < results.size(); ++k) {
      if (k >= num_states && lengths) results[k] = Item::of(emit.padded("", results[k].tensor.array, emit.load(trips), longest));
      run.scanned.push_back(std::move(results[k]));
    }
    return run;
  };
  MLC_ASSIGN(std::vector<Item> results, build_loop(plan));
  for (size_t k = 0; k < node.outputs.size(); ++k)
    if (wanted(node, k)) give(node, k, std::move(results[k]));
  return ok();
}

Status GraphExpander::add_sequence_map(const Node& node, const Inputs& in) {
  constexpr size_t kMaxUnrolled = 16;
  MLC_ASSIGN(const model::Graph* graph, body_of(node, "body"));
  MLC_ASSIGN(const Item first, list_input(node, in, 0));
  if (graph->inputs.size() != in.size() || graph->outputs.size() < node.outputs.size()) return refuse(node, "the body has another number of inputs or outputs");
  bool known = true;
  for (size_t k = 0; k < in.size(); ++k) {
    if (!in[k]) return refuse(node, "input " + std::to_string(k) + " is missing");
    if (!in[k]->list) continue;
    if (in[k]->list->depth != 1) return refuse(node, "input " + std::to_string(k) + " is " + type_text(*in[k]));
    known = known && in[k]->list->items && in[k]->list->items->size() <= kMaxUnrolled;
    if (known && first.list->items && in[k]->list->items->size() != first.list->items->size())
      return refuse(node, "the sequences have " + std::to_string(first.list->items->size()) + " and " + std::to_string(in[k]->list->items->size()) + " items");
  }
  if (known && !first.list->items->empty()) {
    std::vector<std::vector<Item>> lists(node.outputs.size());
    for (size_t i = 0; i < first.list->items->size(); ++i) {
      std::vector<Item> inputs;
      for (const auto& value : in) inputs.push_back(value->list ? (*value->list->items)[i] : *value);
      MLC_ASSIGN(std::vector<Item> results, inline_body(*graph, inputs, node.label()));
      for (size_t k = 0; k < lists.size(); ++k) {
        if (results[k].list) return refuse(node, "the body gives " + type_text(results[k]));
        lists[k].push_back(std::move(results[k]));
      }
    }
    for (size_t k = 0; k < lists.size(); ++k) {
      const DType dtype = function_.arrays[lists[k][0].tensor.array].dtype;
      give(node, k, {lang::Value{nest::kNoArray, {}}, made_of(dtype, 1, false, std::move(lists[k]))});
    }
    return ok();
  }
  // A list of the run: each run inserts behind what is there.
  std::vector<Item> lists;
  Emit emit(ctx_, function_, node.label());
  for (const auto& value : in) {
    if (!value->list || !value->list->items) {
      lists.push_back(*value);
      continue;
    }
    auto list = std::make_shared<List>(*value->list);
    MLC_ASSIGN(list->array, array_of(*value, node.label()));
    list->items.reset();
    lists.push_back({lang::Value{nest::kNoArray, {}}, list});
  }
  LoopPlan plan;
  plan.label = node.label();
  plan.trips = emit.array("", DType::I64, {});
  emit.control(StepOp::ListLength, {lists[0].list->array}, {plan.trips});
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    DType dtype = graph->outputs[k].dtype;
    plan.carried.push_back({lang::Value{nest::kNoArray, {}}, made_of(dtype, 1, false, {})});
    plan.names.push_back(wanted(node, k) ? node.outputs[k] : "");
    if (dtype == DType::None) return refuse(node, "output " + std::to_string(k) + " of the body has no element type");
  }
  plan.run = [&](GraphExpander& body, const Item& iteration, const Item& condition, const std::vector<Item>& carried) -> Result<LoopPlan::Run> {
    for (size_t k = 0; k < lists.size(); ++k) {
      Item value = body.adopt(lists[k]);
      if (value.list) {
        const std::string& name = graph->inputs[k].name;
        MLC_ASSIGN(value, body.list_at(*value.list, iteration.tensor.array, node.label(), name, &graph->inputs[k]));
      }
      body.bind(graph->inputs[k].name, std::move(value));
    }
    MLC_RETURN_IF_ERROR(body.expand(*graph));
    LoopPlan::Run run;
    run.condition = condition;
    Emit inside(ctx_, body.function_, node.label());
    for (size_t k = 0; k < carried.size(); ++k) {
      MLC_ASSIGN(const Item item, body.value_of(graph->outputs[k].name));
      if (item.list) return refuse(node, "the body gives " + body.type_text(item));
      auto longer = std::make_shared<List>(*carried[k].list);
      longer->shape = joined(longer->shape, body.shape_of(item));
      longer->array = inside.array("", longer->dtype, {}, nest::Array::Kind::Temp, 1);
      inside.control(StepOp::ListInsert, {carried[k].list->array, item.tensor.array, nest::kNoArray}, {longer->array});
      run.carried.push_back({lang::Value{nest::kNoArray, {}}, longer});
    }
    return run;
  };
  MLC_ASSIGN(std::vector<Item> results, build_loop(plan));
  for (size_t k = 0; k < node.outputs.size(); ++k)
    if (wanted(node, k)) give(node, k, std::move(results[k]));
  return ok();
}

}  // namespace mlc::compile
