#include "signing/json.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/compose.h"

namespace mlc::signing {

namespace {

// Builds the tree from nlohmann's events. Each event may refuse by returning false; the first refusal ends the parse.
class TreeBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  TreeBuilder(Json& root, const JsonLimits& limits) : root_(root), limits_(limits) {}

  bool null() { return add(Json{}); }
  bool boolean(bool v) {
    Json json;
    json.kind = Json::Kind::Bool;
    json.boolean = v;
    return add(std::move(json));
  }
  bool number_integer(number_integer_t v) {
    Json json;
    json.kind = Json::Kind::Integer;
    json.negative = v < 0;
    json.integer = static_cast<uint64_t>(v);
    return add(std::move(json));
  }
  bool number_unsigned(number_unsigned_t v) {
    Json json;
    json.kind = Json::Kind::Integer;
    json.integer = v;
    return add(std::move(json));
  }
  bool number_float(number_float_t v, const string_t& text) {
    if (text.find_first_of(".eE") == string_t::npos) return refuse("an integer beyond 64 bits");
    Json json;
    json.kind = Json::Kind::Float;
    json.real = v;
    return add(std::move(json));
  }
  bool string(string_t& v) {
    Json json;
    json.kind = Json::Kind::String;
    json.string = std::move(v);
    return add(std::move(json));
  }
  bool binary(binary_t&) { return refuse("binary data"); }
  bool start_object(std::size_t) { return open(Json::Kind::Object); }
  bool start_array(std::size_t) { return open(Json::Kind::Array); }
  bool key(string_t& v) {
    if (++values_ > limits_.values) return refuse("too many values");
    keys_.back() = std::move(v);
    return true;
  }
  bool end_object() {
    const auto& members = stack_.back()->members;
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& member : members) names.push_back(member.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return refuse(compose("the key {} twice in one object", json_quote(twice->substr(0, 64))));
    return close();
  }
  bool end_array() { return close(); }
  template <class Exception>
  bool parse_error(std::size_t position, const std::string&, const Exception&) {
    position_ = position;
    return refuse("a syntax error");
  }

  const std::string& reason() const { return reason_; }
  std::optional<size_t> position() const { return position_; }

 private:
  bool refuse(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return false;
  }
  bool open(Json::Kind kind) {
    if (stack_.size() >= limits_.depth) return refuse(compose("nesting deeper than {}", limits_.depth));
    Json json;
    json.kind = kind;
    Json* place = put(std::move(json));
    if (!place) return false;
    stack_.push_back(place);  // stays valid: the parent's vector grows only after this child is closed
    keys_.emplace_back();
    return true;
  }
  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }
  bool add(Json json) { return put(std::move(json)) != nullptr; }
  Json* put(Json json) {
    if (++values_ > limits_.values) {
      refuse("too many values");
      return nullptr;
    }
    if (stack_.empty()) {
      root_ = std::move(json);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.kind == Json::Kind::Array) return &parent.items.emplace_back(std::move(json));
    parent.members.push_back({std::move(keys_.back()), std::move(json)});
    return &parent.members.back().value;
  }

  Json& root_;
  const JsonLimits& limits_;
  std::vector<Json*> stack_;        // open arrays and objects, outermost first
  std::vector<std::string> keys_;   // the last key of each open object
  size_t values_ = 0;
  std::string reason_;
  std::optional<size_t> position_;
};

std::string line_and_column(std::string_view text, size_t position) {
  position = std::min(position, text.size());
  const auto before = text.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto newline = before.rfind('\n');
  const auto column = position - (newline == std::string_view::npos ? 0 : newline + 1);
  return compose("{}:{}", line, std::max<size_t>(column, 1));
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

const std::string* Json::text(std::string_view key) const {
  const Json* value = find(key);
  return value && value->is(Kind::String) ? &value->string : nullptr;
}

std::optional<uint64_t> Json::as_u64() const {
  if (kind == Kind::Integer && !negative) return integer;
  if (kind == Kind::String) return parse_decimal(string);
  return std::nullopt;
}

std::string_view name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::Null: return "null";
    case Json::Kind::Bool: return "a boolean";
    case Json::Kind::Integer: return "an integer";
    case Json::Kind::Float: return "a number";
    case Json::Kind::String: return "a string";
    case Json::Kind::Array: return "an array";
    case Json::Kind::Object: return "an object";
  }
  return "?";
}

Result<Json> parse_json(Bytes bytes, const JsonLimits& limits) {
  if (bytes.size() > limits.bytes)
    return Status(Code::Malformed, "json of {} bytes, at most {} are read", bytes.size(), limits.bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xEF\xBB\xBF")) return Status(Code::Malformed, "json: found a byte order mark");
  // nlohmann-json takes a zero byte for the end of the text, and what follows would pass unseen.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    return Status(Code::Malformed, "json: found a zero byte at " + line_and_column(text, zero));
  Json root;
  TreeBuilder builder(root, limits);
  const bool whole = nlohmann::json::sax_parse(text.begin(), text.end(), &builder,
                                               nlohmann::json::input_format_t::json, /*strict=*/true);
  if (whole) return root;
  std::string where;
  if (builder.position()) where = " at " + line_and_column(text, *builder.position());
  return Status(Code::Malformed, "json: found {}{}", builder.reason(), where);
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string json_quote(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace mlc::signing
