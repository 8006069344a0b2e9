// YAML and protobuf's text form, as files that others read: what a container says stands in them as a quoted string and can be nothing else.
#pragma once

#include <string>
#include <string_view>

#include "base/cli/json_tree.h"

namespace mlc::registry::engines {

// A document in block style. A string of letters, digits and -_./ that no reader of YAML 1.1 or 1.2 takes for anything else stands bare, one of several lines
// of printable ASCII as a literal block, every other one in double quotes.
[[nodiscard]] std::string yaml_text(const cli::Json& document);

// A string of a .pbtxt with its quotes: what is not printable ASCII is escaped byte by byte.
[[nodiscard]] std::string pbtxt_string(std::string_view text);

}  // namespace mlc::registry::engines
