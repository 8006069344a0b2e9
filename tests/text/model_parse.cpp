#include "tests/text/model_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "packager/model/print.h"

namespace mlc::model {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, const WeightsByHash& weights) : text_(text), weights_(weights) {}

  Result<Model> run() {
    Model model;
    MLC_RETURN_IF_ERROR(expect("model"));
    if (peek() == '"') { MLC_ASSIGN(model.producer, string()); }
    for (;;) {
      if (accept_word("opset")) {
        MLC_ASSIGN(std::string domain, name());
        MLC_ASSIGN(const int64_t version, integer());
        if (!model.opsets.emplace(std::move(domain), version).second) return error("an opset is given twice");
      } else if (accept_word("meta")) {
        MLC_ASSIGN(std::string key, string());
        MLC_ASSIGN(std::string value, string());
        if (!model.metadata.emplace(std::move(key), std::move(value)).second) return error("metadata is given twice");
      } else {
        break;
      }
    }
    MLC_ASSIGN(model.graph, graph(0));
    if (peek() != '\0' || at_ < text_.size()) return error("nothing is expected after the graph");
    return model;
  }

 private:
  // ---- characters and words ----
  Status error(const std::string& what) const {
    return Status(Code::Malformed, "line " + std::to_string(line_) + ": " + what);
  }
  char peek() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == ';') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      } else if (c == '\n') {
        ++line_;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return c;
      }
    }
    return '\0';
  }
  bool accept(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }
  bool at_end() {
    peek();
    return at_ >= text_.size();
  }
  Status expect(std::string_view what) {
    if (what.size() == 1 ? accept(what[0]) : accept_word(what)) return ok();
    return error("expected '" + std::string(what) + "', found " + found());
  }
  std::string found() {
    if (at_end()) return "the end";
    const std::string_view rest = text_.substr(at_, 20);
    return quoted(rest.substr(0, rest.find('\n')));
  }
  // The bare word here, empty if there is none; it is not taken.
  std::string_view word() {
    peek();
    size_t end = at_;
    while (end < text_.size() && (is_bare_name(text_.substr(end, 1)) || text_[end] == '_')) ++end;
    return text_.substr(at_, end - at_);
  }
  bool accept_word(std::string_view wanted) {
    if (word() != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  Result<std::string> string() {
    if (!accept('"')) return error("expected a text in quotes, found " + found());
    std::string out;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '\\') {
        c = ++at_ < text_.size() ? text_[at_] : '\0';
        if (c == 'x') {
          unsigned value = 0;
          const std::string_view digits = text_.substr(at_ + 1, 2);
          const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
          if (digits.size() != 2 || r.ptr != digits.data() + 2) return error("\\x wants two hexadecimal digits");
          at_ += 2;
          c = static_cast<char>(value);
        } else if (c != '"' && c != '\\') {
          return error("unknown escape in a text");
        }
      }
      out += c;
    }
    if (at_ >= text_.size()) return error("a text does not end");
    ++at_;
    return out;
  }
  Result<std::string> name() {
    if (peek() == '"') return string();
    const std::string_view w = word();
    if (w.empty() || w == "_") return error("expected a name, found " + found());
    at_ += w.size();
    return std::string(w);
  }
  // A signed number: integer if it is written as one.
  Result<Attribute> number() {
    peek();
    const bool negative = accept('-');
    std::string_view w = word();
    if (w == "inf" || w == "nan") {
      at_ += 3;
      const double v = w == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
      return Attribute(negative ? -v : v);
    }
    size_t end = 0;
    const auto sign = [&](size_t i) { return (text_[i] == '+' || text_[i] == '-') && text_[i - 1] == 'e'; };
    while (at_ + end < text_.size() && (is_digit(text_[at_ + end]) || text_[at_ + end] == '.' || text_[at_ + end] == 'e' ||
                                        (end > 0 && sign(at_ + end))))
      ++end;
    w = text_.substr(at_, end);
    if (w.empty() || !is_digit(w[0])) return error("expected a number, found " + found());
    at_ += end;
    if (w.find_first_of(".e") != std::string_view::npos) {
      double v = 0;
      const auto r = std::from_chars(w.data(), w.data() + w.size(), v);
      if (r.ec != std::errc() || r.ptr != w.data() + w.size()) return error("'" + std::string(w) + "' is no number");
      return Attribute(negative ? -v : v);
    }
    uint64_t v = 0;
    const auto r = std::from_chars(w.data(), w.data() + w.size(), v);
    const uint64_t most = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
    if (r.ec != std::errc() || r.ptr != w.data() + w.size() || v > most)
      return error("'" + std::string(w) + "' does not fit a 64-bit integer");
    return Attribute(static_cast<int64_t>(negative ? 0 - v : v));
  }
  Result<int64_t> integer() {
    MLC_ASSIGN(const Attribute value, number());
    if (const auto* v = std::get_if<int64_t>(&value)) return *v;
    return error("expected an integer");
  }

  // `open` item, item ... `close`; `one` parses an item.
  template <class One>
  Status list(std::string_view open, std::string_view close, One one) {
    MLC_RETURN_IF_ERROR(expect(open));
    for (bool first = true; !accept(close[0]); first = false) {
      if (!first) MLC_RETURN_IF_ERROR(expect(","));
      MLC_RETURN_IF_ERROR(one());
    }
    return ok();
  }

  // ---- types and tensors ----
  Result<DType> dtype() {
    const std::string_view w = word();
    const auto found_type = w == "none" ? std::optional(DType::None) : dtype_named(w);
    if (!found_type) return error("no element type " + found());
    at_ += w.size();
    return *found_type;
  }
  Result<Port> type() {
    Port port;
    for (std::string_view w = word(); w == "list" || w == "optional"; w = word()) {
      if (port.list_depth == kMaxListDepth) return error("lists are nested deeper than " + std::to_string(kMaxListDepth));
      if (w == "optional" && port.list_depth > 0) return error("a list holds no optionals");
      at_ += w.size();
      MLC_RETURN_IF_ERROR(expect("("));
      port.optional = port.optional || w == "optional";
      ++port.list_depth;
    }
    if (word() == "map") {
      at_ += 3;
      MLC_RETURN_IF_ERROR(expect("("));
      MLC_ASSIGN(port.map_key, dtype());
      MLC_RETURN_IF_ERROR(expect(","));
      MLC_ASSIGN(port.dtype, dtype());
      MLC_RETURN_IF_ERROR(expect(")"));
      port.has_shape = false;
    } else {
      MLC_RETURN_IF_ERROR(tensor_type(port));
    }
    for (unsigned level = 0; level < port.list_depth; ++level) MLC_RETURN_IF_ERROR(expect(")"));
    return port;
  }
  Status tensor_type(Port& port) {
    MLC_ASSIGN(port.dtype, dtype());
    MLC_RETURN_IF_ERROR(list("[", "]", [&]() -> Status {
      if (accept('*')) {
        port.has_shape = false;
        return ok();
      }
      if (accept('?')) {
        port.shape.emplace_back(std::string());
      } else if (const char c = peek(); is_digit(c) || c == '-') {
        MLC_ASSIGN(const int64_t extent, integer());
        port.shape.emplace_back(extent);
      } else {
        MLC_ASSIGN(std::string axis, name());
        port.shape.emplace_back(std::move(axis));
      }
      return ok();
    }));
    if (!port.has_shape && !port.shape.empty()) return error("a type of unknown rank has no extents");
    return ok();
  }
  Result<Tensor> tensor() {
    Tensor t;
    MLC_ASSIGN(t.dtype, dtype());
    MLC_RETURN_IF_ERROR(list("[", "]", [&]() -> Status {
      MLC_ASSIGN(const int64_t extent, integer());
      if (extent < 0) return error("a tensor has a negative extent");
      t.shape.push_back(extent);
      return ok();
    }));
    const auto count = checked_product(t.shape);
    if (t.dtype == DType::Str) {
      MLC_RETURN_IF_ERROR(expect("="));
      MLC_RETURN_IF_ERROR(list("[", "]", [&]() -> Status {
        MLC_ASSIGN(std::string s, string());
        t.strings.push_back(std::move(s));
        return ok();
      }));
      return count && *count == t.strings.size() ? Result<Tensor>(std::move(t)) : error("as many strings as the shape wants are expected");
    }
    const auto bytes = count ? checked_mul(*count, bytes_of(t.dtype)) : std::nullopt;
    if (!bytes || t.dtype == DType::None) return error("a tensor has no size");
    MLC_RETURN_IF_ERROR(expect("sha256"));
    MLC_RETURN_IF_ERROR(expect(":"));
    const std::string hash(word());
    if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
      return error("64 hexadecimal digits are expected, found " + found());
    at_ += hash.size();
    if (*bytes == 0) return t;
    Weights w = weights_ ? weights_(hash) : Weights();
    if (!w.owner) return error("no weights with the hash " + hash);
    if (w.bytes.size() != *bytes)
      return error("the weights " + hash + " have " + std::to_string(w.bytes.size()) + " bytes, the shape wants " + std::to_string(*bytes));
    t.bytes = w.bytes;
    t.owner = std::move(w.owner);
    return t;
  }

  // ---- graphs ----
  using Names = std::unordered_map<std::string, bool>;  // defined so far; true: an initializer

  // %name, @name or _ (empty). Whether `@` is right is seen at once; whether something writes a value is for verify.
  Result<std::string> value(bool defines) {
    if (accept_word("_")) return std::string();
    const bool wants_initializer = accept('@');
    if (!wants_initializer && !accept('%')) return error("expected a value, found " + found());
    MLC_ASSIGN(std::string n, name());
    if (n.empty()) return error("a value has an empty name");
    if (defines) return n;
    bool is_initializer = false;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto at = scope->find(n); at != scope->end()) {
        is_initializer = at->second;
        break;
      }
    if (is_initializer != wants_initializer)
      return error(is_initializer ? quoted(n) + " is an initializer, written with @" : "no initializer " + quoted(n));
    return n;
  }

  Result<Graph> graph(int depth) {
    if (depth >= kMaxGraphDepth) return error("graphs are nested deeper than " + std::to_string(kMaxGraphDepth));
    Graph g;
    MLC_RETURN_IF_ERROR(expect("graph"));
    MLC_ASSIGN(g.name, string());
    MLC_RETURN_IF_ERROR(expect("{"));
    scopes_.emplace_back();
    while (!accept('}')) {
      if (at_end()) return error("a graph does not end");
      const std::string_view w = word();
      const bool port = w == "input" || w == "output";
      if (port || w == "init") {
        at_ += w.size();
        MLC_ASSIGN(std::string n, value(w != "output"));
        if (n.empty()) return error("_ names nothing");
        MLC_RETURN_IF_ERROR(expect(":"));
        if (!port) {
          MLC_ASSIGN(Tensor t, tensor());
          scopes_.back()[n] = true;
          if (!g.initializers.emplace(n, std::move(t)).second) return error("initializer " + quoted(n) + " is given twice");
          continue;
        }
        MLC_ASSIGN(Port p, type());
        p.name = n;
        if (w == "input") scopes_.back().emplace(n, false);
        (w == "input" ? g.inputs : g.outputs).push_back(std::move(p));
      } else {
        MLC_RETURN_IF_ERROR(node(g, depth));
      }
    }
    scopes_.pop_back();
    return g;
  }

  Status node(Graph& g, int depth) {
    Node n;
    if (accept('(')) {
      MLC_RETURN_IF_ERROR(expect(")"));
    } else {
      do {
        MLC_ASSIGN(std::string v, value(/*defines=*/true));
        n.outputs.push_back(std::move(v));
      } while (accept(','));
    }
    MLC_RETURN_IF_ERROR(expect("="));
    MLC_RETURN_IF_ERROR(operator_name(n));
    if (accept('@')) {
      MLC_ASSIGN(n.opset, integer());
      if (n.opset < 1) return error("the version of an operator is positive");
    }
    MLC_RETURN_IF_ERROR(list("(", ")", [&]() -> Status {
      MLC_ASSIGN(std::string v, value(false));
      n.inputs.push_back(std::move(v));
      return ok();
    }));
    if (peek() == '{') MLC_RETURN_IF_ERROR(attributes(n, depth));
    if (accept(':')) {
      size_t k = 0;
      do {
        if (k >= n.outputs.size()) return error("more types than results");
        if (!accept_word("_")) {
          MLC_ASSIGN(Port p, type());
          p.name = n.outputs[k];
          if (p.name.empty()) return error("an absent result has no type");
          if (!g.types.emplace(p.name, p).second) return error("the type of " + quoted(p.name) + " is given twice");
        }
        ++k;
      } while (accept(','));
    }
    if (peek() == '"') { MLC_ASSIGN(n.name, string()); }
    for (const std::string& v : n.outputs)
      if (!v.empty()) scopes_.back().emplace(v, false);
    g.nodes.push_back(std::move(n));
    return ok();
  }

  Status operator_name(Node& n) {
    if (peek() == '"') {
      MLC_ASSIGN(n.domain, string());
      MLC_RETURN_IF_ERROR(expect("."));
      MLC_ASSIGN(n.op, string());
      return ok();
    }
    const std::string_view w = word();
    const size_t dot = w.rfind('.');
    if (dot == std::string_view::npos || dot == 0 || dot + 1 == w.size())
      return error("expected an operator such as ai.onnx.Conv, found " + found());
    n.domain = w.substr(0, dot);
    n.op = w.substr(dot + 1);
    at_ += w.size();
    return ok();
  }

  Status attributes(Node& n, int depth) {
    MLC_RETURN_IF_ERROR(expect("{"));
    while (!accept('}')) {
      if (at_end()) return error("attributes do not end");
      if (!n.attributes.empty()) (void)accept(',');  // between graphs line ends are enough
      MLC_ASSIGN(std::string key, name());
      MLC_RETURN_IF_ERROR(expect("="));
      MLC_ASSIGN(Attribute v, attribute(depth));
      if (!n.attributes.emplace(key, std::move(v)).second) return error("attribute " + quoted(key) + " is given twice");
    }
    return ok();
  }

  Result<Attribute> attribute(int depth) {
    if (word() == "graph") {
      MLC_ASSIGN(Graph body, graph(depth + 1));
      return Attribute(std::shared_ptr<const Graph>(std::make_shared<Graph>(std::move(body))));
    }
    if (accept_word("tensor")) {
      MLC_ASSIGN(Tensor t, tensor());
      return Attribute(std::move(t));
    }
    if (accept_word("type")) {
      MLC_ASSIGN(Port p, type());
      return Attribute(std::move(p));
    }
    for (const std::string_view kind : {"ints", "floats", "strings"}) {
      if (!accept_word(kind)) continue;
      MLC_RETURN_IF_ERROR(expect("["));
      MLC_RETURN_IF_ERROR(expect("]"));
      if (kind == "ints") return Attribute(std::vector<int64_t>());
      if (kind == "floats") return Attribute(std::vector<double>());
      return Attribute(std::vector<std::string>());
    }
    if (peek() == '"') {
      MLC_ASSIGN(std::string s, string());
      return Attribute(std::move(s));
    }
    if (peek() != '[') return number();
    return list_value();
  }

  // [1, 2], [1.5] or ["a"]: all items are of one kind, and there is one.
  Result<Attribute> list_value() {
    std::vector<int64_t> ints;
    std::vector<double> floats;
    std::vector<std::string> strings;
    MLC_RETURN_IF_ERROR(list("[", "]", [&]() -> Status {
      if (peek() == '"') {
        MLC_ASSIGN(std::string s, string());
        strings.push_back(std::move(s));
      } else {
        MLC_ASSIGN(const Attribute v, number());
        if (const auto* i = std::get_if<int64_t>(&v)) ints.push_back(*i);
        else floats.push_back(std::get<double>(v));
      }
      return ok();
    }));
    if (!ints.empty() + !floats.empty() + !strings.empty() != 1)
      return error("a list wants items of one kind; an empty one is written ints[], floats[] or strings[]");
    if (!ints.empty()) return Attribute(std::move(ints));
    if (!floats.empty()) return Attribute(std::move(floats));
    return Attribute(std::move(strings));
  }

  std::string_view text_;
  const WeightsByHash& weights_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Names> scopes_;
};

}  // namespace

Result<Model> parse(std::string_view text, const WeightsByHash& weights) { return Parser(text, weights).run(); }

}  // namespace mlc::model
