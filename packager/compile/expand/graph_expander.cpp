#include "packager/compile/expand/graph_expander.h"

#include <algorithm>

#include "packager/ir/numeric.h"

namespace mlc::compile {

using model::Node;

namespace {

// `graph`: what a body becomes.
lang::Attribute attribute_of(const model::Attribute& value, const std::function<lang::GraphAttr(const std::shared_ptr<const model::Graph>&)>& graph) {
  return std::visit(
      [&](const auto& v) -> lang::Attribute {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, model::Tensor>) {
          return lang::TensorAttr{v.dtype, v.shape, std::make_shared<nest::ConstData>(nest::ConstData{v.bytes, v.owner})};
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const model::Graph>>) {
          return graph(v);
        } else if constexpr (std::is_same_v<T, model::Port>) {
          return std::string();  // no operator text asks for a type
        } else {
          return v;
        }
      },
      value);
}

}  // namespace

Status GraphExpander::expand(const model::Graph& graph) {
  graph_ = &graph;
  const size_t nodes = count_readers(graph);
  if (!around_) all_.max_nodes = std::max(all_.max_nodes, 32 * nodes);
  for (const Node& node : graph.nodes) MLC_RETURN_IF_ERROR(add_node(node));
  return ok();
}

// Bodies read values of the graphs around them. Without recursion: bodies nest.
size_t GraphExpander::count_readers(const model::Graph& graph) {
  size_t nodes = 0;
  std::vector<const model::Graph*> open{&graph};
  while (!open.empty()) {
    const model::Graph& g = *open.back();
    open.pop_back();
    nodes += g.nodes.size();
    for (const Node& node : g.nodes) {
      for (const std::string& name : node.inputs) ++readers_[name];
      for (const auto& [key, value] : node.attributes)
        if (auto body = std::get_if<std::shared_ptr<const model::Graph>>(&value)) open.push_back(body->get());
    }
    for (const model::Port& port : g.outputs) ++readers_[port.name];
  }
  return nodes;
}

int64_t GraphExpander::opset_of(const Node& node) const {
  if (node.opset) return node.opset;
  auto found = all_.model.opsets.find(node.domain);
  return found == all_.model.opsets.end() ? 1 : found->second;
}

// The initializer that `name` means here, in this graph or one around it.
const model::Tensor* GraphExpander::initializer(const std::string& name) const {
  for (const GraphExpander* g = this; g; g = g->around_) {
    if (g->graph_)
      if (auto found = g->graph_->initializers.find(name); found != g->graph_->initializers.end()) return &found->second;
    if (g->values_.count(name)) return nullptr;
  }
  return nullptr;
}

// Initializers become arrays when something reads them, in each function that does; their bytes exist once.
Result<Item> GraphExpander::value_of(const std::string& name) {
  if (auto found = values_.find(name); found != values_.end()) return found->second;
  if (maps_.count(name)) return Status(Code::Malformed, "'" + name + "' is a map, which no operator takes but DictVectorizer and CastMap");
  if (around_ && &around_->function_ == &function_ && !(graph_ && graph_->initializers.count(name))) return around_->value_of(name);
  if (const model::Tensor* tensor = initializer(name)) {
    MLC_ASSIGN(Item value, add_constant(name, *tensor));
    values_[name] = value;
    return value;
  }
  if (!around_) return Status(Code::Internal, "value '" + name + "' is read before it is written");
  MLC_ASSIGN(const Item outer, around_->value_of(name));
  Item value = adopt(outer);
  values_[name] = value;
  return value;
}

Result<Item> GraphExpander::add_constant(const std::string& name, const model::Tensor& tensor) {
  if (tensor.dtype == DType::Str) return string_constant(name, tensor.shape, tensor.strings);
  std::vector<Ex> shape;
  for (int64_t extent : tensor.shape) shape.push_back(ctx_.integer(extent));
  const uint32_t array = Emit(ctx_, function_, name).array(name, tensor.dtype, std::move(shape), nest::Array::Kind::Const);
  function_.arrays[array].data = std::make_shared<nest::ConstData>(nest::ConstData{tensor.bytes, tensor.owner});
  return Item::of(array);
}

