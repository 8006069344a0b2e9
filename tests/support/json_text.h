// A JSON value as text again, and whether two values are the same.
#pragma once

#include <array>
#include <charconv>
#include <string>

#include "base/text/json.h"

namespace mlc::test {

// Nesting is bounded by the limits that the value was read with.
inline void write_json(const JsonValue& value, std::string& out) {
  using Kind = JsonValue::Kind;
  switch (value.kind()) {
    case Kind::Null: out += "null"; return;
    case Kind::Bool: out += value.boolean() ? "true" : "false"; return;
    case Kind::Integer:
      out += value.as_u64() ? std::to_string(*value.as_u64()) : std::to_string(*value.as_i64());
      return;
    case Kind::Real: {
      std::array<char, 64> digits;
      const auto end = std::to_chars(digits.begin(), digits.end(), value.number(), std::chars_format::scientific).ptr;
      out.append(digits.begin(), end);
      return;
    }
    case Kind::String: out += json_quote(value.text()); return;
    case Kind::Array: {
      out += '[';
      const char* comma = "";
      for (const JsonValue& item : value.items()) out += comma, comma = ",", write_json(item, out);
      out += ']';
      return;
    }
    case Kind::Object: {
      out += '{';
      const char* comma = "";
      for (const auto& [key, member] : value.members())
        out += comma, comma = ",", out += json_quote(key.text()), out += ':', write_json(member, out);
      out += '}';
      return;
    }
  }
}

inline bool same_json(const JsonValue& a, const JsonValue& b) {
  if (a.kind() != b.kind() || a.size() != b.size() || a.text() != b.text() || a.boolean() != b.boolean() ||
      a.as_u64() != b.as_u64() || a.as_i64() != b.as_i64() || a.number() != b.number())
    return false;
  auto item = b.items().begin();
  for (const JsonValue& other : a.items()) {
    if (!same_json(other, *item)) return false;
    ++item;
  }
  auto member = b.members().begin();
  for (const auto& [key, value] : a.members()) {
    if (key.text() != (*member).key.text() || !same_json(value, (*member).value)) return false;
    ++member;
  }
  return true;
}

}  // namespace mlc::test
