// JSON that remembers where things stand, for messages with line and column. The grammar is nlohmann-json's SAX parser;
// this keeps places, refuses duplicate keys, and bounds depth and size.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

struct Json {
  enum class Kind { Null, Bool, Integer, Number, String, Array, Object };
  Kind kind = Kind::Null;
  Position where;  // of its first character
  bool boolean = false;
  int64_t integer = 0;  // Integer
  double number = 0;    // Integer, Number
  std::string string;
  std::vector<Json> items;
  struct Member;
  std::vector<Member> members;  // in the order of the file

  bool is(Kind k) const { return kind == k; }
};
struct Json::Member {
  std::string key;
  Position where;
  Json value;
};

// "a string", "a number", ... for messages.
std::string_view kind_name(Json::Kind kind);

// Failures carry E5006 and "file:line:column: ".
Result<Json> parse_json(std::string_view text, std::string_view file_name);

}  // namespace mlc::pipeline
