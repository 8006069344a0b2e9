// Sequences and optionals. What is known of a list while building stays there: a position that is a constant then picks
// an item without any list at run time.
#include <algorithm>
#include <map>

#include "packager/compile/expand/graph_expander.h"

namespace mlc::compile {

using model::Node;

namespace {

Item item_of(std::shared_ptr<List> list) { return {lang::Value{nest::kNoArray, {}}, std::move(list)}; }

}  // namespace

Result<Item> GraphExpander::list_input(const Node& node, const Inputs& in, size_t k) const {
  if (k >= in.size() || !in[k]) return refuse(node, "input " + std::to_string(k) + " is missing");
  if (!in[k]->list) return refuse(node, "input " + std::to_string(k) + " is " + type_text(*in[k]) + ", a sequence is expected");
  return *in[k];
}

// One i64 number in an array.
Result<uint32_t> GraphExpander::position_array(const Item& position, const std::string& source) {
  const nest::Array& a = function_.arrays[position.tensor.array];
  if (a.dtype == DType::I64) return position.tensor.array;
  MLC_ASSIGN(const auto wide, call("Cast", 13, {{"to", DType::I64}}, {position.tensor}, source));
  return wide[0].array;
}

// An item of a list of the run. Axes that are not the same for all items are known when it is there.
Result<Item> GraphExpander::list_at(const List& list, uint32_t position, const std::string& source, const std::string& name, const model::Port* hint) {
  Emit emit(ctx_, function_, source);
  if (list.depth > 1) {
    auto inner = std::make_shared<List>(list);
    inner->depth = list.depth - 1;
    inner->optional = false;
    inner->items.reset();
    inner->array = emit.array(name, list.dtype, {}, nest::Array::Kind::Temp, inner->depth);
    emit.control(StepOp::ListAt, {list.array, position}, {inner->array});
    return item_of(inner);
  }
  std::vector<Ex> shape;
  if (list.shape.axes) shape = *list.shape.axes;
  else if (hint && hint->has_shape && hint->list_depth == 0) shape.assign(hint->shape.size(), nullptr);
  else
    return Status(Code::Unsupported, 2013, source + ": the rank of the items of a sequence is not known while building")
        .hint("run onnx.shape_inference on the model, which says it");
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (!shape[axis]) shape[axis] = ctx_.sym(fresh_symbol((name.empty() ? source : name) + "." + std::to_string(axis), 0, INT64_MAX));
  const uint32_t out = emit.array(name, list.dtype, std::move(shape));
  emit.control(StepOp::ListAt, {list.array, position}, {out});
  return Item::of(out);
}

// One node that makes, takes or asks for lists. Where all of a list is known while building, so is the answer.
struct GraphExpander::ListCall {
  GraphExpander& g;
  const Node& node;
  const Inputs& in;
  const std::string source = node.label();
  const std::string name = node.outputs[0];
  Emit emit = Emit(g.ctx_, g.function_, source);

  Status construct();
  Status empty();
  Status optional();
  Status has_element();
  Status get_element();
  Status length();
  Status at();
  Status insert();
  Status erase();
  Status split() { return g.split_to_sequence(node, in); }
  Status concat() { return g.concat_from_sequence(node, in); }

