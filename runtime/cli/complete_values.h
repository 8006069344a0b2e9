// What mlrun knows of the values on a command line (base/cli/completion.h).
#pragma once

#include <optional>

#include "base/cli/completion.h"

namespace mlc::cli {

// Names of variants, programs, pipelines, inputs and extents come from the container on the line, which is opened as by
// any command: that of a stranger by a process without privileges. No code of it is loaded, and nothing is remembered.
std::optional<Completions> values_of_line(const CommandLine& line);

}  // namespace mlc::cli
