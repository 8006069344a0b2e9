// Values of `tokenizer.json` with the path that messages name: $.model.vocab, $.added_tokens[3].
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text/json.h"

namespace mlc::text {

// Borrows the document. A node may be one that is not there: then `value` is null.
struct JsonNode {
  const JsonValue* value;
  std::string path;

  bool is(JsonValue::Kind kind) const { return value != nullptr && value->is(kind); }
  bool absent() const { return value == nullptr || value->is(JsonValue::Kind::Null); }
  JsonNode operator[](std::string_view key) const { return {value == nullptr ? nullptr : value->find(key), path + "." + std::string(key)}; }
  JsonNode item(const JsonValue& item, size_t index) const { return {&item, path + "[" + std::to_string(index) + "]"}; }

  // "$.x is a number, expected a string".
  Status expected(std::string_view what) const {
    return Status(Code::Usage, "{} is {}, expected {}", path, value == nullptr ? std::string_view("missing") : name_of(value->kind()), what);
  }
  Status unknown(std::string_view found, std::string_view known) const {
    return Status(Code::Unsupported, "{}: '{}' is not known; known are {}", path, found, known);
  }
  Status text(std::string& out) const {
    if (!is(JsonValue::Kind::String)) return expected("a string");
    return out = value->text(), ok();
  }
  // Missing: `out` stays.
  Status flag(bool& out) const {
    if (absent()) return ok();
    if (!is(JsonValue::Kind::Bool)) return expected("true or false");
    return out = value->boolean(), ok();
  }
  Status number(uint64_t most, uint32_t& out) const {
    const auto found = value == nullptr ? std::nullopt : value->as_u64();
    if (!found) return expected("a whole number");
    if (*found > most) return Status(Code::Usage, "{} is {}, expected at most {}", path, *found, most);
    return out = static_cast<uint32_t>(*found), ok();
  }
};

}  // namespace mlc::text
