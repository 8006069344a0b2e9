// com.microsoft.Tokenizer: texts cut into pieces, which exporters of scikit-learn's text features use. The pieces are what a
// pattern matches (the longest match from the left), or what stands between matches of separators.
#include "packager/compile/expand/attributes.h"
#include "packager/compile/expand/graph_expander.h"
#include "packager/compile/expand/regex.h"

namespace mlc::compile {

using model::Node;

Status GraphExpander::add_tokenizer(const Node& node, const Item& texts) {
  const std::string source = node.label(), name = node.outputs.empty() ? "" : node.outputs[0];
  if (texts.list || function_.arrays[texts.tensor.array].dtype != DType::Str) return refuse(node, "the input is " + type_text(texts) + ", strings are expected");
  const auto* separators = attribute<Texts>(node, "separators");
  const auto* expression = attribute<std::string>(node, "tokenexp");
  const auto* padding = attribute<std::string>(node, "pad_value");
  const int64_t letters = int_attribute(node, "mincharnum", 1);
  const bool mark = int_attribute(node, "mark", 0) != 0;
  if (!padding) return refuse(node, "attribute 'pad_value' is missing");
  if (!separators == !expression) return refuse(node, "one of 'separators' and 'tokenexp' is expected");
  if (letters < 1 || letters > UINT32_MAX) return refuse(node, "mincharnum is " + std::to_string(letters));
  // An empty separator stands between any two letters: each letter is a piece.
  const bool by_letter = separators && separators->size() == 1 && separators->front().empty();
  std::string pattern = expression ? *expression : by_letter ? "(?s:.)" : "";
  for (size_t k = 0; separators && !by_letter && k < separators->size(); ++k) {
    if ((*separators)[k].empty()) return refuse(node, "an empty separator among others");
    pattern += (k ? "|(?:" : "(?:") + (*separators)[k] + ")";
  }
  auto table = table_of_pattern(pattern, true);
  if (!table.ok()) return std::move(table).status().note(source);
  Emit emit(ctx_, function_, source);
  const uint32_t states = const_array(emit, function_, ctx_, DType::I32, *table);
  const auto counted = function_.arrays[texts.tensor.array].shape;
  std::vector<Ex> shape = counted;
  shape.push_back(ctx_.sym(fresh_symbol(name + ".tokens", 0, INT64_MAX)));
  const uint32_t tokens = emit.array("", DType::Str, shape), counts = emit.array("", DType::I64, counted);
  nest::Control& c = emit.control(StepOp::StringTokens, {texts.tensor.array, states}, {tokens, counts});
  c.set.min_letters = static_cast<uint32_t>(letters);
  c.set.between = separators && !by_letter;
  MLC_ASSIGN(const Item words, string_constant("", {3}, {*padding, "\x02", "\x03"}));
  MLC_ASSIGN(const uint32_t out, text_call("mlc.strings", "Padded", 1, {tokens, counts, words.tensor.array}, {{"mark", int64_t{mark}}}, source, name));
  give(node, 0, Item::of(out));
  return ok();
}

}  // namespace mlc::compile
