// Whether a pipeline can take the place of another one without compiling anything.
#pragma once

#include <string_view>

#include "base/status.h"

namespace mlc::cli {

// OK if the two texts differ in nothing but what is read when answers are made: labels and their offsets, how many classes there are in an
// answer, thresholds of lines of text, files that are accepted. Else Unsupported, with the place in `now`, called `name`, of the first difference.
[[nodiscard]] Status check_same_programs(std::string_view before, std::string_view now, std::string_view name);

}  // namespace mlc::cli
