#include "packager/model/verify.h"

#include <unordered_map>
#include <unordered_set>

#include "schema/validate/validate.h"

namespace mlc::model {
namespace {

constexpr size_t kMaxReported = 8;

std::string described(const Node& node) { return "node " + format::quoted(node.label()) + " (" + node.op + ")"; }

class Verifier {
 public:
  Status run(const Model& model) {
    for (const auto& [domain, version] : model.opsets)
      if (domain.empty() || version < 1) complain("opset " + format::quoted(domain) + " has the version " + std::to_string(version));
    graph(model.graph, 0);
    if (has_unclean_name_) status_ = std::move(status_).hint("give it a plain name in the model, for example with onnx.compose.add_prefix or in the code that exports it");
    return facts_ == 0 ? ok() : std::move(status_);
  }

 private:
  void complain(std::string line) {
    if (facts_++ < kMaxReported) status_.facts.push_back(std::move(line));
  }

  bool is_known(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (scope->contains(name)) return true;
    return false;
  }

  void define(const std::string& name, const std::string& who) {
    if (name.empty()) complain(who + " has an empty name");
    else if (!scopes_.back().insert(name).second) complain(who + " is written already");
  }

  // Inputs, outputs and extents keep their names in the container: what it cannot hold is refused here, where it can be told
  // apart from a bug, and before anything is computed.
  void keeps_name(const std::string& name, const std::string& who) {
    if (format::is_clean_text(name, name.size())) return;
    complain(who + " has a name that is not UTF-8, or has characters in it that control a terminal or are not seen");
    has_unclean_name_ = true;
  }
  void keeps_names(const Port& p, const std::string& who) {
    keeps_name(p.name, who);
    for (const Axis& axis : p.shape) {
      const auto* name = std::get_if<std::string>(&axis);
      if (!name) continue;
      const std::string extent = "extent " + format::quoted(*name) + " of " + who;
      keeps_name(*name, extent);
      if (name->size() <= format::kMaxNameLen) continue;
      complain(extent + " has a name of " + std::to_string(name->size()) + " bytes, at most " + std::to_string(format::kMaxNameLen) + " are possible");
      has_unclean_name_ = true;
    }
  }

  void port(const Port& p, const std::string& who) {
    if (!p.has_shape && !p.shape.empty()) complain(who + " has extents, but no rank");
    if (p.list_depth > kMaxListDepth) complain(who + " is a list nested deeper than " + std::to_string(kMaxListDepth));
    if (p.map_key != DType::None && ((p.map_key != DType::Str && p.map_key != DType::I64) || p.dtype == DType::None || p.list_depth > 1 || p.optional || p.has_shape))
      complain(who + " is no map from strings or integers, and no list of such");
    if (p.optional && p.list_depth == 0) complain(who + " is an optional, but no list");
    for (const Axis& axis : p.shape)
      if (const auto* extent = std::get_if<int64_t>(&axis); extent && *extent < 0)
        complain(who + " has the negative extent " + std::to_string(*extent));
  }

  void tensor(const Tensor& t, const std::string& who) {
    for (int64_t extent : t.shape)
      if (extent < 0) return complain(who + " has the negative extent " + std::to_string(extent));
    const auto count = checked_product(t.shape);
    if (t.dtype == DType::Str) {
      if (!count || *count != t.strings.size()) complain(who + " has " + std::to_string(t.strings.size()) + " strings, its shape wants others");
      return;
    }
    const auto bytes = count ? checked_mul(*count, bytes_of(t.dtype)) : std::nullopt;
    if (t.dtype == DType::None) complain(who + " has no element type");
    else if (!bytes || *bytes != t.bytes.size())
      complain(who + " has " + std::to_string(t.bytes.size()) + " bytes, its shape wants " + (bytes ? std::to_string(*bytes) : "more than 64 bits count"));
  }

  // Bodies nest, at most kMaxGraphDepth deep: that bounds the recursion.
  void graph(const Graph& g, int depth) {
    if (depth >= kMaxGraphDepth) return complain("graph " + format::quoted(g.name) + " is nested deeper than " + std::to_string(kMaxGraphDepth));
    scopes_.emplace_back();
    for (const Port& p : g.inputs) {
      const std::string who = "input " + format::quoted(p.name);
      define(p.name, who);
      port(p, who);
      if (depth == 0) keeps_names(p, who);
    }
    for (const auto& [name, t] : g.initializers) {
      const std::string who = "initializer " + format::quoted(name);
      define(name, who);
      tensor(t, who);
    }
    for (const Node& n : g.nodes) node(n, depth);
    std::unordered_set<std::string_view> outputs;
    for (const Port& p : g.outputs) {
      const std::string who = "output " + format::quoted(p.name);
      if (p.name.empty()) complain(who + " has an empty name");
      else if (!is_known(p.name)) complain(who + " is written by nothing");
      if (!outputs.insert(p.name).second) complain(who + " is listed twice");
      port(p, who);
      if (depth == 0) keeps_names(p, who);
    }
    scopes_.pop_back();
  }

  void node(const Node& n, int depth) {
    if (n.domain.empty() || n.op.empty()) complain(described(n) + " has no operator");
    if (n.opset < 0) complain(described(n) + " has the opset " + std::to_string(n.opset));
    for (const std::string& name : n.inputs)
      if (!name.empty() && !is_known(name)) complain(described(n) + " reads " + format::quoted(name) + ", which nothing before it writes");
    for (const auto& [key, value] : n.attributes) {
      const std::string who = "attribute " + format::quoted(key) + " of " + described(n);
      if (key.empty()) complain(who + " has an empty name");
      if (const auto* t = std::get_if<Tensor>(&value)) tensor(*t, who);
      if (const auto* type = std::get_if<Port>(&value)) port(*type, who);
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) {
        if (*body) graph(**body, depth + 1);
        else complain(who + " is a graph that is missing");
      }
    }
    for (const std::string& name : n.outputs)
      if (!name.empty()) define(name, "result " + format::quoted(name) + " of " + described(n));
  }

  Status status_{Code::Malformed, 1012, "the model is not well formed"};
  size_t facts_ = 0;
  bool has_unclean_name_ = false;
  std::vector<std::unordered_set<std::string_view>> scopes_;
};

}  // namespace

Status verify(const Model& model) { return Verifier().run(model); }

}  // namespace mlc::model