// An array of the function around becomes an argument of this one; a constant is simply one here too.
uint32_t GraphExpander::adopt_array(uint32_t outer) {
  if (auto found = adopted_.find(outer); found != adopted_.end()) return found->second;
  const nest::Array& a = around_->function_.arrays[outer];
  const bool constant = a.kind == nest::Array::Kind::Const;
  const uint32_t inner = Emit(ctx_, function_, a.name).array(a.name, a.dtype, a.shape, constant ? nest::Array::Kind::Const : nest::Array::Kind::Input, a.list_depth);
  function_.arrays[inner].data = a.data;
  if (!constant) captures_.push_back({outer, inner});
  adopted_[outer] = inner;
  return inner;
}

Item GraphExpander::adopt(const Item& outer) {
  if (!outer.list) return {lang::Value{adopt_array(outer.tensor.array), outer.tensor.elements}, nullptr};
  auto list = std::make_shared<List>(*outer.list);
  if (list->items)
    for (Item& item : *list->items) item = adopt(item);
  else
    list->array = adopt_array(list->array);
  return {lang::Value{nest::kNoArray, {}}, list};
}

Result<uint32_t> GraphExpander::array_of(const Item& value, const std::string& source) {
  if (!value.list) return value.tensor.array;
  if (!value.list->items) return value.list->array;
  std::vector<uint32_t> items;
  for (const Item& item : *value.list->items) {
    MLC_ASSIGN(const uint32_t array, array_of(item, source));
    items.push_back(array);
  }
  Emit emit(ctx_, function_, source);
  const uint32_t list = emit.array("", value.list->dtype, {}, nest::Array::Kind::Temp, value.list->depth);
  emit.control(StepOp::ListMake, std::move(items), {list});
  return list;
}

Status GraphExpander::add_node(const Node& node) {
  if (++all_.nodes > all_.max_nodes)
    return Status(Code::Resource, 2014, "the bodies of the model come to more than " + std::to_string(all_.max_nodes) + " nodes when they are expanded, at '" + node.label() + "'");
  if (is_structural(node.domain, node.op)) return structural(node);
  if (node.domain == "ai.onnx" && node.op == "Identity" && node.inputs.size() == 1 && !node.inputs[0].empty()) {
    MLC_ASSIGN(Item value, value_of(node.inputs[0]));
    if (value.list) {
      give(node, 0, std::move(value));
      return ok();
    }
  }
  if (is_map_operator(node.domain, node.op)) return add_map_operator(node);
  if (is_host_operator(node.domain, node.op, opset_of(node))) return add_host_operator(node);
  if (touches_strings(node)) return add_string_operator(node);
  return call_library(node);
}

// A body that an operator's text calls: tensors in, tensors out.
Result<std::vector<lang::Value>> GraphExpander::inline_for_text(const Node& node, const model::Graph& body, const std::vector<lang::Value>& inputs) {
  std::vector<Item> items;
  for (const lang::Value& value : inputs) items.push_back({value, nullptr});
  MLC_ASSIGN(const std::vector<Item> results, inline_body(body, items, node.label()));
  std::vector<lang::Value> values;
  for (const Item& result : results) {
    if (result.list) return refuse(node, "a body answers " + type_text(result) + ", a tensor is expected");
    values.push_back(result.tensor);
  }
  return values;
}

// Of a value inside a model: no operator needs so many, and what follows would work on each pair of them.
constexpr size_t kMaxAxes = 64;

