// Operators on maps. There are none at run time: a map is its keys and its values, two arrays, here and at the interface
// (NAME.keys and NAME.values). ZipMap then computes nothing, and the operators that take maps look keys up.
#include "packager/compile/expand/attributes.h"
#include "packager/compile/expand/graph_expander.h"

namespace mlc::compile {

using model::Node;

bool is_map_operator(const std::string& domain, const std::string& op) {
  return domain == "ai.onnx.ml" && (op == "ZipMap" || op == "CastMap" || op == "DictVectorizer");
}

const Map* GraphExpander::map_named(const std::string& name) const {
  const auto found = maps_.find(name);
  return found == maps_.end() ? nullptr : &found->second;
}

struct GraphExpander::MapCall {
  GraphExpander& g;
  const Node& node;
  const std::string source = node.label();
  Emit emit{g.ctx_, g.function_, source};

  DType dtype_of(uint32_t array) const { return g.function_.arrays[array].dtype; }
  Result<uint32_t> call(const std::string& op, const std::vector<uint32_t>& inputs, std::map<std::string, lang::Attribute> attributes = {},
                        const std::string& name = "") {
    const bool own = op == "Collect" || op == "InOrder" || op == "AtKeys";
    return g.text_call(own ? "mlc.strings" : "ai.onnx", op, own ? 1 : 13, inputs, std::move(attributes), source, name);
  }
  // Strings or integers that an attribute lists, as an array.
  Result<uint32_t> listed(const std::string& strings, const std::string& numbers, const std::string& name) {
    const auto* values = attribute<std::vector<int64_t>>(node, numbers);
    if (const auto* texts = attribute<Texts>(node, strings); texts && (!texts->empty() || !values)) {
      MLC_ASSIGN(const Item item, g.string_constant(name, {static_cast<int64_t>(texts->size())}, *texts));
      return item.tensor.array;
    }
    if (values) return const_array(emit, g.function_, g.ctx_, DType::I64, *values, name);
    return g.refuse(node, "'" + strings + "' and '" + numbers + "' are missing");
  }
  void give(uint32_t array) { g.give(node, 0, Item::of(array)); }
  std::string output() const { return node.outputs.empty() ? "" : node.outputs[0]; }

  Status zip() {
    MLC_ASSIGN(const Item scores, g.value_of(node.inputs[0]));
    if (scores.list) return g.refuse(node, "the input is " + g.type_text(scores) + ", a tensor is expected");
    uint32_t values = scores.tensor.array;
    const size_t rank = g.function_.arrays[values].shape.size();
    if (rank != 1 && rank != 2) return g.refuse(node, "the input is " + g.type_text(scores) + ", [N, C] or [C] is expected");
    MLC_ASSIGN(uint32_t keys, listed("classlabels_strings", "classlabels_int64s", ""));
    const Ex classes = g.function_.arrays[values].shape[rank - 1], labels = g.function_.arrays[keys].shape[0];
    if (classes->is_const() && classes != labels)
      return g.refuse(node, "there are " + ir::to_string(classes) + " values and " + ir::to_string(labels) + " keys");
    if (!classes->is_const())
      g.function_.checks.push_back({g.ctx_.binary(ir::Op::Eq, classes, labels), source + ": there are not as many values as keys"});
    if (rank == 1) values = emit.with_first_axis("", values);
    // Results of their own: a constant, or an input, is no output.
    MLC_ASSIGN(values, call("Identity", {values}, {}, output() + ".values"));
    if (dtype_of(keys) != DType::Str) { MLC_ASSIGN(keys, call("Identity", {keys}, {}, output() + ".keys")); }
    g.bind_map(output(), {keys, values});
    return ok();
  }

  Status dictionary(const Map& map) {
    MLC_ASSIGN(const uint32_t words, listed("string_vocabulary", "int64_vocabulary", ""));
    if (dtype_of(words) != dtype_of(map.keys)) return g.refuse(node, "the vocabulary is of another type than the keys of the map");
    MLC_ASSIGN(const uint32_t at, g.places_among(map.keys, words, source));
    MLC_ASSIGN(const uint32_t own, g.places_among(words, words, source));
    MLC_ASSIGN(const uint32_t out, call("Collect", {at, own, map.values}, {}, output()));
    give(out);
    return ok();
  }

  Status cast(const Map& map) {
    const auto* to = attribute<std::string>(node, "cast_to");
    const auto* form = attribute<std::string>(node, "map_form");
    DType type = DType::F32;
    if (to && *to == "TO_STRING") type = DType::Str;
    else if (to && *to == "TO_INT64") type = DType::I64;
    else if (to && *to != "TO_FLOAT") return g.refuse(node, "cast_to is '" + *to + "'");
    if (dtype_of(map.keys) != DType::I64) return g.refuse(node, "the keys are no 64-bit integers");
    const bool sparse = form && *form == "SPARSE";
    if (form && !sparse && *form != "DENSE") return g.refuse(node, "map_form is '" + *form + "'");
    uint32_t values = 0;
    if (sparse) {
      const int64_t extent = int_attribute(node, "max_map", 1);
      if (extent < 1) return g.refuse(node, "max_map is " + std::to_string(extent));
      // Cast first: what stands where no key is, is nothing of the new type, and no text that is no number.
      MLC_ASSIGN(const uint32_t cast, cast_to(map.values, type, ""));
      MLC_ASSIGN(values, call("AtKeys", {map.keys, cast}, {{"extent", extent}}, output()));
    } else {
      MLC_ASSIGN(const uint32_t sorted, call("InOrder", {map.keys, map.values}));
      MLC_ASSIGN(values, cast_to(sorted, type, output()));
    }
    give(values);
    return ok();
  }
  Result<uint32_t> cast_to(uint32_t from, DType to, const std::string& name) {
    const DType t = dtype_of(from);
    if (t == to) return call("Identity", {from}, {}, name);
    if (to == DType::Str) return g.text_of_numbers(from, source, name);
    if (t == DType::Str) return g.numbers_of_text(from, to, source, name);
    return call("Cast", {from}, {{"to", to}}, name);
  }
};

Status GraphExpander::add_map_operator(const Node& node) {
  if (node.inputs.empty() || node.inputs[0].empty()) return refuse(node, "input 0 is missing");
  if (node.outputs.empty() || !wanted(node, 0)) return ok();
  MapCall call{*this, node};
  if (node.op == "ZipMap") return around_ ? refuse(node, "a body of a control gives no maps") : call.zip();
  const Map* map = map_named(node.inputs[0]);
  if (!map) return refuse(node, "'" + node.inputs[0] + "' is no map");
  return node.op == "CastMap" ? call.cast(*map) : call.dictionary(*map);
}

}  // namespace mlc::compile
