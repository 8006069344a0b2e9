#include "schema/pipeline/json.h"

#define JSON_NOEXCEPTION
#include <nlohmann/json.hpp>

namespace mlc::pipeline {
namespace {

constexpr size_t kMaxDepth = 16;

// An iterator that lets the handler see how far the lexer has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* p, const char** seen) : p_(p), seen_(seen) {}
  reference operator*() const { return *p_; }
  CountingIterator& operator++() {
    *seen_ = std::max(*seen_, ++p_);
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return p_ == other.p_; }
  bool operator!=(const CountingIterator& other) const { return p_ != other.p_; }

 private:
  const char* p_;
  const char** seen_;
};

class Handler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Handler(std::string_view text, const char* const* seen) : text_(text), seen_(seen) {}

  bool null() { return scalar({}, 4); }
  bool boolean(bool b) {
    Json v;
    v.kind = Json::Kind::Bool;
    v.boolean = b;
    return scalar(std::move(v), b ? 4 : 5);
  }
  bool number_integer(number_integer_t n) {
    Json v;
    v.kind = Json::Kind::Integer;
    v.integer = n;
    v.number = static_cast<double>(n);
    return scalar(std::move(v), 0);
  }
  bool number_unsigned(number_unsigned_t n) {
    if (n <= static_cast<number_unsigned_t>(INT64_MAX)) return number_integer(static_cast<number_integer_t>(n));
    return number_float(static_cast<double>(n), {});
  }
  bool number_float(number_float_t n, const string_t&) {
    Json v;
    v.kind = Json::Kind::Number;
    v.number = n;
    return scalar(std::move(v), 0);
  }
  bool string(string_t& s) {
    Json v;
    v.kind = Json::Kind::String;
    v.string = std::move(s);
    v.where = position(opening_quote());
    return add(std::move(v));
  }
  bool binary(binary_t&) { return fail("binary data"); }
  bool start_object(size_t) { return open(Json::Kind::Object); }
  bool start_array(size_t) { return open(Json::Kind::Array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(string_t& k) {
    key_ = {std::move(k), position(opening_quote()), {}};
    for (const auto& m : stack_.back().members)
      if (m.key == key_.key) return fail("key '" + key_.key + "' for the second time", key_.where);
    keys_.push_back(std::move(key_));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) {
    return fail("not valid JSON here", position(offset() > 0 ? offset() - 1 : 0));
  }

  const std::string& error() const { return error_; }
  Position error_position() const { return error_at_; }
  Json take() { return std::move(root_); }

 private:
  size_t offset() const { return static_cast<size_t>(*seen_ - text_.data()); }

  // Strings are reported right after their closing quote; within a string a bare quote cannot stand.
  size_t opening_quote() const {
    size_t at = offset() - 1;
    while (at > 0) {
      if (text_[--at] != '"') continue;
      size_t slashes = 0;
      while (slashes < at && text_[at - 1 - slashes] == '\\') ++slashes;
      if (slashes % 2 == 0) break;
    }
    return at;
  }
  Position position(size_t at) const {
    Position p{1, 1};
    for (char c : text_.substr(0, at)) c == '\n' ? (++p.line, p.column = 1) : ++p.column;
    return p;
  }
  // A scalar of known or (0) unknown length ends where the lexer stands; after a number it has read one further.
  bool scalar(Json v, size_t length) {
    size_t end = offset();
    if (length == 0) {
      auto part = [](char c) {
        return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
      };
      while (end > 0 && !part(text_[end - 1])) --end;
      while (length < end && part(text_[end - 1 - length])) ++length;
    }
    v.where = position(end - std::min(length, end));
    return add(std::move(v));
  }
  bool add(Json v) {
    if (stack_.empty()) {
      root_ = std::move(v);
    } else if (stack_.back().is(Json::Kind::Array)) {
      stack_.back().items.push_back(std::move(v));
    } else {
      keys_.back().value = std::move(v);
      stack_.back().members.push_back(std::move(keys_.back()));
      keys_.pop_back();
    }
    return true;
  }
  bool open(Json::Kind kind) {
    if (stack_.size() == kMaxDepth) return fail("nested deeper than " + std::to_string(kMaxDepth));
    Json v;
    v.kind = kind;
    v.where = position(offset() - 1);
    stack_.push_back(std::move(v));
    return true;
  }
  bool close() {
    Json v = std::move(stack_.back());
    stack_.pop_back();
    return add(std::move(v));
  }
  bool fail(std::string what, Position at) {
    error_ = std::move(what);
    error_at_ = at;
    return false;
  }
  bool fail(std::string what) { return fail(std::move(what), position(offset() > 0 ? offset() - 1 : 0)); }

  std::string_view text_;
  const char* const* seen_;
  Json root_;
  std::vector<Json> stack_;           // open objects and arrays
  std::vector<Json::Member> keys_;    // keys that wait for their value
  Json::Member key_;
  std::string error_;
  Position error_at_;
};

}  // namespace

std::string_view kind_name(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::Null: return "null";
    case Json::Kind::Bool: return "true or false";
    case Json::Kind::Integer: return "a whole number";
    case Json::Kind::Number: return "a number";
    case Json::Kind::String: return "a string";
    case Json::Kind::Array: return "a list";
    case Json::Kind::Object: return "an object";
  }
  return "?";
}

Result<Json> parse_json(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxText)
    return Status(
        Code::Usage, 5006,
        std::string(file_name) + " has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxText));
  const char* seen = text.data();
  Handler handler(text, &seen);
  CountingIterator first(text.data(), &seen), last(text.data() + text.size(), &seen);
  if (!nlohmann::json::sax_parse(first, last, &handler)) {
    Position at = handler.error_position();
    return Status(Code::Usage, 5006,
                  std::string(file_name) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
                      handler.error());
  }
  return handler.take();
}

}  // namespace mlc::pipeline
