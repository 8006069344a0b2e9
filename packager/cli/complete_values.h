// What mlpack knows of the values on a command line (base/cli/completion.h).
#pragma once

#include <optional>

#include "base/cli/completion.h"

namespace mlc::cli {

// Targets are this build's; names of variants and programs come from the container on the line.
std::optional<Completions> values_of_line(const CommandLine& line);

}  // namespace mlc::cli
