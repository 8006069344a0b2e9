#include "signing/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/compose.h"
#include "base/text.h"

namespace mlc::signing {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// One pass over the text, without recursion. Each function answers false where it refuses; the first refusal ends it all.
class Reader {
 public:
  Reader(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  bool read(Json& root) {
    Json* place = &root;  // of the next value
    for (;;) {
      bool opened = false;
      if (!read_value(*place, opened)) return false;
      // Behind a value: the ends of what ends here, then a comma. Behind what was just opened there is none.
      for (;; opened = false) {
        skip_blanks();
        if (open_.empty()) return at_ == text_.size() || refuse(kSyntax);
        const Json& parent = *open_.back();
        if (!take(parent.is(Json::Kind::Object) ? '}' : ']')) break;
        if (!is_distinct(parent)) return false;
        open_.pop_back();
      }
      if (!opened && !take(',')) return refuse(kSyntax);
      if (!make_room(*open_.back(), place)) return false;
    }
  }
  // Why and where it was refused.
  const std::string& reason() const { return reason_; }
  size_t position() const { return at_; }

 private:
  static constexpr const char* kSyntax = "a syntax error";

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  bool count() { return ++values_ <= limits_.values || refuse("too many values"); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }  // the text has no zero byte
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return refuse(kSyntax);
    at_ += word.size();
    return true;
  }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }
  bool take_digits() {
    if (!is_digit(peek())) return refuse(kSyntax);
    while (is_digit(peek())) ++at_;
    return true;
  }

  bool read_value(Json& out, bool& opened) {
    skip_blanks();
    if (!count()) return false;
    switch (const char c = peek()) {
      case '{': case '[':
        if (open_.size() >= limits_.depth) return refuse(compose("nesting deeper than {}", limits_.depth));
        out.kind = c == '{' ? Json::Kind::Object : Json::Kind::Array;
        open_.push_back(&out);  // stays where it is: its parent grows only after it is closed
        ++at_;
        opened = true;
        return true;
      case '"':
        out.kind = Json::Kind::String;
        return read_string(out.string);
      case 'n': return take("null");
      case 't': case 'f':
        out.kind = Json::Kind::Bool;
        out.boolean = c == 't';
        return take(out.boolean ? "true" : "false");
      default: return read_number(out);
    }
  }
  // For the next item or member.
  bool make_room(Json& parent, Json*& place) {
    if (parent.is(Json::Kind::Array)) {
      place = &parent.items.emplace_back();
      return true;
    }
    Json::Member& member = parent.members.emplace_back();
    place = &member.value;
    skip_blanks();
    if (!count() || !read_string(member.name)) return false;
    skip_blanks();
    return take(':') || refuse(kSyntax);
  }
  bool is_distinct(const Json& object) {
    std::vector<std::string_view> names;
    names.reserve(object.members.size());
    for (const Json::Member& member : object.members) names.push_back(member.name);
    std::string_view twice;
    return !find_twice(names, twice) ||
           refuse(compose("the key {} twice in one object", json_quote(twice.substr(0, 64))));
  }

  bool read_number(Json& out) {
    const size_t start = at_;
    const bool minus = take('-');
    if (!take('0') && !take_digits()) return false;
    const size_t end = at_;
    if (take('.') && !take_digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) (void)take('-');
      if (!take_digits()) return false;
    }
    const std::string_view number = text_.substr(start, at_ - start);
    if (at_ != end) {
      out.kind = Json::Kind::Float;
      return (read_real(number, out.real) && std::isfinite(out.real)) || refuse("a number out of range");
    }
    out.kind = Json::Kind::Integer;
    int64_t negative = 0;
    const char* const last = number.data() + number.size();
    const auto error = minus ? std::from_chars(number.data(), last, negative).ec
                             : std::from_chars(number.data(), last, out.integer).ec;
    if (error != std::errc()) return refuse("an integer beyond 64 bits");
    out.negative = negative < 0;
    if (minus) out.integer = static_cast<uint64_t>(negative);
    return true;
  }

  bool read_string(std::string& out) {
    if (!take('"')) return refuse(kSyntax);
    while (!take('"')) {
      if (take('\\')) {
        if (!read_escape(out)) return false;
        continue;
      }
      uint32_t c = 0;
      const unsigned length = at_ < text_.size() ? decode_utf8(text_, at_, c) : 0;
      if (length == 0 || c < 0x20) return refuse(kSyntax);
      out += text_.substr(at_, length);
      at_ += length;
    }
    return true;
  }
  bool read_escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const size_t k = letters.find(peek());
    if (k != letters.npos) {
      ++at_;
      out += meant[k];
      return true;
    }
    uint32_t c = 0, second = 0;
    if (!read_unit(c)) return false;
    if (c >= 0xD800 && c < 0xDC00) {  // the first half of a code point beyond 16 bits
      if (!take('\\') || !read_unit(second) || second < 0xDC00 || second > 0xDFFF) return refuse(kSyntax);
      c = 0x10000 + ((c - 0xD800) << 10) + (second - 0xDC00);
    } else if (c >= 0xDC00 && c < 0xE000) {
      return refuse(kSyntax);
    }
    append_utf8(out, c);
    return true;
  }
  // "uXXXX"
  bool read_unit(uint32_t& out) {
    const std::string_view digits = text_.substr(at_).substr(0, 5);
    if (digits.size() < 5 || digits[0] != 'u') return refuse(kSyntax);
    const auto read = std::from_chars(digits.data() + 1, digits.data() + 5, out, 16);
    if (read.ec != std::errc() || read.ptr != digits.data() + 5) return refuse(kSyntax);
    at_ += 5;
    return true;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t at_ = 0, values_ = 0;
  std::vector<Json*> open_;  // arrays and objects, outermost first
  std::string reason_;
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
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    return Status(Code::Malformed, "json: found a zero byte at " + line_and_column(text, zero));
  Json root;
  Reader reader(text, limits);
  if (reader.read(root)) return root;
  return Status(Code::Malformed, "json: found {} at {}", reader.reason(), line_and_column(text, reader.position() + 1));
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
