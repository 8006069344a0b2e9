// Operators on strings. Inside a function a string is a u64 number (nest.h: StringsIn), so operators that only move
// elements, or ask whether they are equal, are those of any other type; the rest becomes Controls here.
#include <algorithm>

#include "packager/compile/expand/graph_expander.h"
#include "packager/compile/expand/regex.h"

namespace mlc::compile {

using model::Node;
using Kind = nest::Control::Kind;
using Texts = std::vector<std::string>;

namespace {

bool is_onnx(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// These do not look at what elements mean.
bool moves_elements(const Node& node) {
  static const std::set<std::string> kOperators = {
      "Compress", "Concat", "DepthToSpace", "Equal", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape",
      "ReverseSequence", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
      "Unsqueeze", "Where"};
  return is_onnx(node.domain) && kOperators.count(node.op) > 0;
}

bool is_comparison_of_labels(const Node& node) {
  static const std::set<std::string> kOperators = {"LabelEncoder", "CategoryMapper", "OneHotEncoder"};
  return node.domain == "ai.onnx.ml" && kOperators.count(node.op) > 0;
}

template <class T>
const T* attribute(const Node& node, const std::string& name) {
  auto at = node.attributes.find(name);
  return at == node.attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

template <class T>
uint32_t const_array(Emit& emit, nest::Function& f, ir::Context& ctx, DType dtype, const std::vector<T>& values, const std::string& name = "") {
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  auto bytes = std::make_shared<std::vector<std::byte>>(from, from + values.size() * sizeof(T));
  const uint32_t number = emit.array(name, dtype, {ctx.integer(static_cast<int64_t>(values.size()))}, nest::Array::Kind::Const);
  f.arrays[number].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  return number;
}

}  // namespace

bool is_string_operator(const std::string& domain, const std::string& op) {
  static const std::set<std::string> kOperators = {"StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch"};
  return (is_onnx(domain) && kOperators.count(op) > 0) || (domain == "ai.onnx.ml" && op == "CategoryMapper");
}

// One node with its inputs.
struct GraphExpander::StringCall {
  GraphExpander& g;
  const Node& node;
  std::vector<std::optional<Item>> in;
  const std::string source = node.label();
  Emit emit{g.ctx_, g.function_, source};

  bool has(size_t k) const { return k < in.size() && in[k]; }
  const nest::Array& array(size_t k) const { return g.function_.arrays[in[k]->tensor.array]; }
  bool is_text(size_t k) const { return has(k) && !in[k]->list && g.all_.strings.count({g.function_.name, in[k]->tensor.array}) > 0; }
  std::string name(size_t output) const { return output < node.outputs.size() ? node.outputs[output] : ""; }
  Item text(uint32_t number) const {
    g.all_.strings.insert({g.function_.name, number});
    return Item::of(number);
  }
  uint32_t like(uint32_t array, DType dtype, const std::string& wish) {
    const auto shape = g.function_.arrays[array].shape;
    return emit.array(wish, dtype, shape);
  }
  Status wants(size_t inputs) const {
    for (size_t k = 0; k < inputs; ++k)
      if (!is_text(k)) return g.refuse(node, "input " + std::to_string(k) + " holds no strings");
    return ok();
  }
  // An operator of a text; answers its first result.
  Result<uint32_t> call(const std::string& domain, const std::string& op, int64_t opset, const std::vector<uint32_t>& inputs,
                        std::map<std::string, lang::Attribute> attributes = {}, const std::string& wish = "") {
    lang::Call c;
    c.domain = domain;
    c.name = op;
    c.opset = opset;
    c.source = source;
    c.attributes = std::move(attributes);
    for (uint32_t input : inputs) c.inputs.emplace_back(lang::Value{input, {}});
    c.output_names = {wish};
    MLC_ASSIGN(const auto results, g.all_.library.expand(g.ctx_, g.function_, c));
    return results[0].array;
  }

  Status constant() {
    if (const auto* one = attribute<std::string>(node, "value_string")) return give_constant({}, {*one});
    if (const auto* many = attribute<Texts>(node, "value_strings")) return give_constant({static_cast<int64_t>(many->size())}, *many);
    const auto* tensor = attribute<model::Tensor>(node, "value");
    return give_constant(tensor->shape, tensor->strings);
  }
  Status give_constant(const std::vector<int64_t>& shape, const Texts& texts) {
    MLC_ASSIGN(Item value, g.string_constant(name(0), shape, texts));
    g.give(node, 0, std::move(value));
    return ok();
  }

  Status concat() {
    MLC_RETURN_IF_ERROR(wants(2));
    uint32_t sides[2];
    for (int k = 0; k < 2; ++k) {  // Where takes one of both, in the shape that they have together
      const uint32_t first = emit.constant(k == 0, DType::Bool);
      MLC_ASSIGN(sides[k], call("ai.onnx", "Where", 16, {first, in[0]->tensor.array, in[1]->tensor.array}));
    }
    const uint32_t out = like(sides[0], DType::U64, name(0));
    emit.control(Kind::StringConcat, {sides[0], sides[1]}, {out});
    g.give(node, 0, text(out));
    return ok();
  }

  Status split() {
    MLC_RETURN_IF_ERROR(wants(1));
    const auto* separator = attribute<std::string>(node, "delimiter");
    const int64_t cuts = int_attribute(node, "maxsplit", -1);
    MLC_ASSIGN(const Item by, g.string_constant("", {1}, {separator ? *separator : ""}));
    std::vector<Ex> shape = array(0).shape;
    shape.push_back(g.ctx_.sym(g.fresh_symbol(name(0) + ".pieces", 0, INT64_MAX)));
    const uint32_t pieces = emit.array(name(0), DType::U64, shape), counts = like(in[0]->tensor.array, DType::I64, name(1));
    nest::Control& c = emit.control(Kind::StringSplit, {in[0]->tensor.array, by.tensor.array}, {pieces, counts});
    c.axis = cuts < 0 || cuts > UINT32_MAX ? UINT32_MAX : cuts;
    g.give(node, 0, text(pieces));
    g.give(node, 1, Item::of(counts));
    return ok();
  }

  Status normalize() {
    MLC_RETURN_IF_ERROR(wants(1));
    const auto* action = attribute<std::string>(node, "case_change_action");
    const auto* stop = attribute<Texts>(node, "stopwords");
    int64_t mode = 0;
    if (action && *action == "LOWER") mode = 1;
    else if (action && *action == "UPPER") mode = 2;
    else if (action && *action != "NONE") return g.refuse(node, "case_change_action is '" + *action + "'");
    if (int_attribute(node, "is_case_sensitive", 0)) mode |= 4;
    const size_t rank = array(0).shape.size();
    if (rank != 1 && rank != 2) return g.refuse(node, "the input is " + g.type_text(*in[0]) + ", [C] or [1, C] is expected");
    uint32_t words = in[0]->tensor.array;
    if (rank == 2) {
      const Ex rows = array(0).shape[0];
      if (rows->is_const() && rows->i != 1) return g.refuse(node, "the input is " + g.type_text(*in[0]) + ", [1, C] is expected");
      if (!rows->is_const())
        g.function_.checks.push_back({g.ctx_.binary(ir::Op::Eq, rows, g.ctx_.integer(1)), source + ": the first extent of the input must be 1"});
      words = emit.slice("", words, 0, g.ctx_.integer(0));
    }
    const Texts none;
    const Texts& left_out = stop ? *stop : none;
    MLC_ASSIGN(const Item stops, g.string_constant("", {static_cast<int64_t>(left_out.size())}, left_out));
    const std::string wish = rank == 1 ? name(0) : "";
    uint32_t out = emit.array(wish, DType::U64, {g.ctx_.sym(g.fresh_symbol(name(0) + ".kept", 1, INT64_MAX))});
    emit.control(Kind::StringNormalize, {words, stops.tensor.array}, {out}).axis = mode;
    if (rank == 2) out = emit.with_first_axis(name(0), out);
    g.give(node, 0, text(out));
    return ok();
  }

  Status match() {
    MLC_RETURN_IF_ERROR(wants(1));
    const auto* pattern = attribute<std::string>(node, "pattern");
    if (!pattern) return g.refuse(node, "attribute 'pattern' is missing");
    auto table = table_of_pattern(*pattern);
    if (!table.ok()) return std::move(table).status().note(source);
    const uint32_t states = const_array(emit, g.function_, g.ctx_, DType::I32, *table), out = like(in[0]->tensor.array, DType::Bool, name(0));
    emit.control(Kind::StringMatch, {in[0]->tensor.array, states}, {out});
    g.give(node, 0, Item::of(out));
    return ok();
  }

  Status cast() {
    DType to = lang::dtype_of_onnx(int_attribute(node, "to", 0));
    if (node.op == "CastLike") {
      if (!has(1) || in[1]->list) return g.refuse(node, "input 1 is missing");
      to = is_text(1) ? DType::Str : array(1).dtype;
    }
    if (to == DType::None || !has(0) || in[0]->list) return g.refuse(node, "a tensor and a type are expected");
    uint32_t from = in[0]->tensor.array;
    if (to == DType::Str) {
      if (is_text(0)) {
        g.give(node, 0, *in[0]);
        return ok();
      }
      const DType t = array(0).dtype;
      if ((is_float(t) && bits_of(t) < 32) || bits_of(t) < 8) {
        MLC_ASSIGN(from, call("ai.onnx", "Cast", 13, {from}, {{"to", is_float(t) ? DType::F32 : is_signed_int(t) ? DType::I8 : DType::U8}}));
      }
      const uint32_t out = like(from, DType::U64, name(0));
      emit.control(Kind::StringFromNumber, {from}, {out});
      g.give(node, 0, text(out));
      return ok();
    }
    if (!is_float(to) && !is_int(to)) return g.refuse(node, "strings are cast to numbers only");
    const uint32_t out = like(from, is_float(to) ? DType::F64 : DType::I64, "");
    emit.control(Kind::NumberFromString, {from}, {out}).new_axis = !is_float(to);
    MLC_ASSIGN(const uint32_t result, call("ai.onnx", "Cast", 13, {out}, {{"to", to}}, name(0)));
    g.give(node, 0, Item::of(result));
    return ok();
  }

  // Keys, values and defaults as arrays of rank 1; 0 where no such attribute is given.
  struct Labels {
    uint32_t array = nest::kNoArray;
    bool text = false;
  };
  Result<Labels> strings_of(const Texts& texts) {
    MLC_ASSIGN(const Item item, g.string_constant("", {static_cast<int64_t>(texts.size())}, texts));
    return Labels{item.tensor.array, true};
  }
  Result<Labels> labels(const std::string& prefix, const std::string& suffix = "s") {
    if (const auto* t = attribute<model::Tensor>(node, prefix + "_tensor")) {
      if (t->dtype == DType::Str) return strings_of(t->strings);
      MLC_ASSIGN(const Item item, g.add_constant(g.function_.name + "." + source + "." + prefix, *t));
      if (t->shape.size() == 1) return Labels{item.tensor.array};
      if (!t->shape.empty()) return g.refuse(node, "'" + prefix + "_tensor' has more than one axis");
      return Labels{emit.with_first_axis("", item.tensor.array)};
    }
    if (suffix.empty()) return Labels{};
    if (const auto* t = attribute<Texts>(node, prefix + "_strings")) return strings_of(*t);
    if (const auto* t = attribute<std::vector<int64_t>>(node, prefix + "_int64s")) return Labels{const_array(emit, g.function_, g.ctx_, DType::I64, *t)};
    if (const auto* t = attribute<std::vector<double>>(node, prefix + "_floats"))
      return Labels{const_array(emit, g.function_, g.ctx_, DType::F32, std::vector<float>(t->begin(), t->end()))};
    return Labels{};
  }

  Status label_encoder() {
    MLC_ASSIGN(const Labels keys, labels("keys"));
    MLC_ASSIGN(const Labels values, labels("values"));
    if (keys.array == nest::kNoArray || values.array == nest::kNoArray) return g.refuse(node, "keys or values are missing");
    MLC_ASSIGN(Labels other, labels("default", ""));
    if (other.array == nest::kNoArray) {
      const DType t = g.function_.arrays[values.array].dtype;
      if (values.text) {
        const auto* s = attribute<std::string>(node, "default_string");
        MLC_ASSIGN(other, strings_of({s ? *s : "_Unused"}));
      } else if (t == DType::I64) {
        other.array = const_array(emit, g.function_, g.ctx_, t, std::vector<int64_t>{int_attribute(node, "default_int64", -1)});
      } else if (t == DType::F32) {
        const auto* f = attribute<double>(node, "default_float");
        other.array = const_array(emit, g.function_, g.ctx_, t, std::vector<float>{f ? static_cast<float>(*f) : -0.0f});
      } else {
        const uint32_t otherwise = emit.constant(is_float(t) ? 0 : -1, t);
        other.array = emit.with_first_axis("", otherwise);
      }
    }
    return look_up(keys, values, other);
  }

  Status look_up(const Labels& keys, const Labels& values, const Labels& other) {
    if (keys.text != is_text(0) || values.text != other.text) return g.refuse(node, "labels are of another type than the input or the default");
    const auto extent = [&](const Labels& l) { return g.function_.arrays[l.array].shape[0]; };
    if (extent(keys) != extent(values)) return g.refuse(node, "there are not as many values as keys");
    MLC_ASSIGN(const uint32_t at, call("mlc.strings", "Find", 1, {in[0]->tensor.array, keys.array}));
    MLC_ASSIGN(const uint32_t out, call("mlc.strings", "Pick", 1, {at, values.array, other.array}, {}, name(0)));
    g.give(node, 0, values.text ? text(out) : Item::of(out));
    return ok();
  }

  Status category_mapper() {
    const auto* texts = attribute<Texts>(node, "cats_strings");
    const auto* numbers = attribute<std::vector<int64_t>>(node, "cats_int64s");
    if (!texts || !numbers) return g.refuse(node, "'cats_strings' or 'cats_int64s' is missing");
    MLC_ASSIGN(const Labels words, strings_of(*texts));
    const Labels codes{const_array(emit, g.function_, g.ctx_, DType::I64, *numbers)};
    const auto* s = attribute<std::string>(node, "default_string");
    if (!is_text(0)) {
      MLC_ASSIGN(const Labels other, strings_of({s ? *s : "_Unused"}));
      return look_up(codes, words, other);
    }
    return look_up(words, codes, Labels{const_array(emit, g.function_, g.ctx_, DType::I64, std::vector<int64_t>{int_attribute(node, "default_int64", -1)})});
  }

  // Operators whose texts ask for numbers: those of the places of their strings in a list of them.
  Status on_places(const std::string& strings, const std::string& numbers) {
    const auto* words = attribute<Texts>(node, strings);
    if (!words) return g.refuse(node, "'" + strings + "' is missing");
    Texts known;
    std::vector<int64_t> places;
    for (const std::string& word : *words) {
      const auto found = std::find(known.begin(), known.end(), word);
      places.push_back(found - known.begin());
      if (found == known.end()) known.push_back(word);
    }
    MLC_ASSIGN(const Labels keys, strings_of(known));
    MLC_ASSIGN(const uint32_t at, call("mlc.strings", "Find", 1, {in[0]->tensor.array, keys.array}));
    Node on_numbers = node;
    on_numbers.attributes.erase(strings);
    on_numbers.attributes[numbers] = places;
    on_numbers.inputs[0] = node.inputs[0] + "\nplaces of " + source;  // no name of a model's value has a line break
    g.bind(on_numbers.inputs[0], Item::of(at));
    return g.call_library(on_numbers);
  }
};

Result<Item> GraphExpander::string_constant(const std::string& name, const std::vector<int64_t>& shape, const Texts& texts) {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> ends;
  for (const std::string& text : texts) {
    bytes.insert(bytes.end(), text.begin(), text.end());
    ends.push_back(static_cast<int64_t>(bytes.size()));
  }
  const std::string source = name.empty() ? "a constant" : name;
  Emit emit(ctx_, function_, source);
  const uint32_t text = const_array(emit, function_, ctx_, DType::U8, bytes), end = const_array(emit, function_, ctx_, DType::I64, ends);
  const bool flat = shape.size() == 1;
  uint32_t out = emit.array(flat ? name : "", DType::U64, {ctx_.integer(static_cast<int64_t>(texts.size()))});
  emit.control(Kind::StringsMake, {text, end}, {out});
  if (!flat) {
    const uint32_t extents = const_array(emit, function_, ctx_, DType::I64, shape);
    MLC_ASSIGN(const auto shaped, call("Reshape", 13, {}, {lang::Value{out, {}}, lang::Value{extents, {}}}, source, name));
    out = shaped[0].array;
  }
  all_.strings.insert({function_.name, out});
  return Item::of(out);
}

Item GraphExpander::strings_in(uint32_t array) {
  Emit emit(ctx_, function_, function_.arrays[array].name);
  const auto shape = function_.arrays[array].shape;
  const uint32_t out = emit.array("", DType::U64, shape);
  emit.control(Kind::StringsIn, {array}, {out});
  all_.strings.insert({function_.name, out});
  return Item::of(out);
}

Item GraphExpander::strings_out(const Item& value, const std::string& name) {
  if (value.list || !all_.strings.count({function_.name, value.tensor.array})) return value;
  Emit emit(ctx_, function_, name);
  const auto shape = function_.arrays[value.tensor.array].shape;
  const uint32_t out = emit.array(name, DType::Str, shape);
  // The name is that of the interface, not of the numbers inside.
  if (function_.arrays[value.tensor.array].name == name) std::swap(function_.arrays[out].name, function_.arrays[value.tensor.array].name);
  emit.control(Kind::StringsOut, {value.tensor.array}, {out});
  return Item::of(out);
}

bool GraphExpander::touches_strings(const Node& node) {
  if (is_string_operator(node.domain, node.op)) return true;
  if (is_onnx(node.domain) && node.op == "Constant") {
    const auto* tensor = attribute<model::Tensor>(node, "value");
    return node.attributes.count("value_string") || node.attributes.count("value_strings") || (tensor && tensor->dtype == DType::Str);
  }
  if (is_onnx(node.domain) && node.op == "Cast" && int_attribute(node, "to", 0) == 8) return true;
  if (node.domain == "ai.onnx.ml" && node.op == "LabelEncoder") {
    const auto* values = attribute<model::Tensor>(node, "values_tensor");
    if (node.attributes.count("values_strings") || (values && values->dtype == DType::Str)) return true;
  }
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const auto value = value_of(input);  // what is wrong with it is said by who takes it
    if (value.ok() && !value->list && all_.strings.count({function_.name, value->tensor.array})) return true;
  }
  return false;
}

Status GraphExpander::add_string_operator(const Node& node) {
  StringCall call{*this, node, {}};
  for (const std::string& input : node.inputs) {
    if (input.empty()) {
      call.in.emplace_back();
      continue;
    }
    MLC_ASSIGN(Item value, value_of(input));
    call.in.emplace_back(std::move(value));
  }
  if (node.op == "Constant") return call.constant();
  if (!call.has(0)) return refuse(node, "input 0 is missing");
  if (moves_elements(node)) {
    MLC_RETURN_IF_ERROR(call_library(node));
    for (const std::string& name : node.outputs) {
      auto found = values_.find(name);
      if (!name.empty() && found != values_.end() && !found->second.list && function_.arrays[found->second.tensor.array].dtype == DType::U64)
        all_.strings.insert({function_.name, found->second.tensor.array});
    }
    return ok();
  }
  if (node.op == "StringConcat") return call.concat();
  if (node.op == "StringSplit") return call.split();
  if (node.op == "StringNormalizer") return call.normalize();
  if (node.op == "RegexFullMatch") return call.match();
  if (is_onnx(node.domain) && (node.op == "Cast" || node.op == "CastLike")) return call.cast();
  if (is_comparison_of_labels(node))
    return node.op == "LabelEncoder" ? call.label_encoder() : node.op == "CategoryMapper" ? call.category_mapper() : call.on_places("cats_strings", "cats_int64s");
  if (is_onnx(node.domain) && node.op == "TfIdfVectorizer") return call.on_places("pool_strings", "pool_int64s");
  return Status(Code::Unsupported, 2012, node.label() + " (" + node.op + "): not supported on strings");
}

}  // namespace mlc::compile