 private:
  bool has(size_t k) const { return k < in.size() && in[k]; }
  Status give(Item value) {
    g.give(node, 0, std::move(value));
    return ok();
  }
  DType type_of(const Item& item) const { return item.list ? item.list->dtype : g.function_.arrays[item.tensor.array].dtype; }
  Result<std::optional<size_t>> known_place(size_t k, size_t count, bool or_end = false);
  Result<uint32_t> place_of_run(size_t k);
  Item of_run(const List& like, const ItemShape& shape);
  Item known(const List& like, std::vector<Item> items) { return item_of(g.made_of(like.dtype, like.depth, like.optional, std::move(items))); }
};

Status GraphExpander::add_list_operator(const Node& node, const Inputs& in) {
  using C = ListCall;
  static const std::map<std::string, Status (C::*)()> kOperators = {
      {"SequenceConstruct", &C::construct}, {"SequenceEmpty", &C::empty}, {"Optional", &C::optional}, {"OptionalHasElement", &C::has_element},
      {"OptionalGetElement", &C::get_element}, {"SequenceLength", &C::length}, {"SequenceAt", &C::at}, {"SequenceInsert", &C::insert},
      {"SequenceErase", &C::erase}, {"SplitToSequence", &C::split}, {"ConcatFromSequence", &C::concat}};
  if (!wanted(node, 0)) return ok();
  const auto found = kOperators.find(node.op);
  if (found == kOperators.end()) return refuse(node, "is not known here");
  C call{*this, node, in};
  return (call.*found->second)();
}

// Input k as a position among `count` places, or behind them, where it is known while building.
Result<std::optional<size_t>> GraphExpander::ListCall::known_place(size_t k, size_t count, bool or_end) {
  MLC_ASSIGN(const Item position, g.tensor_input(node, in, k));
  if (!is_int(g.function_.arrays[position.tensor.array].dtype)) return g.refuse(node, "the position is " + g.type_text(position) + ", an integer is expected");
  const auto given = g.number_of(position.tensor);
  if (!given) return std::optional<size_t>();
  const int64_t n = static_cast<int64_t>(count);
  if (*given < -n || *given >= n + or_end) return g.refuse(node, "position " + std::to_string(*given) + " in a sequence of " + std::to_string(n));
  return std::optional<size_t>(static_cast<size_t>(*given < 0 ? *given + n : *given));
}

// The same as an array; none where the node leaves it out.
Result<uint32_t> GraphExpander::ListCall::place_of_run(size_t k) {
  if (!has(k)) return nest::kNoArray;
  MLC_ASSIGN(const Item position, g.tensor_input(node, in, k));
  return g.position_array(position, source);
}

// A list of the run in a new array.
Item GraphExpander::ListCall::of_run(const List& like, const ItemShape& shape) {
  auto list = std::make_shared<List>(like);
  list->items.reset();
  list->shape = shape;
  list->array = emit.array(name, like.dtype, {}, nest::Array::Kind::Temp, like.depth);
  return item_of(std::move(list));
}

Status GraphExpander::ListCall::construct() {
  std::vector<Item> items;
  for (size_t k = 0; k < in.size(); ++k) {
    MLC_ASSIGN(Item item, g.tensor_input(node, in, k));
    if (k > 0 && type_of(item) != type_of(items[0])) return g.refuse(node, "items of different element types");
    items.push_back(std::move(item));
  }
  if (items.empty()) return g.refuse(node, "at least one input is expected");
  const DType dtype = type_of(items[0]);
  return give(item_of(g.made_of(dtype, 1, false, std::move(items))));
}

Status GraphExpander::ListCall::empty() {
  const DType dtype = lang::dtype_of_onnx(int_attribute(node, "dtype", 1));
  if (dtype == DType::None) return g.refuse(node, "attribute 'dtype' names no element type");
  return give(item_of(g.made_of(dtype, 1, false, {})));
}

Status GraphExpander::ListCall::optional() {
  if (has(0)) return give(item_of(g.made_of(type_of(*in[0]), in[0]->list ? static_cast<uint8_t>(in[0]->list->depth + 1) : 1, true, {*in[0]})));
  const auto at = node.attributes.find("type");
  const auto* type = at == node.attributes.end() ? nullptr : std::get_if<model::Port>(&at->second);
  if (!type || type->dtype == DType::None) return g.refuse(node, "an empty optional wants the attribute 'type'");
  const uint8_t depth = type->optional ? type->list_depth : static_cast<uint8_t>(type->list_depth + 1);
  return give(item_of(g.made_of(type->dtype, depth, true, {})));
}

Status GraphExpander::ListCall::has_element() {
  if (!has(0) || !in[0]->list || !in[0]->list->optional || in[0]->list->items) {
    const bool there = has(0) && (!in[0]->list || !in[0]->list->optional || !in[0]->list->items->empty());
    return give({lang::Value{emit.constant(there, DType::Bool), {g.ctx_.boolean(there)}}, nullptr});
  }
  const uint32_t length = emit.array("", DType::I64, {});
  emit.control(StepOp::ListLength, {in[0]->list->array}, {length});
  return give(Item::of(emit.truth(name, g.ctx_.binary(ir::Op::Ne, emit.load(length), g.ctx_.integer(0)))));
}

Status GraphExpander::ListCall::get_element() {
  if (!has(0)) return g.refuse(node, "the optional is empty");
  const Item& value = *in[0];
  if (!value.list || !value.list->optional) return give(value);
  if (value.list->items) {
    if (value.list->items->empty()) return g.refuse(node, "the optional is empty");
    return give(value.list->items->front());
  }
  MLC_ASSIGN(Item item, g.list_at(*value.list, emit.constant(0), source, name, g.hint(name)));
  return give(std::move(item));
}

Status GraphExpander::ListCall::length() {
  MLC_ASSIGN(const Item sequence, g.list_input(node, in, 0));
  if (sequence.list->items) {
    const int64_t n = static_cast<int64_t>(sequence.list->items->size());
    return give({lang::Value{emit.constant(n), {g.ctx_.integer(n)}}, nullptr});
  }
  const uint32_t out = emit.array(name, DType::I64, {});
  emit.control(StepOp::ListLength, {sequence.list->array}, {out});
  return give(Item::of(out));
}

Status GraphExpander::ListCall::at() {
  MLC_ASSIGN(const Item sequence, g.list_input(node, in, 0));
  MLC_ASSIGN(const Item position, g.tensor_input(node, in, 1));
  if (sequence.list->items) {
    MLC_ASSIGN(const auto at, known_place(1, sequence.list->items->size()));
    if (at) return give((*sequence.list->items)[*at]);
  }
  List list = *sequence.list;
  MLC_ASSIGN(list.array, g.array_of(sequence, source));
  MLC_ASSIGN(const uint32_t at, g.position_array(position, source));
  MLC_ASSIGN(Item item, g.list_at(list, at, source, name, g.hint(name)));
  return give(std::move(item));
}

// Negative positions count from the end, where nothing can be inserted behind: -1 is before the last.
Status GraphExpander::ListCall::insert() {
  MLC_ASSIGN(const Item sequence, g.list_input(node, in, 0));
  const List& list = *sequence.list;
  if (!has(1)) return g.refuse(node, "input 1 is missing");
  const Item& item = *in[1];
  if (type_of(item) != list.dtype || (item.list ? item.list->depth : 0) + 1 != list.depth)
    return g.refuse(node, g.type_text(item) + " is inserted into " + g.type_text(sequence));
  if (list.items) {
    std::optional<size_t> at = list.items->size();
    if (has(2)) { MLC_ASSIGN(at, known_place(2, list.items->size(), true)); }
    if (at) {
      std::vector<Item> items = *list.items;
      items.insert(items.begin() + static_cast<long>(*at), item);
      return give(known(list, std::move(items)));
    }
  }
  MLC_ASSIGN(const uint32_t before, g.array_of(sequence, source));
  MLC_ASSIGN(const uint32_t inserted, g.array_of(item, source));
  MLC_ASSIGN(const uint32_t at, place_of_run(2));
  const Item longer = of_run(list, joined(list.shape, g.shape_of(item)));
  emit.control(StepOp::ListInsert, {before, inserted, at}, {longer.list->array});
  return give(longer);
}

Status GraphExpander::ListCall::erase() {
  MLC_ASSIGN(const Item sequence, g.list_input(node, in, 0));
  const List& list = *sequence.list;
  if (list.items) {
    if (list.items->empty()) return g.refuse(node, "an item of an empty sequence is erased");
    std::optional<size_t> at = list.items->size() - 1;
    if (has(1)) { MLC_ASSIGN(at, known_place(1, list.items->size())); }
    if (at) {
      std::vector<Item> items = *list.items;
      items.erase(items.begin() + static_cast<long>(*at));
      return give(known(list, std::move(items)));
    }
  }
  MLC_ASSIGN(const uint32_t before, g.array_of(sequence, source));
  MLC_ASSIGN(const uint32_t at, place_of_run(1));
  const Item shorter = of_run(list, list.shape);
  emit.control(StepOp::ListErase, {before, at}, {shorter.list->array});
  return give(shorter);
}

Status GraphExpander::split_to_sequence(const Node& node, const Inputs& in) {
  constexpr int64_t kMaxPieces = 256;
  const std::string source = node.label(), name = node.outputs[0];
  MLC_ASSIGN(const Item whole, tensor_input(node, in, 0));
  const nest::Array a = function_.arrays[whole.tensor.array];
  const int64_t rank = static_cast<int64_t>(a.shape.size());
  int64_t axis = int_attribute(node, "axis", 0);
  if (axis < -rank || axis >= rank) return refuse(node, "axis " + std::to_string(axis) + " of " + type_text(whole));
  if (axis < 0) axis += rank;
  const bool has_split = in.size() > 1 && in[1];
  const bool drop = !has_split && int_attribute(node, "keepdims", 1) == 0;
  const Ex extent = a.shape[static_cast<size_t>(axis)];
  Emit emit(ctx_, function_, source);

  // Lengths of the pieces, where they are known.
  std::optional<std::vector<int64_t>> pieces;
  std::optional<int64_t> each = 1;
  bool equal = true;
  if (has_split) {
    MLC_ASSIGN(const Item split, tensor_input(node, in, 1));
    equal = function_.arrays[split.tensor.array].shape.empty();
    each.reset();
    const std::vector<Ex> elements = elements_of(split.tensor);
    const bool constant = !elements.empty() && std::all_of(elements.begin(), elements.end(), [](Ex e) { return e->is_const(); });
    if (constant && equal) each = elements[0]->i;
    if (each && *each < 1) return refuse(node, "pieces of length " + std::to_string(*each));
    if (constant && !equal && extent->is_const()) {
      int64_t rest = extent->i;
      pieces.emplace();
      for (Ex e : elements) {
        if (e->i < 0 || e->i > rest) return refuse(node, "the pieces do not add up to " + std::to_string(extent->i));
        pieces->push_back(e->i);
        rest -= e->i;
      }
      if (rest != 0) return refuse(node, "the pieces do not add up to " + std::to_string(extent->i));
    }
  }
  if (each && extent->is_const() && extent->i / *each < kMaxPieces) {
    pieces.emplace();
    for (int64_t at = 0; at < extent->i; at += *each) pieces->push_back(std::min(*each, extent->i - at));
  }
  if (pieces) {
    std::vector<Item> items;
    int64_t at = 0;
    for (size_t k = 0; k < pieces->size(); ++k) {
      const std::string part = name + "[" + std::to_string(k) + "]";
      items.push_back(Item::of(drop ? emit.slice(part, whole.tensor.array, static_cast<size_t>(axis), ctx_.integer(at))
                                    : emit.piece(part, whole.tensor.array, static_cast<size_t>(axis), ctx_.integer(at), ctx_.integer((*pieces)[k]))));
      at += (*pieces)[k];
    }
    give(node, 0, item_of(made_of(a.dtype, 1, false, std::move(items))));
    return ok();
  }
  auto list = made_of(a.dtype, 1, false, {});
  list->items.reset();
  std::vector<Ex> shape = a.shape;
  Ex& along = shape[static_cast<size_t>(axis)];
  along = each && ir::divisor_of(extent) % *each == 0 ? ctx_.integer(*each) : nullptr;
  if (drop) shape.erase(shape.begin() + static_cast<long>(axis));
  list->shape = {false, shape};
  uint32_t lengths = nest::kNoArray;
  if (has_split) { MLC_ASSIGN(lengths, position_array(*in[1], source)); }
  list->array = emit.array(name, a.dtype, {}, nest::Array::Kind::Temp, 1);
  nest::Control& control = emit.control(StepOp::ListSplit, {whole.tensor.array, lengths}, {list->array});
  control.set.axis = static_cast<uint32_t>(axis);
  control.set.drop_axis = drop;
  give(node, 0, item_of(list));
  return ok();
}

Status GraphExpander::concat_from_sequence(const Node& node, const Inputs& in) {
  const std::string source = node.label(), name = node.outputs[0];
  MLC_ASSIGN(const Item sequence, list_input(node, in, 0));
  const List& list = *sequence.list;
  if (list.depth != 1) return refuse(node, "the input is " + type_text(sequence));
  const bool new_axis = int_attribute(node, "new_axis", 0) != 0;
  if (node.attributes.find("axis") == node.attributes.end()) return refuse(node, "attribute 'axis' is missing");
  int64_t axis = int_attribute(node, "axis", 0);
  if (list.items) {
    if (list.items->empty()) return refuse(node, "an empty sequence is concatenated");
    std::vector<lang::Value> parts;
    for (const Item& item : *list.items) {
      parts.push_back(item.tensor);
      if (!new_axis) continue;
      MLC_ASSIGN(auto longer, call("Unsqueeze", 11, {{"axes", std::vector<int64_t>{axis}}}, {item.tensor}, source));
      parts.back() = longer[0];
    }
    MLC_ASSIGN(const auto result, call("Concat", 13, {{"axis", axis}}, parts, source, name));
    give(node, 0, {result[0], nullptr});
    return ok();
  }
  std::vector<Ex> shape;
  const model::Port* said = hint(name);
  if (list.shape.axes) {
    shape = *list.shape.axes;
    if (new_axis) shape.push_back(nullptr);
  } else if (said && said->has_shape && said->list_depth == 0) {
    shape.assign(said->shape.size(), nullptr);
  } else {
    return Status(Code::Unsupported, 2013, source + ": the rank of the items of a sequence is not known while building")
        .hint("run onnx.shape_inference on the model, which says it");
  }
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank) return refuse(node, "axis " + std::to_string(axis) + " of a result of rank " + std::to_string(rank));
  if (axis < 0) axis += rank;
  if (new_axis && list.shape.axes) {
    shape.pop_back();
    shape.insert(shape.begin() + static_cast<long>(axis), nullptr);
  }
  shape[static_cast<size_t>(axis)] = nullptr;
  for (size_t k = 0; k < shape.size(); ++k)
    if (!shape[k]) shape[k] = ctx_.sym(fresh_symbol(name + "." + std::to_string(k), 0, INT64_MAX));
  Emit emit(ctx_, function_, source);
  const uint32_t out = emit.array(name, list.dtype, std::move(shape));
  nest::Control& control = emit.control(StepOp::ListConcat, {list.array}, {out});
  control.set.axis = static_cast<uint32_t>(axis);
  control.set.new_axis = new_axis;
  give(node, 0, Item::of(out));
  return ok();
}

}  // namespace mlc::compile
