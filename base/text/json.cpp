#include "base/text/json.h"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/text/real.h"
#include "base/text/text.h"

namespace mlc {

using Kind = JsonValue::Kind;

// Reads a document from its first byte to its last. Each function answers false after fail().
class JsonReader {
 public:
  JsonReader(std::string_view text, std::string_view name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits) {}

  Result<JsonDocument> read() {
    assert(limits_.bytes < UINT32_MAX);
    if (text_.size() > limits_.bytes)
      return Status(Code::Malformed, "{} has {} bytes, at most {} are read", name_, text_.size(), limits_.bytes);
    // Never moved while they grow: a value takes two bytes of text, its own and what parts it from the next.
    document_.values_.reserve(std::min(limits_.values, text_.size() / 2 + limits_.depth + 1));
    document_.strings_.reserve(text_.size());
    if (!read_document()) return std::move(failure_);
    return std::move(document_);
  }

 private:
  bool read_document() {
    if (text_.starts_with("\xEF\xBB\xBF")) return fail("found a byte order mark, expected a value");
    if (!read_value()) return false;
    while (!open_.empty())
      if (!read_inside()) return false;
    skip_blanks();
    return at_ == text_.size() || unexpected("nothing behind the value");
  }

  // The next of what the innermost array or object holds, or its end.
  bool read_inside() {
    JsonValue& parent = document_.values_[open_.back()];
    const bool is_object = parent.kind_ == Kind::Object;
    const char* const end = is_object ? "}" : "]";
    skip_blanks();
    if (taken(end[0])) return close();
    if (parent.size_ > 0) {
      if (!taken(',')) return unexpected(is_object ? "',' or '}'" : "',' or ']'");
      skip_blanks();
    }
    ++parent.size_;
    if (is_object) {
      if (peek() != '"') return unexpected("a key in quotes");
      if (!read_string()) return false;
      skip_blanks();
      if (!taken(':')) return unexpected("':' behind the key");
    }
    return read_value();
  }

  bool read_value() {
    skip_blanks();
    switch (peek()) {
      case '{': return open(Kind::Object);
      case '[': return open(Kind::Array);
      case '"': return read_string();
      case 't': return read_word("true", Kind::Bool);
      case 'f': return read_word("false", Kind::Bool);
      case 'n': return read_word("null", Kind::Null);
      default: return peek() == '-' || is_digit() ? read_number() : unexpected("a value");
    }
  }

  // Null after fail().
  JsonValue* add(Kind kind) {
    if (document_.values_.size() == limits_.values)
      return fail("more than {} keys and values", limits_.values), nullptr;
    JsonValue& value = document_.values_.emplace_back();
    value.kind_ = kind;
    value.where_ = position(at_);
    return &value;
  }

  bool open(Kind kind) {
    if (open_.size() == limits_.depth) return fail("nested deeper than {}", limits_.depth);
    if (!add(kind)) return false;
    open_.push_back(static_cast<uint32_t>(document_.values_.size() - 1));
    ++at_;
    return true;
  }

  bool close() {
    JsonValue& value = document_.values_[open_.back()];
    value.nodes_ = static_cast<uint32_t>(document_.values_.size() - open_.back());
    open_.pop_back();
    if (value.kind_ != Kind::Object || value.size_ < 2) return true;
    std::vector<std::string_view> keys;
    keys.reserve(value.size_);
    for (const JsonMember& member : value.members()) keys.push_back(member.key.text());
    std::string_view twice;
    if (!find_twice(keys, twice)) return true;
    const JsonValue* second = nullptr;
    for (const JsonMember& member : value.members()) {
      if (member.key.text() != twice) continue;
      if (second) return fail_at(member.key.where(), compose("key {} for the second time", json_quote(twice.substr(0, 64))));
      second = &member.key;
    }
    return false;  // not reached
  }

  bool read_word(std::string_view word, Kind kind) {
    if (text_.substr(at_, word.size()) != word) return unexpected("a value");
    JsonValue* value = add(kind);
    if (!value) return false;
    if (kind == Kind::Bool) value->boolean_ = word.size() == 4;
    at_ += word.size();
    return true;
  }

  bool read_number() {
    JsonValue* value = add(Kind::Integer);
    if (!value) return false;
    const size_t begin = at_;
    value->negative_ = taken('-');
    const size_t digits = at_;
    if (!taken('0') && !skip_digits()) return false;
    const char* const first = text_.data() + begin;
    if (peek() != '.' && peek() != 'e' && peek() != 'E') {
      uint64_t& number = value->integer_;
      const bool fits = std::from_chars(text_.data() + digits, text_.data() + at_, number).ec == std::errc();
      if (!fits || (value->negative_ && number > uint64_t{1} << 63))
        return fail_at(value->where_, "an integer beyond 64 bits");
      if (value->negative_) number = -number;
      if (number == 0) value->negative_ = false;
      return true;
    }
    value->kind_ = Kind::Real;
    if (taken('.') && !skip_digits()) return false;
    if (taken('e') || taken('E')) {
      if (!taken('-')) taken('+');
      if (!skip_digits()) return false;
    }
    if (real_from_chars(first, text_.data() + at_, value->real_).ec == std::errc()) return true;
    return fail_at(value->where_, "a number beyond the range of 64-bit floating point");
  }