Status GraphExpander::call_library(const Node& node) {
  lang::Call call;
  call.domain = node.domain;
  call.name = node.op;
  call.opset = opset_of(node);
  call.source = node.label();
  const auto graph = [&](const std::shared_ptr<const model::Graph>& body) {
    return lang::GraphAttr{[this, &node, body](const std::vector<lang::Value>& inputs) { return inline_for_text(node, *body, inputs); }};
  };
  for (const auto& [name, value] : node.attributes) call.attributes[name] = attribute_of(value, graph);
  for (const std::string& input : node.inputs) {
    if (input.empty()) {
      call.inputs.emplace_back(std::nullopt);
      continue;
    }
    MLC_ASSIGN(const Item value, value_of(input));
    if (value.list) return refuse(node, "input '" + input + "' is " + type_text(value) + ", a tensor is expected");
    call.inputs.emplace_back(value.tensor);
  }
  MLC_RETURN_IF_ERROR(fix_lengths(node, call));
  MLC_RETURN_IF_ERROR(name_axes_of_squeeze(node, call));
  call.outputs.clear();
  for (size_t k = 0; k < node.outputs.size(); ++k) call.outputs.push_back(wanted(node, k));
  call.output_names = node.outputs;
  for (std::string& name : call.output_names)
    if (name.find('\n') != std::string::npos) name.clear();  // not of the model: strings.cpp
  if (call.outputs.empty()) return ok();
  MLC_ASSIGN(const std::vector<lang::Value> outputs, all_.library.expand(ctx_, function_, call));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (!call.outputs[k]) continue;
    if (const size_t rank = function_.arrays[outputs[k].array].shape.size(); rank > kMaxAxes)
      return refuse(node, "'" + node.outputs[k] + "' has " + std::to_string(rank) + " axes, at most " + std::to_string(kMaxAxes) + " are possible");
    values_[node.outputs[k]] = {outputs[k], nullptr};
  }
  return ok();
}

Result<uint32_t> GraphExpander::text_call(const std::string& domain, const std::string& op, int64_t opset, const std::vector<uint32_t>& inputs,
                                          std::map<std::string, lang::Attribute> attributes, const std::string& source, const std::string& name) {
  lang::Call call;
  call.domain = domain;
  call.name = op;
  call.opset = opset;
  call.source = source;
  call.attributes = std::move(attributes);
  for (uint32_t input : inputs) call.inputs.emplace_back(lang::Value{input, {}});
  call.output_names = {name};
  MLC_ASSIGN(const auto results, all_.library.expand(ctx_, function_, call));
  return results[0].array;
}

// A run numbers its texts 1, 2, ..., so a table that has a place for each number up to the highest of a key finds all of them in the
// time that it takes to look at each once.
Result<uint32_t> GraphExpander::places_among(uint32_t wanted, uint32_t keys, const std::string& source) {
  if (function_.arrays[keys].dtype != DType::Str) return text_call("mlc.strings", "Find", 1, {wanted, keys}, {}, source, "");
  MLC_ASSIGN(const uint32_t number, text_call("mlc.strings", "Numbers", 1, {wanted}, {}, source, ""));
  MLC_ASSIGN(const uint32_t key, text_call("mlc.strings", "Numbers", 1, {keys}, {}, source, ""));
  MLC_ASSIGN(const uint32_t highest, text_call("mlc.strings", "Highest", 1, {key}, {}, source, ""));
  return text_call("mlc.strings", "FindNumbers", 1, {number, key, highest}, {}, source, "");
}

Result<std::vector<lang::Value>> GraphExpander::call(const std::string& op, int64_t opset, std::map<std::string, lang::Attribute> attributes,
                                                     const std::vector<lang::Value>& inputs, const std::string& source, const std::string& name) {
  lang::Call call;
  call.domain = "ai.onnx";
  call.name = op;
  call.opset = opset;
  call.source = source;
  call.attributes = std::move(attributes);
  for (const lang::Value& v : inputs) call.inputs.emplace_back(v);
  call.output_names = {name};
  return all_.library.expand(ctx_, function_, call);
}

std::vector<GraphExpander::Ex> GraphExpander::elements_of(const lang::Value& value) const {
  if (!value.elements.empty()) return value.elements;
  const nest::Array& a = function_.arrays[value.array];
  if (a.kind != nest::Array::Kind::Const || !a.data || !(is_int(a.dtype) || a.dtype == DType::Bool)) return {};
  const size_t count = a.data->bytes.size() / bytes_of(a.dtype);
  std::vector<Ex> r;
  if (count > lang::kMaxElements) return r;
  for (size_t k = 0; k < count; ++k) {
    const int64_t v = ir::load_element(a.dtype, a.data->bytes.data(), k).i;
    r.push_back(a.dtype == DType::Bool ? ctx_.boolean(v != 0) : ctx_.integer(v));
  }
  return r;
}

