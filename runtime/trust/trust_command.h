// `mlpack trust` and `mlrun trust`.
#pragma once

#include "base/cli/completion.h"

namespace CLI {
class App;
}

namespace mlc::cli {

// Examples and hints name the tool that `app` is.
void add_trust_command(CLI::App& app, int& exit_code);

// For the completion of --remove.
Completions trusted_key_ids();

}  // namespace mlc::cli
