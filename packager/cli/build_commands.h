// mlpack build, check, targets.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

void add_build_commands(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
