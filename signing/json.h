// The one JSON reader of this library, for bytes that a stranger wrote: statements, trust policies, sidecars.
//
// Stricter than RFC 8259: at most 4 MiB, depth 16, 100,000 values; duplicate keys, byte order marks, comments, bytes
// after the value and invalid UTF-8 are errors. Integers are exact or errors; nothing recurses on the input, nothing
// throws. nlohmann-json tokenizes; the limits and the tree are ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::signing {

class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Integer, Float, String, Array, Object };

  Kind kind = Kind::Null;
  bool boolean = false;
  bool negative = false;     // of an Integer: `integer` holds the two's complement
  uint64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<Json> items;                             // of an Array
  struct Member;
  std::vector<Member> members;                         // of an Object, in file order, names distinct

  bool is(Kind k) const { return kind == k; }
  const Json* find(std::string_view key) const;        // null if absent or not an Object
  const std::string* text(std::string_view key) const; // the member if it is a String
  // A non-negative integer, as a JSON integer or as a decimal string without sign and leading zeros ("42").
  std::optional<uint64_t> as_u64() const;
};
struct Json::Member {
  std::string name;
  Json value;
};
[[nodiscard]] std::string_view name_of(Json::Kind kind);

struct JsonLimits {
  size_t bytes = 4u << 20;
  size_t depth = 16;
  size_t values = 100'000;  // keys count as values
};

// Malformed, with line and column in the message.
[[nodiscard]] Result<Json> parse_json(Bytes text, const JsonLimits& limits = {});

// A decimal number without sign, space or leading zero.
[[nodiscard]] std::optional<uint64_t> parse_decimal(std::string_view text);
// `text` as a JSON string with its quotes. Bytes are passed on except for quotes, backslashes and control characters.
[[nodiscard]] std::string json_quote(std::string_view text);

}  // namespace mlc::signing
