// Sequences and optionals. What is known of a list while building stays there: a position that is a constant then picks
// an item without any list at run time.
#include <algorithm>

#include "packager/compile/expand/graph_expander.h"

namespace mlc::compile {

using model::Node;
using Kind = nest::Control::Kind;

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
    emit.control(Kind::ListAt, {list.array, position}, {inner->array});
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
  emit.control(Kind::ListAt, {list.array, position}, {out});
  return Item::of(out);
}

Status GraphExpander::add_list_operator(const Node& node, const Inputs& in) {
  const std::string source = node.label();
  const std::string name = node.outputs.empty() ? "" : node.outputs[0];
  if (!wanted(node, 0)) return ok();
  Emit emit(ctx_, function_, source);
  // A position among `count` places, where it is known while building.
  auto place = [&](size_t k, size_t count) -> Result<std::optional<size_t>> {
    MLC_ASSIGN(const Item position, tensor_input(node, in, k));
    const nest::Array& a = function_.arrays[position.tensor.array];
    if (!is_int(a.dtype)) return refuse(node, "the position is " + type_text(position) + ", an integer is expected");
    const auto known = number_of(position.tensor);
    if (!known) return std::optional<size_t>();
    const int64_t n = static_cast<int64_t>(count);
    if (*known < -n || *known >= n) return refuse(node, "position " + std::to_string(*known) + " in a sequence of " + std::to_string(n));
    return std::optional<size_t>(static_cast<size_t>(*known < 0 ? *known + n : *known));
  };
  // A copy of what is known about a list, as one of the run in a new array.
  auto of_run = [&](const List& like) {
    auto list = std::make_shared<List>(like);
    list->items.reset();
    list->array = emit.array(name, like.dtype, {}, nest::Array::Kind::Temp, like.depth);
    return list;
  };
  auto has = [&](size_t k) { return k < in.size() && in[k]; };

  if (node.op == "SequenceConstruct") {
    std::vector<Item> items;
    DType dtype = DType::None;
    for (size_t k = 0; k < in.size(); ++k) {
      MLC_ASSIGN(Item item, tensor_input(node, in, k));
      const DType t = function_.arrays[item.tensor.array].dtype;
      if (k > 0 && t != dtype) return refuse(node, "items of different element types");
      dtype = t;
      items.push_back(std::move(item));
    }
    if (items.empty()) return refuse(node, "at least one input is expected");
    give(node, 0, item_of(made_of(dtype, 1, false, std::move(items))));
    return ok();
  }
  if (node.op == "SequenceEmpty") {
    const DType dtype = lang::dtype_of_onnx(int_attribute(node, "dtype", 1));
    if (dtype == DType::None) return refuse(node, "attribute 'dtype' names no element type");
    give(node, 0, item_of(made_of(dtype, 1, false, {})));
    return ok();
  }
  if (node.op == "Optional") {
    if (has(0)) {
      const DType dtype = in[0]->list ? in[0]->list->dtype : function_.arrays[in[0]->tensor.array].dtype;
      give(node, 0, item_of(made_of(dtype, in[0]->list ? static_cast<uint8_t>(in[0]->list->depth + 1) : 1, true, {*in[0]})));
      return ok();
    }
    auto at = node.attributes.find("type");
    const auto* type = at == node.attributes.end() ? nullptr : std::get_if<model::Port>(&at->second);
    if (!type || type->dtype == DType::None) return refuse(node, "an empty optional wants the attribute 'type'");
    const uint8_t depth = type->optional ? type->list_depth : static_cast<uint8_t>(type->list_depth + 1);
    give(node, 0, item_of(made_of(type->dtype, depth, true, {})));
    return ok();
  }
  if (node.op == "OptionalHasElement") {
    if (!has(0) || !in[0]->list || !in[0]->list->optional || in[0]->list->items) {
      const bool there = has(0) && (!in[0]->list || !in[0]->list->optional || !in[0]->list->items->empty());
      const uint32_t out = emit.constant(there, DType::Bool);
      give(node, 0, {lang::Value{out, {ctx_.boolean(there)}}, nullptr});
      return ok();
    }
    const uint32_t length = emit.array("", DType::I64, {});
    emit.control(Kind::ListLength, {in[0]->list->array}, {length});
    give(node, 0, Item::of(emit.truth(name, ctx_.binary(ir::Op::Ne, emit.load(length), ctx_.integer(0)))));
    return ok();
  }
  if (node.op == "OptionalGetElement") {
    if (!has(0)) return refuse(node, "the optional is empty");
    const Item& value = *in[0];
    if (!value.list || !value.list->optional) {
      give(node, 0, value);
      return ok();
    }
    if (value.list->items) {
      if (value.list->items->empty()) return refuse(node, "the optional is empty");
      give(node, 0, value.list->items->front());
      return ok();
    }
    MLC_ASSIGN(Item item, list_at(*value.list, emit.constant(0), source, name, hint(name)));
    give(node, 0, std::move(item));
    return ok();
  }
  if (node.op == "SplitToSequence") return split_to_sequence(node, in);
  if (node.op == "ConcatFromSequence") return concat_from_sequence(node, in);

  MLC_ASSIGN(const Item sequence, list_input(node, in, 0));
  const List& list = *sequence.list;
  if (node.op == "SequenceLength") {
    if (list.items) {
      const int64_t n = static_cast<int64_t>(list.items->size());
      give(node, 0, {lang::Value{emit.constant(n), {ctx_.integer(n)}}, nullptr});
      return ok();
    }
    const uint32_t out = emit.array(name, DType::I64, {});
    emit.control(Kind::ListLength, {list.array}, {out});
    give(node, 0, Item::of(out));
    return ok();
  }
  if (node.op == "SequenceAt") {
    MLC_ASSIGN(const Item position, tensor_input(node, in, 1));
    if (list.items) {
      MLC_ASSIGN(const auto at, place(1, list.items->size()));
      if (at) {
        give(node, 0, (*list.items)[*at]);
        return ok();
      }
    }
    List of_the_run = list;
    MLC_ASSIGN(of_the_run.array, array_of(sequence, source));
    MLC_ASSIGN(const uint32_t at, position_array(position, source));
    MLC_ASSIGN(Item item, list_at(of_the_run, at, source, name, hint(name)));
    give(node, 0, std::move(item));
    return ok();
  }
  if (node.op == "SequenceInsert") {
    if (!has(1)) return refuse(node, "input 1 is missing");
    const Item& item = *in[1];
    const DType dtype = item.list ? item.list->dtype : function_.arrays[item.tensor.array].dtype;
    if (dtype != list.dtype || (item.list ? item.list->depth : 0) + 1 != list.depth)
      return refuse(node, type_text(item) + " is inserted into " + type_text(sequence));
    if (list.items) {
      std::optional<size_t> at = list.items->size();
      if (has(2)) {
        // Negative positions count from the end, where nothing can be inserted behind: -1 is before the last.
        MLC_ASSIGN(const Item position, tensor_input(node, in, 2));
        const auto known = number_of(position.tensor);
        const int64_t n = static_cast<int64_t>(list.items->size());
        if (known && (*known < -n || *known > n)) return refuse(node, "position " + std::to_string(*known) + " in a sequence of " + std::to_string(n));
        at = known ? std::optional(static_cast<size_t>(*known < 0 ? *known + n : *known)) : std::nullopt;
      }
      if (at) {
        std::vector<Item> items = *list.items;
        items.insert(items.begin() + static_cast<long>(*at), item);
        give(node, 0, item_of(made_of(list.dtype, list.depth, list.optional, std::move(items))));
        return ok();
      }
    }
    MLC_ASSIGN(const uint32_t before, array_of(sequence, source));
    MLC_ASSIGN(const uint32_t inserted, array_of(item, source));
    uint32_t at = nest::kNoArray;
    if (has(2)) {
      MLC_ASSIGN(const Item position, tensor_input(node, in, 2));
      MLC_ASSIGN(at, position_array(position, source));
    }
    auto longer = of_run(list);
    longer->shape = joined(list.shape, shape_of(item));
    emit.control(Kind::ListInsert, {before, inserted, at}, {longer->array});
    give(node, 0, item_of(longer));
    return ok();
  }
  if (node.op == "SequenceErase") {
    if (list.items) {
      if (list.items->empty()) return refuse(node, "an item of an empty sequence is erased");
      std::optional<size_t> at = list.items->size() - 1;
      if (has(1)) { MLC_ASSIGN(at, place(1, list.items->size())); }
      if (at) {
        std::vector<Item> items = *list.items;
        items.erase(items.begin() + static_cast<long>(*at));
        give(node, 0, item_of(made_of(list.dtype, list.depth, list.optional, std::move(items))));
        return ok();
      }
    }
    MLC_ASSIGN(const uint32_t before, array_of(sequence, source));
    uint32_t at = nest::kNoArray;
    if (has(1)) {
      MLC_ASSIGN(const Item position, tensor_input(node, in, 1));
      MLC_ASSIGN(at, position_array(position, source));
    }
    auto shorter = of_run(list);
    emit.control(Kind::ListErase, {before, at}, {shorter->array});
    give(node, 0, item_of(shorter));
    return ok();
  }
  return refuse(node, "is not known here");
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
  nest::Control& control = emit.control(Kind::ListSplit, {whole.tensor.array, lengths}, {list->array});
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
  nest::Control& control = emit.control(Kind::ListConcat, {list.array}, {out});
  control.set.axis = static_cast<uint32_t>(axis);
  control.set.new_axis = new_axis;
  give(node, 0, Item::of(out));
  return ok();
}

}  // namespace mlc::compile
