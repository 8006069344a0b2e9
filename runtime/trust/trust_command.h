// `mlpack trust` and `mlrun trust`.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

// Examples and hints name the tool that `app` is.
void add_trust_command(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
