// A tool as its user meets it: commands, help on them, and what happens to a command line. CLI11 reads the words; what is
// refused is refused in the words of every other error.
#pragma once

#include <string>
#include <vector>

#include "base/cli/completion.h"

namespace CLI {
class App;
}

namespace mlc::cli {

inline constexpr const char* kHelpCommand = "help";
inline constexpr const char* kExitCodesTopic = "exit-codes";

// Call first. Standard streams that whoever started the process has closed are opened, so that no file which is opened later
// is taken for one of them: input is empty, output fails, errors go nowhere.
void open_closed_streams();

// --version, and help texts of 80 columns with the examples on top. Call before commands are added: they inherit it.
void set_up(CLI::App& app);

// A subcommand with the options that every command has (--json). `examples`: two lines, indented by two.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& summary, const std::string& examples,
                      bool& as_json);

// `help [topic]`: on the tool, a command, or the exit codes.
void add_help_command(CLI::App& app, const std::string& examples, int& exit_code);

// Parses `words` (without the program's name), which calls a command's callback, and returns the exit code: that which
// the callback has left in `exit_code`, or that of the command line's own fault. Nothing is thrown.
// `implied`: the command that a first word means which is none itself, or nothing if there must be one. `values_of`: for
// the completion of words.
[[nodiscard]] int run_program(CLI::App& app, std::vector<std::string> words, const std::string& implied,
                              const ValuesOf& values_of, int& exit_code);

}  // namespace mlc::cli
