// Patterns of port names, which pair inputs of one run with outputs of the run before: "past.*.key" and "present.*.key".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlc::pipeline {

// What the '*' of a pattern stand for in `name`, none of them holding a '.'; nothing if it does not fit. Each takes as little as it can, but for the
// last one, which takes the rest.
std::optional<std::vector<std::string>> matched(std::string_view pattern, std::string_view name);

// The pattern with these texts in place of its '*', of which it has at most as many.
std::string filled(std::string_view pattern, const std::vector<std::string>& texts);

}  // namespace mlc::pipeline
