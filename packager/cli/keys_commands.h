// The commands keygen, sign, verify and trust.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

// Registers the commands. Running one prints its answer and sets `exit_code`, which must outlive the parse.
void add_keys_commands(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
