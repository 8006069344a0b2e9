// The command help: topics, and the help of another command.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

// Registers the command; call it after all others, whose help it shows.
void add_help_commands(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
