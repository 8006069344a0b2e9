// The one JSON reader of packager and runtime, for text that a stranger wrote: policies, key files, signed statements,
// pipelines. Ours, because libmlrt has it inside: nlohmann-json, with which the tools write, throws, has no limits, takes
// 60 KB of code and does not tell where a value stands.
//
// RFC 8259 and nothing beside it: no comments, no byte order mark, nothing behind the value. Stricter where the RFC
// leaves a choice: strings are valid UTF-8 (a lone surrogate is an error), a key stands once in an object, an integer
// fits 64 bits and any other number a double, else it is an error rather than another number.
//
// Nothing recurses on the text. Time is linear in it but for the sorting of an object's keys. Memory: 24 bytes for each
// value and key, of which two bytes of text make one at most, the decoded strings, and 16 bytes for each key of the object
// that ends: below 16 times the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace mlc {

struct TextPosition {
  uint32_t line = 0, column = 0;  // from 1, the column in bytes
};

struct JsonLimits {
  size_t bytes;   // below 4 GiB
  size_t depth;   // of arrays and objects in each other
  size_t values;  // keys count as well
};

class JsonItems;
class JsonMembers;

// One value of a document, which must outlive it. Reading it as what it is not answers nothing: "", 0, false, no items.
class JsonValue {
 public:
  enum class Kind : uint8_t { Null, Bool, Integer, Real, String, Array, Object };

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  TextPosition where() const { return where_; }  // of its first character

  bool boolean() const { return kind_ == Kind::Bool && boolean_; }
  std::optional<int64_t> as_i64() const;  // an Integer in range
  std::optional<uint64_t> as_u64() const;
  double number() const;  // of an Integer or Real
  std::string_view text() const { return kind_ == Kind::String ? std::string_view(text_, size_) : std::string_view(); }
  uint32_t size() const { return kind_ == Kind::Array || kind_ == Kind::Object ? size_ : 0; }  // items or members
  JsonItems items() const;      // of an Array
  JsonMembers members() const;  // of an Object, in the order of the text
  // The member of that name, null without one. Looks at one after the other.
  const JsonValue* find(std::string_view key) const;

 private:
  friend class JsonReader;
  friend class JsonItems;
  friend class JsonMembers;
  // Values lie in the order of the text, a member's key right before its value: behind this value and all inside of it
  // stands the next of its parent.
  const JsonValue* next() const { return this + (kind_ == Kind::Array || kind_ == Kind::Object ? nodes_ : 1); }

  Kind kind_ = Kind::Null;
  bool negative_ = false;  // of an Integer: integer_ holds the two's complement
  TextPosition where_;
  uint32_t size_ = 0;  // bytes of a String, items of an Array, members of an Object
  union {
    uint64_t integer_ = 0;
    bool boolean_;
    double real_;
    const char* text_;
    uint32_t nodes_;  // of Array and Object: this one and all inside
  };
};
// "a string", "a list", ... for messages.
[[nodiscard]] std::string_view name_of(JsonValue::Kind kind);

struct JsonMember {
  const JsonValue& key;  // a String
  const JsonValue& value;
};

class JsonItems {
 public:
  class Iterator {
   public:
    explicit Iterator(const JsonValue* at) : at_(at) {}
    const JsonValue& operator*() const { return *at_; }
    Iterator& operator++() { return at_ = at_->next(), *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const JsonValue* at_;
  };
  explicit JsonItems(const JsonValue* array) : array_(array) {}
  Iterator begin() const { return Iterator(array_->is(JsonValue::Kind::Array) ? array_ + 1 : array_); }
  Iterator end() const { return Iterator(array_->is(JsonValue::Kind::Array) ? array_->next() : array_); }

 private:
  const JsonValue* array_;
};

class JsonMembers {
 public:
  class Iterator {
   public:
    explicit Iterator(const JsonValue* key) : key_(key) {}
    JsonMember operator*() const { return {*key_, key_[1]}; }
    Iterator& operator++() { return key_ = key_[1].next(), *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const JsonValue* key_;
  };
  explicit JsonMembers(const JsonValue* object) : object_(object) {}
  Iterator begin() const { return Iterator(object_->is(JsonValue::Kind::Object) ? object_ + 1 : object_); }
  Iterator end() const { return Iterator(object_->is(JsonValue::Kind::Object) ? object_->next() : object_); }

 private:
  const JsonValue* object_;
};

inline JsonItems JsonValue::items() const { return JsonItems(this); }
inline JsonMembers JsonValue::members() const { return JsonMembers(this); }

// Owns its values and their strings, nothing of the text that was read.
class JsonDocument {
 public:
  JsonDocument(JsonDocument&&) noexcept = default;
  JsonDocument& operator=(JsonDocument&&) noexcept = default;

  const JsonValue& root() const { return values_.front(); }

 private:
  friend class JsonReader;
  JsonDocument() = default;

  std::vector<JsonValue> values_;
  std::vector<char> strings_;
};

// Malformed otherwise, with "name:line:column: " before what is wrong; `name` stands in messages only.
[[nodiscard]] Result<JsonDocument> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits);

// `text` as a JSON string with its quotes. Bytes are passed on except for quotes, backslashes and control characters.
[[nodiscard]] std::string json_quote(std::string_view text);

}  // namespace mlc
