#include "packager/lang/expand/explain.h"

#include <algorithm>
#include <set>

namespace mlc::lang {
namespace {

constexpr size_t kMostShown = 8;         // inputs, attributes
constexpr size_t kLongestExtent = 40;    // letters
constexpr char kComputed[] = "computed";

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t k = 0; k < values.size() && k < kMostShown; ++k) {
    if (k) text += ", ";
    if constexpr (std::is_arithmetic_v<T>) text += std::to_string(values[k]);
    else text += "'" + values[k] + "'";
  }
  return text + (values.size() > kMostShown ? ", ...]" : "]");
}

struct AttributeText {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return std::to_string(v); }
  std::string operator()(const std::string& v) const { return "'" + v + "'"; }
  template <class T>
  std::string operator()(const std::vector<T>& v) const { return list_text(v); }
  template <class T>
  std::string operator()(const T&) const { return "given"; }
};

std::string array_text(const nest::Array& array) {
  std::string text = std::string(name_of(array.dtype)) + "[";
  for (size_t k = 0; k < array.shape.size(); ++k) text += (k ? ", " : "") + extent_text(array.shape[k]);
  return text + "]";
}

}  // namespace

bool is_builtin(const std::string& file) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const SourceFile& f : Library::builtin_files()) all.insert(f.name);
    return all;
  }();
  return names.count(file) > 0;
}

std::string extent_text(const ir::Expr* extent) {
  bool plain = true;
  ir::walk(extent, [&](const ir::Expr* e) {
    plain = plain && (e->op == ir::Op::Const || e->op == ir::Op::Sym || e->op == ir::Op::Add || e->op == ir::Op::Sub || e->op == ir::Op::Mul);
  });
  if (!plain) return kComputed;
  std::string text = extent->op == ir::Op::Sym ? extent->sym->name : ir::to_string(extent);
  std::erase(text, '$');
  return text.size() > kLongestExtent ? kComputed : text;
}

std::string node_text(const Call& call) {
  const std::string op = (call.domain.empty() || call.domain == "ai.onnx" ? "" : call.domain + ".") + call.name + ", opset " + std::to_string(call.opset);
  return call.source.empty() ? op : call.source + " (" + op + ")";
}

Status with_operands(Status status, const nest::Function& function, const Call& call) {
  for (size_t k = 0; k < call.inputs.size() && k < kMostShown; ++k) {
    const auto& input = call.inputs[k];
    if (!input || input->array >= function.arrays.size()) continue;
    const nest::Array& array = function.arrays[input->array];
    status.facts.push_back("input " + (array.name.empty() ? std::to_string(k) : "'" + array.name + "'") + ": " + array_text(array));
  }
  if (call.inputs.size() > kMostShown) status.facts.push_back("and " + std::to_string(call.inputs.size() - kMostShown) + " more inputs");
  size_t shown = 0;
  for (const auto& [name, value] : call.attributes)
    if (shown++ < kMostShown) status.facts.push_back("attribute " + name + ": " + std::visit(AttributeText(), value));
  return status;
}

Status not_covered(const nest::Function& function, const Call& call, const std::string& file, int line, const std::vector<Status>& reasons) {
  // Whether the model is wrong or asks for too much cannot be told: reasons are of calls that the operator may not have.
  Status status(reasons.empty() ? Code::Unsupported : Code::Malformed, 2015,
                node_text(call) + ": this operator is not supported for such inputs and attributes");
  for (const Status& reason : reasons) {
    const size_t label = reason.message.find("): ");
    std::string why = label == std::string::npos ? reason.message : reason.message.substr(label + 3);
    if (std::find(status.facts.begin(), status.facts.end(), why) == status.facts.end()) status.facts.push_back(std::move(why));
  }
  status = with_operands(std::move(status), function, call);
  return std::move(status)
      .fact("definition: " + file + ":" + std::to_string(line))
      .hint("fix free extents with --dim NAME=VALUE, or define the operator for this case: --ops DIR (spec/custom-operators.md)");
}

}  // namespace mlc::lang