std::optional<int64_t> GraphExpander::number_of(const lang::Value& value) const {
  const std::vector<Ex> elements = elements_of(value);
  if (elements.size() != 1 || is_float(elements[0]->type.dtype)) return {};
  if (elements[0]->is_const()) return elements[0]->i;
  if (elements[0]->type.dtype == DType::Bool) {
    if (ir::proves(ctx_, elements[0])) return 1;
    if (ir::proves(ctx_, ctx_.logical_not(elements[0]))) return 0;
  }
  return {};
}

const ir::Sym* GraphExpander::fresh_symbol(const std::string& name, int64_t lo, int64_t hi) {
  const std::string base = function_.name + ":" + name;
  std::string unique = base;
  for (int n = 2; !all_.symbols.insert(unique).second; ++n) unique = base + "#" + std::to_string(n);
  const ir::Sym* sym = ctx_.declare_sym(unique, lo, hi);
  fresh_.insert(sym);
  return sym;
}

std::set<const ir::Sym*> GraphExpander::own_symbols() const {
  std::set<const ir::Sym*> own = fresh_;
  for (const nest::Statement& s : function_.body) {
    if (s.control) own.insert(s.control->symbols.begin(), s.control->symbols.end());
  }
  return own;
}

bool GraphExpander::is_free_of(Ex e, const std::set<const ir::Sym*>& symbols) {
  bool free = true;
  ir::walk(e, [&](Ex x) { free = free && (x->op != ir::Op::Sym || !symbols.count(x->sym)); });
  return free;
}

ItemShape GraphExpander::shape_of(const Item& value) const {
  if (value.list) return value.list->shape;
  return {false, function_.arrays[value.tensor.array].shape};
}

std::shared_ptr<List> GraphExpander::made_of(DType dtype, uint8_t depth, bool optional, std::vector<Item> items) const {
  auto list = std::make_shared<List>();
  list->dtype = dtype;
  list->depth = depth;
  list->optional = optional;
  list->shape.none = true;
  for (const Item& item : items) list->shape = joined(list->shape, shape_of(item));
  list->items = std::move(items);
  return list;
}

std::string GraphExpander::type_text(const Item& value) const {
  model::Port port;
  port.has_shape = false;
  if (!value.list) {
    const nest::Array& a = function_.arrays[value.tensor.array];
    std::string s = std::string(name_of(a.dtype)) + "[";
    for (size_t k = 0; k < a.shape.size(); ++k) s += (k ? ", " : "") + ir::to_string(a.shape[k]);
    return s + "]";
  }
  std::string s = value.list->optional ? "an optional" : "a list";
  for (unsigned level = 1; level < value.list->depth; ++level) s += " of lists";
  return s + " of " + std::string(name_of(value.list->dtype));
}

Status GraphExpander::refuse(const Node& node, const std::string& what) const {
  return Status(Code::Malformed, node.label() + " (" + node.domain + "." + node.op + ", opset " + std::to_string(opset_of(node)) + "): " + what);
}

void GraphExpander::give(const Node& node, size_t output, Item value) {
  if (output < node.outputs.size() && !node.outputs[output].empty()) values_[node.outputs[output]] = std::move(value);
}
bool GraphExpander::wanted(const Node& node, size_t output) const {
  return output < node.outputs.size() && !node.outputs[output].empty() && readers_.count(node.outputs[output]);
}
const model::Port* GraphExpander::hint(const std::string& name) const {
  if (!graph_) return nullptr;
  if (auto found = graph_->types.find(name); found != graph_->types.end()) return &found->second;
  for (const model::Port& port : graph_->outputs)
    if (port.name == name) return &port;
  return nullptr;
}

}  // namespace mlc::compile
