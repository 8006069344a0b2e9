// The commands inspect and size.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

// Registers the commands. Running one prints its answer and sets `exit_code`, which must outlive the parse.
void add_inspect_commands(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
