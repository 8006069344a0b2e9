// `mlpack trust` and `mlrun trust`.
#pragma once

#include "base/cli/completion.h"

namespace mlc::cli {

class Program;

// Examples and hints name the tool that `app` is.
void add_trust_command(Program& program);

// For the completion of --remove.
Completions trusted_key_ids();

}  // namespace mlc::cli