  bool read_string() {
    JsonValue* value = add(Kind::String);
    if (!value) return false;
    std::vector<char>& out = document_.strings_;  // has room: no letter gets longer
    const size_t begin = out.size();
    for (++at_; !taken('"');) {
      const auto c = static_cast<unsigned char>(peek());
      if (at_ == text_.size()) return unexpected("'\"' at the end of the string");
      if (c == '\\') {
        if (!read_escape()) return false;
        continue;
      }
      if (c < 0x20) return unexpected("no control character in a string");
      uint32_t code_point = 0;
      const unsigned bytes = c < 0x80 ? 1 : decode_utf8(text_, at_, code_point);
      if (bytes == 0) return fail("not valid UTF-8");
      out.insert(out.end(), text_.begin() + static_cast<ptrdiff_t>(at_), text_.begin() + static_cast<ptrdiff_t>(at_ + bytes));
      at_ += bytes;
    }
    value->text_ = out.data() + begin;
    value->size_ = static_cast<uint32_t>(out.size() - begin);
    return true;
  }

  bool read_escape() {
    constexpr std::string_view escapes = "\"\\/bfnrtu", letters = "\"\\/\b\f\n\r\t";
    ++at_;
    const size_t which = at_ < text_.size() ? escapes.find(peek()) : escapes.npos;
    if (which == escapes.npos) return unexpected("one of \"\\/bfnrtu behind a backslash");
    ++at_;
    if (which < letters.size()) {
      document_.strings_.push_back(letters[which]);
      return true;
    }
    const size_t begin = at_ - 2;
    uint32_t code_point = 0, low = 0;
    if (!read_hex(code_point)) return false;
    if (code_point >= 0xD800 && code_point < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      if (!read_hex(low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) return fail_at(position(begin), "half of a surrogate pair");
      code_point = 0x10000 + ((code_point - 0xD800) << 10 | (low - 0xDC00));
    }
    if (code_point >= 0xD800 && code_point < 0xE000) return fail_at(position(begin), "half of a surrogate pair");
    std::string letter;
    append_utf8(letter, code_point);
    document_.strings_.insert(document_.strings_.end(), letter.begin(), letter.end());
    return true;
  }
  bool read_hex(uint32_t& out) {
    for (const size_t end = at_ + 4; at_ < end; ++at_) {
      const char c = peek();
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!letter && !is_digit()) return unexpected("four hex digits behind \\u");
      out = out << 4 | static_cast<uint32_t>(letter ? (c & 7) + 9 : c - '0');
    }
    return true;
  }

  // A byte that JSON has no use for where the text is at its end.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool is_digit() const { return peek() >= '0' && peek() <= '9'; }
  bool taken(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool skip_digits() {
    if (!is_digit()) return unexpected("a digit");
    while (is_digit()) ++at_;
    return true;
  }
  void skip_blanks() {
    for (;; ++at_) {
      const char c = peek();
      if (c == '\n') ++line_, line_begin_ = at_ + 1;
      else if (c != ' ' && c != '\t' && c != '\r') return;
    }
  }

  // `at`: in the current line.
  TextPosition position(size_t at) const { return {line_, static_cast<uint32_t>(at - line_begin_ + 1)}; }
  bool fail_at(TextPosition where, std::string_view what) {
    failure_ = Status(Code::Malformed, "{}:{}:{}: {}", name_, where.line, where.column, what);
    return false;
  }
  template <class... Args>
  bool fail(const char* pattern, const Args&... args) {
    return fail_at(position(at_), compose(pattern, args...));
  }
  bool unexpected(const char* expected) {
    if (at_ == text_.size()) return fail("found the end of the text, expected {}", expected);
    const char c = text_[at_];
    if (c > ' ' && c <= '~') return fail("found '{}', expected {}", text_.substr(at_, 1), expected);
    return fail("found the byte {}, expected {}", static_cast<unsigned char>(c), expected);
  }

  const std::string_view text_, name_;
  const JsonLimits limits_;
  JsonDocument document_;
  std::vector<uint32_t> open_;  // arrays and objects around the current place, outermost first
  size_t at_ = 0;
  uint32_t line_ = 1;
  size_t line_begin_ = 0;
  Status failure_;
};

std::optional<int64_t> JsonValue::as_i64() const {
  if (kind_ != Kind::Integer || (!negative_ && integer_ > INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(integer_);
}

std::optional<uint64_t> JsonValue::as_u64() const {
  return kind_ == Kind::Integer && !negative_ ? std::optional(integer_) : std::nullopt;
}

double JsonValue::number() const {
  if (kind_ == Kind::Real) return real_;
  if (kind_ != Kind::Integer) return 0;
  return negative_ ? static_cast<double>(static_cast<int64_t>(integer_)) : static_cast<double>(integer_);
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const JsonMember& member : members())
    if (member.key.text() == key) return &member.value;
  return nullptr;
}

std::string_view name_of(JsonValue::Kind kind) {
  switch (kind) {
    case Kind::Null: return "null";
    case Kind::Bool: return "true or false";
    case Kind::Integer: return "a whole number";
    case Kind::Real: return "a number";
    case Kind::String: return "a string";
    case Kind::Array: return "a list";
    case Kind::Object: return "an object";
  }
  return "?";
}

Result<JsonDocument> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  return JsonReader(text, name, limits).read();
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

}  // namespace mlc
