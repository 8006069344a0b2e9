// Operators on strings. What only moves elements, or asks whether they are equal, is the text of any other type
// (packager/lang/texts.h); what looks into strings becomes Controls here. Arrays of strings have DType::Str until the model is
// expanded, then they become the u64 numbers that they are in a program (nest.h: StringsIn).
#include <algorithm>
#include <map>
#include <string_view>

#include "packager/compile/expand/attributes.h"
#include "packager/compile/expand/graph_expander.h"
#include "packager/compile/expand/regex.h"

namespace mlc::compile {

using model::Node;
using Texts = std::vector<std::string>;

namespace {

bool is_onnx(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// Operators of ai.onnx.ml whose strings are attributes: what is asked for are numbers, those of their places.
const std::map<std::string, std::string>& class_labels() {  // classifiers, and the attribute that has numbers for labels
  static const std::map<std::string, std::string> kAttributes = {
      {"LinearClassifier", "classlabels_ints"}, {"SVMClassifier", "classlabels_ints"}, {"TreeEnsembleClassifier", "classlabels_int64s"}};
  return kAttributes;
}

}  // namespace

bool is_string_operator(const std::string& domain, const std::string& op) {
  static const std::set<std::string> kOperators = {"StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch"};
  return (is_onnx(domain) && kOperators.count(op) > 0) || (domain == "ai.onnx.ml" && (op == "CategoryMapper" || op == "LabelEncoder")) ||
         (domain == "com.microsoft" && op == "Tokenizer");
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
  bool is_text(size_t k) const { return has(k) && !in[k]->list && array(k).dtype == DType::Str; }
  std::string name(size_t output) const { return output < node.outputs.size() ? node.outputs[output] : ""; }
  uint32_t like(uint32_t array, DType dtype, const std::string& wish) {
    const auto shape = g.function_.arrays[array].shape;
    return emit.array(wish, dtype, shape);
  }
  Status wants(size_t inputs) const {
    for (size_t k = 0; k < inputs; ++k)
      if (!is_text(k)) return g.refuse(node, "input " + std::to_string(k) + " holds no strings");
    return ok();
  }
  Result<uint32_t> call(const std::string& domain, const std::string& op, int64_t opset, const std::vector<uint32_t>& inputs,
                        std::map<std::string, lang::Attribute> attributes = {}, const std::string& wish = "") {
    return g.text_call(domain, op, opset, inputs, std::move(attributes), source, wish);
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
    const uint32_t out = like(sides[0], DType::Str, name(0));
    emit.control(StepOp::StringConcat, {sides[0], sides[1]}, {out});
    g.give(node, 0, Item::of(out));
    return ok();
  }

  Status split() {
    MLC_RETURN_IF_ERROR(wants(1));
    const auto* separator = attribute<std::string>(node, "delimiter");
    const int64_t cuts = int_attribute(node, "maxsplit", -1);
    MLC_ASSIGN(const Item by, g.string_constant("", {1}, {separator ? *separator : ""}));
    std::vector<Ex> shape = array(0).shape;
    shape.push_back(g.ctx_.sym(g.fresh_symbol(name(0) + ".pieces", 0, INT64_MAX)));
    const uint32_t pieces = emit.array(name(0), DType::Str, shape), counts = like(in[0]->tensor.array, DType::I64, name(1));
    nest::Control& c = emit.control(StepOp::StringSplit, {in[0]->tensor.array, by.tensor.array}, {pieces, counts});
    c.set.max_cuts = cuts < 0 || cuts > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(cuts);
    g.give(node, 0, Item::of(pieces));
    g.give(node, 1, Item::of(counts));
    return ok();
  }

  Status normalize() {
    MLC_RETURN_IF_ERROR(wants(1));
    const auto* action = attribute<std::string>(node, "case_change_action");
    const auto* stop = attribute<Texts>(node, "stopwords");
    StepSettings set;
    if (action && *action == "LOWER") set.case_change = CaseChange::Lower;
    else if (action && *action == "UPPER") set.case_change = CaseChange::Upper;
    else if (action && *action != "NONE") return g.refuse(node, "case_change_action is '" + *action + "'");
    set.match_case = int_attribute(node, "is_case_sensitive", 0) != 0;
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
    uint32_t out = emit.array(wish, DType::Str, {g.ctx_.sym(g.fresh_symbol(name(0) + ".kept", 1, INT64_MAX))});
    emit.control(StepOp::StringNormalize, {words, stops.tensor.array}, {out}).set = set;
    if (rank == 2) out = emit.with_first_axis(name(0), out);
    g.give(node, 0, Item::of(out));
    return ok();
  }

  Status match() {
    MLC_RETURN_IF_ERROR(wants(1));
    const auto* pattern = attribute<std::string>(node, "pattern");
    if (!pattern) return g.refuse(node, "attribute 'pattern' is missing");
    auto table = table_of_pattern(*pattern);
    if (!table.ok()) return std::move(table).status().note(source);
    const uint32_t states = const_array(emit, g.function_, g.ctx_, DType::I32, *table), out = like(in[0]->tensor.array, DType::Bool, name(0));
    emit.control(StepOp::StringMatch, {in[0]->tensor.array, states}, {out});
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
    const uint32_t from = in[0]->tensor.array;
    if (to == DType::Str) {
      if (is_text(0)) {
        g.give(node, 0, *in[0]);
        return ok();
      }
      MLC_ASSIGN(const uint32_t out, g.text_of_numbers(from, source, name(0)));
      g.give(node, 0, Item::of(out));
      return ok();
    }
    if (!is_float(to) && !is_int(to)) return g.refuse(node, "strings are cast to numbers only");
    MLC_ASSIGN(const uint32_t result, g.numbers_of_text(from, to, source, name(0)));
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
    MLC_ASSIGN(const uint32_t at, g.places_among(in[0]->tensor.array, keys.array, source));
    MLC_ASSIGN(const uint32_t out, call("mlc.strings", "Pick", 1, {at, values.array, other.array}, {}, name(0)));
    g.give(node, 0, Item::of(out));
    return ok();
  }

  // Strings to numbers and back: those of CategoryMapper, or the places of LabelEncoder-1.
  Status category_mapper(const std::string& strings) {
    const auto* texts = attribute<Texts>(node, strings);
    const auto* given = attribute<std::vector<int64_t>>(node, "cats_int64s");
    std::vector<int64_t> numbers;
    if (given) numbers = *given;
    for (size_t k = 0; texts && node.op == "LabelEncoder" && k < texts->size(); ++k) numbers.push_back(static_cast<int64_t>(k));
    if (!texts || texts->size() != numbers.size()) return g.refuse(node, "there are not as many numbers as strings");
    MLC_ASSIGN(const Labels words, strings_of(*texts));
    const Labels codes{const_array(emit, g.function_, g.ctx_, DType::I64, numbers)};
    const auto* s = attribute<std::string>(node, "default_string");
    if (!is_text(0)) {
      MLC_ASSIGN(const Labels other, strings_of({s ? *s : "_Unused"}));
      return look_up(codes, words, other);
    }
    return look_up(words, codes, Labels{const_array(emit, g.function_, g.ctx_, DType::I64, std::vector<int64_t>{int_attribute(node, "default_int64", -1)})});
  }

  // Equal texts have equal numbers, so the text of Unique does on numbers: any for the order of appearance, else those of the
  // order of the texts. What it answers are places.
  Status unique() {
    std::map<std::string, lang::Attribute> attributes{{"sorted", int_attribute(node, "sorted", 1)}};
    const bool has_axis = node.attributes.count("axis") > 0;
    uint32_t from = in[0]->tensor.array, key;
    if (!has_axis) {
      const uint32_t flat = const_array(emit, g.function_, g.ctx_, DType::I64, std::vector<int64_t>{-1});
      MLC_ASSIGN(from, call("ai.onnx", "Reshape", 13, {from, flat}));
    } else {
      attributes["axis"] = int_attribute(node, "axis", 0);
    }
    if (int_attribute(node, "sorted", 1)) {
      key = like(from, DType::I64, "");
      emit.control(StepOp::StringRank, {from}, {key});
    } else {
      MLC_ASSIGN(key, call("mlc.strings", "Numbers", 1, {from}));
    }
    lang::Call c;
    c.domain = "ai.onnx";
    c.name = "Unique";
    c.opset = 11;
    c.source = source;
    c.attributes = attributes;
    c.inputs = {lang::Value{key, {}}};
    c.outputs = {false, true, g.wanted(node, 2), g.wanted(node, 3)};
    c.output_names = {"", name(1), name(2), name(3)};
    MLC_ASSIGN(const auto results, g.all_.library.expand(g.ctx_, g.function_, c));
    MLC_ASSIGN(const uint32_t out, call("ai.onnx", "Gather", 13, {from, results[1].array}, {{"axis", has_axis ? int_attribute(node, "axis", 0) : 0}}, name(0)));
    g.give(node, 0, Item::of(out));
    for (size_t k = 1; k < 4; ++k)
      if (g.wanted(node, k)) g.give(node, k, {results[k], nullptr});
    return ok();
  }

  // Classes are numbered, and the number of the answer picks its label.
  Status classify(const std::string& numbers) {
    const auto* names = attribute<Texts>(node, "classlabels_strings");
    Node on_numbers = node;
    on_numbers.name = source;
    on_numbers.attributes.erase("classlabels_strings");
    if (names->empty()) return g.call_library(on_numbers);
    std::vector<int64_t> places;
    for (size_t k = 0; k < names->size(); ++k) places.push_back(static_cast<int64_t>(k));
    on_numbers.attributes[numbers] = places;
    const bool labels_wanted = g.wanted(node, 0);
    const std::string place = name(0) + "\nnumbers of " + source;  // no name of a model's value has a line break
    if (labels_wanted) {
      on_numbers.outputs[0] = place;
      ++g.readers_[place];
    }
    MLC_RETURN_IF_ERROR(g.call_library(on_numbers));
    if (!labels_wanted) return ok();
    MLC_ASSIGN(const Labels words, strings_of(*names));
    MLC_ASSIGN(const Labels other, strings_of({""}));
    MLC_ASSIGN(const Item at, g.value_of(place));
    MLC_ASSIGN(const uint32_t out, call("mlc.strings", "Pick", 1, {at.tensor.array, words.array, other.array}, {}, name(0)));
    g.give(node, 0, Item::of(out));
    return ok();
  }

  // Operators whose texts ask for numbers: those of the places of their strings in a list of them.
  Status on_places(const std::string& strings, const std::string& numbers) {
    const auto* words = attribute<Texts>(node, strings);
    if (!words) return g.refuse(node, "'" + strings + "' is missing");
    Texts known;
    std::vector<int64_t> places;
    std::map<std::string_view, int64_t> first;  // a tree: no choice of words makes it slow
    for (const std::string& word : *words) {
      const auto [found, is_new] = first.emplace(word, static_cast<int64_t>(known.size()));
      places.push_back(found->second);
      if (is_new) known.push_back(word);
    }
    MLC_ASSIGN(const Labels keys, strings_of(known));
    MLC_ASSIGN(const uint32_t at, g.places_among(in[0]->tensor.array, keys.array, source));
    Node on_numbers = node;
    on_numbers.attributes.erase(strings);
    on_numbers.attributes[numbers] = places;
    on_numbers.inputs[0] = node.inputs[0] + "\nplaces of " + source;  // no name of a model's value has a line break
    g.bind(on_numbers.inputs[0], Item::of(at));
    return g.call_library(on_numbers);
  }
};

Result<uint32_t> GraphExpander::text_of_numbers(uint32_t from, const std::string& source, const std::string& name) {
  const DType t = function_.arrays[from].dtype;
  if ((is_float(t) && bits_of(t) < 32) || bits_of(t) < 8) {
    MLC_ASSIGN(from, text_call("ai.onnx", "Cast", 13, {from}, {{"to", is_float(t) ? DType::F32 : is_signed_int(t) ? DType::I8 : DType::U8}}, source, ""));
  }
  Emit emit(ctx_, function_, source);
  const auto shape = function_.arrays[from].shape;
  const uint32_t out = emit.array(name, DType::Str, shape);
  emit.control(StepOp::StringFromNumber, {from}, {out});
  return out;
}

Result<uint32_t> GraphExpander::numbers_of_text(uint32_t from, DType to, const std::string& source, const std::string& name) {
  Emit emit(ctx_, function_, source);
  const auto shape = function_.arrays[from].shape;
  const uint32_t out = emit.array("", is_float(to) ? DType::F64 : DType::I64, shape);
  emit.control(StepOp::NumberFromString, {from}, {out}).set.integers = !is_float(to);
  return text_call("ai.onnx", "Cast", 13, {out}, {{"to", to}}, source, name);
}

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
  uint32_t out = emit.array(flat ? name : "", DType::Str, {ctx_.integer(static_cast<int64_t>(texts.size()))});
  emit.control(StepOp::StringsMake, {text, end}, {out});
  if (!flat) {
    const uint32_t extents = const_array(emit, function_, ctx_, DType::I64, shape);
    MLC_ASSIGN(const auto shaped, call("Reshape", 13, {}, {lang::Value{out, {}}, lang::Value{extents, {}}}, source, name));
    out = shaped[0].array;
  }
  return Item::of(out);
}

uint32_t GraphExpander::strings_in(uint32_t array) {
  const nest::Array a = function_.arrays[array];
  if (a.dtype != DType::Str) return array;
  Emit emit(ctx_, function_, a.name);
  const uint32_t out = emit.array("", DType::Str, a.shape, nest::Array::Kind::Temp, a.list_depth);
  emit.control(StepOp::StringsIn, {array}, {out});
  return out;
}

uint32_t GraphExpander::strings_out(uint32_t array, const std::string& name) {
  const nest::Array a = function_.arrays[array];
  if (a.dtype != DType::Str) return array;
  Emit emit(ctx_, function_, name);
  const uint32_t out = emit.array(name, DType::Str, a.shape, nest::Array::Kind::Temp, a.list_depth);
  // The name is that of the interface, not of the numbers inside.
  if (a.name == name && a.kind != nest::Array::Kind::Input) std::swap(function_.arrays[out].name, function_.arrays[array].name);
  emit.control(StepOp::StringsOut, {array}, {out});
  return out;
}

void numbers_for_strings(nest::Function& function) {
  std::set<uint32_t> interface;
  for (const nest::Statement& s : function.body) {
    if (!s.control) continue;
    if (s.control->kind == StepOp::StringsIn) interface.insert(s.control->inputs[0]);
    if (s.control->kind == StepOp::StringsOut) interface.insert(s.control->outputs[0]);
    for (const auto& body : s.control->bodies) numbers_for_strings(*body);  // no deeper than graphs nest
  }
  for (uint32_t k = 0; k < function.arrays.size(); ++k)
    if (function.arrays[k].dtype == DType::Str && !interface.count(k)) function.arrays[k].dtype = DType::U64;
}

// Does it ask for more than a text says?
bool GraphExpander::touches_strings(const Node& node) {
  const auto takes_strings = [&](size_t k) {
    if (k >= node.inputs.size() || node.inputs[k].empty()) return false;
    const auto value = value_of(node.inputs[k]);  // its consumer reports what is wrong with it
    return value.ok() && !value->list && function_.arrays[value->tensor.array].dtype == DType::Str;
  };
  if (node.domain == "ai.onnx.ml") {
    if (node.op == "OneHotEncoder") return takes_strings(0);
    if (node.op == "CategoryMapper") return true;
    if (node.op == "LabelEncoder") {
      const auto* values = attribute<model::Tensor>(node, "values_tensor");
      return opset_of(node) < 2 || takes_strings(0) || node.attributes.count("values_strings") || (values && values->dtype == DType::Str);
    }
    return class_labels().count(node.op) > 0 && attribute<Texts>(node, "classlabels_strings");
  }
  if (node.domain == "com.microsoft") return node.op == "Tokenizer";
  if (!is_onnx(node.domain)) return false;
  if (is_string_operator(node.domain, node.op)) return true;
  if (node.op == "Constant") {
    const auto* tensor = attribute<model::Tensor>(node, "value");
    return node.attributes.count("value_string") || node.attributes.count("value_strings") || (tensor && tensor->dtype == DType::Str);
  }
  if (node.op == "Cast") return int_attribute(node, "to", 0) == 8 || takes_strings(0);
  if (node.op == "CastLike") return takes_strings(0) || takes_strings(1);
  return (node.op == "Unique" || node.op == "TfIdfVectorizer") && takes_strings(0);
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
  if (node.op == "StringConcat") return call.concat();
  if (node.op == "StringSplit") return call.split();
  if (node.op == "StringNormalizer") return call.normalize();
  if (node.op == "RegexFullMatch") return call.match();
  if (is_onnx(node.domain) && (node.op == "Cast" || node.op == "CastLike")) return call.cast();
  if (node.op == "Tokenizer") return add_tokenizer(node, *call.in[0]);
  if (node.op == "Unique") return call.unique();
  if (node.op == "TfIdfVectorizer") return call.on_places("pool_strings", "pool_int64s");
  if (node.op == "OneHotEncoder") return call.on_places("cats_strings", "cats_int64s");
  if (node.op == "LabelEncoder") return opset_of(node) < 2 ? call.category_mapper("classes_strings") : call.label_encoder();
  if (node.op == "CategoryMapper") return call.category_mapper("cats_strings");
  if (auto found = class_labels().find(node.op); found != class_labels().end()) return call.classify(found->second);
  return Status(Code::Unsupported, 2012, node.label() + " (" + node.op + "): not supported on strings");
}

}  // namespace mlc::compile
