#include "packager/model/print.h"

#include <charconv>
#include <cmath>
#include <unordered_map>

#include "schema/validate/validate.h"
#include "signing/hash_tree.h"

namespace mlc::model {

std::string content_hash(Bytes bytes) { return to_hex(sha256(bytes)); }

bool is_bare_name(std::string_view text) {
  if (text.empty() || text == "_") return false;
  for (char c : text)
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '/' ||
          c == '-'))
      return false;
  return true;
}

std::string quoted(std::string_view text) {
  const bool clean = format::is_clean_text(text, text.size());
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (!clean && (byte < 0x20 || byte > 0x7e)) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

namespace {

std::string name_text(std::string_view name) { return is_bare_name(name) ? std::string(name) : quoted(name); }

// A free extent's name must not look like a number.
std::string axis_text(const Axis& axis) {
  if (const auto* extent = std::get_if<int64_t>(&axis)) return std::to_string(*extent);
  const std::string& name = std::get<std::string>(axis);
  if (name.empty()) return "?";
  const bool number = (name[0] >= '0' && name[0] <= '9') || name[0] == '-';
  return number ? quoted(name) : name_text(name);
}

// Shortest text that reads back to the same bits, never that of an integer.
std::string double_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, v).ptr;
  std::string s(text, end);
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

template <class List, class One>
std::string list_text(const List& list, One one) {
  std::string s = "[";
  for (const auto& item : list) {
    if (s.size() > 1) s += ", ";
    s += one(item);
  }
  return s + "]";
}

std::string tensor_text(const Tensor& tensor) {
  std::string s(name_of(tensor.dtype));
  s += list_text(tensor.shape, [](int64_t extent) { return std::to_string(extent); });
  if (tensor.dtype == DType::Str) return s + " = " + list_text(tensor.strings, quoted);
  return s + " sha256:" + content_hash(tensor.bytes);
}

class Printer {
 public:
  std::string run(const Model& model) {
    out_ = "model" + (model.producer.empty() ? "" : " " + quoted(model.producer)) + "\n";
    for (const auto& [domain, version] : model.opsets)
      out_ += "opset " + name_text(domain) + " " + std::to_string(version) + "\n";
    for (const auto& [key, value] : model.metadata) out_ += "meta " + quoted(key) + " " + quoted(value) + "\n";
    graph(model.graph, "");
    out_ += "\n";
    return std::move(out_);
  }

 private:
  // Which names of a graph are initializers, one map for each graph around the place.
  using Names = std::unordered_map<std::string_view, bool>;

  std::string value(const std::string& name) const {
    if (name.empty()) return "_";
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto found = scope->find(name); found != scope->end())
        return (found->second ? "@" : "%") + name_text(name);
    return "%" + name_text(name);
  }
  std::string values(const std::vector<std::string>& names) const {
    std::string s;
    for (const std::string& name : names) s += (s.empty() ? "" : ", ") + value(name);
    return s;
  }

  void graph(const Graph& g, const std::string& indent) {
    Names& names = scopes_.emplace_back();
    for (const Port& port : g.inputs) names.emplace(port.name, false);
    for (const Node& node : g.nodes)
      for (const std::string& name : node.outputs) names.emplace(name, false);
    for (const auto& [name, tensor] : g.initializers) names.insert_or_assign(name, true);
    const std::string inner = indent + "  ";
    out_ += "graph " + quoted(g.name) + " {\n";
    for (const Port& port : g.inputs) out_ += inner + "input %" + name_text(port.name) + " : " + print_type(port) + "\n";
    for (const auto& [name, tensor] : g.initializers)
      out_ += inner + "init @" + name_text(name) + " : " + tensor_text(tensor) + "\n";
    for (const Node& n : g.nodes) node(n, g, inner);
    for (const Port& port : g.outputs) out_ += inner + "output " + value(port.name) + " : " + print_type(port) + "\n";
    out_ += indent + "}";
    scopes_.pop_back();
  }

  void node(const Node& n, const Graph& g, const std::string& indent) {
    out_ += indent + (n.outputs.empty() ? "()" : values(n.outputs)) + " = " + operator_text(n) + "(" + values(n.inputs) + ")";
    if (!n.attributes.empty()) attributes(n, indent);
    types(n, g);
    if (!n.name.empty()) out_ += " " + quoted(n.name);
    out_ += "\n";
  }

  static std::string operator_text(const Node& n) {
    const bool bare = is_bare_name(n.domain) && is_bare_name(n.op) && n.op.find('.') == std::string::npos;
    return (bare ? n.domain + "." + n.op : quoted(n.domain) + "." + quoted(n.op)) + (n.opset ? "@" + std::to_string(n.opset) : "");
  }

  void types(const Node& n, const Graph& g) {
    bool any = false;
    for (const std::string& name : n.outputs) any = any || g.types.contains(name);
    if (!any) return;
    std::string s;
    for (const std::string& name : n.outputs) {
      const auto found = g.types.find(name);
      s += (s.empty() ? " : " : ", ") + (found == g.types.end() ? std::string("_") : print_type(found->second));
    }
    out_ += s;
  }

  // On one line, unless one of them is a graph.
  void attributes(const Node& n, const std::string& indent) {
    bool graphs = false;
    for (const auto& [key, value] : n.attributes) graphs = graphs || std::holds_alternative<std::shared_ptr<const Graph>>(value);
    out_ += " {";
    bool first = true;
    for (const auto& [key, value] : n.attributes) {
      if (graphs) out_ += "\n" + indent + "  ";
      else if (!first) out_ += ", ";
      first = false;
      out_ += name_text(key) + " = ";
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value);
      if (body) graph(*body ? **body : Graph(), indent + "  ");
      else out_ += attribute(value);
    }
    out_ += graphs ? "\n" + indent + "}" : "}";
  }

  static std::string attribute(const Attribute& value) {
    struct Text {
      std::string operator()(int64_t v) const { return std::to_string(v); }
      std::string operator()(double v) const { return double_text(v); }
      std::string operator()(const std::string& v) const { return quoted(v); }
      std::string operator()(const std::vector<int64_t>& v) const {
        return v.empty() ? "ints[]" : list_text(v, [](int64_t i) { return std::to_string(i); });
      }
      std::string operator()(const std::vector<double>& v) const { return v.empty() ? "floats[]" : list_text(v, double_text); }
      std::string operator()(const std::vector<std::string>& v) const {
        return v.empty() ? "strings[]" : list_text(v, quoted);
      }
      std::string operator()(const Tensor& v) const { return "tensor " + tensor_text(v); }
      std::string operator()(const std::shared_ptr<const Graph>&) const { return {}; }
      std::string operator()(const Port& v) const { return "type " + print_type(v); }
    };
    return std::visit(Text(), value);
  }

  std::string out_;
  std::vector<Names> scopes_;
};

}  // namespace

std::string print_type(const Port& port) {
  std::string s;
  for (unsigned level = 0; level < port.list_depth; ++level) s += level == 0 && port.optional ? "optional(" : "list(";
  if (port.map_key != DType::None) s += "map(" + std::string(name_of(port.map_key)) + ", " + std::string(name_of(port.dtype)) + ")";
  else s += std::string(name_of(port.dtype)) + (port.has_shape ? list_text(port.shape, axis_text) : "[*]");
  return s + std::string(port.list_depth, ')');
}

std::string print(const Model& model) { return Printer().run(model); }

}  // namespace mlc::model
