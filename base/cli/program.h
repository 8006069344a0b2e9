// A tool as its user meets it: commands, help on them, and what happens to a command line. CLI11 reads the words; what is
// refused is refused in the words of every other error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/cli/command.h"
#include "base/cli/completion.h"

namespace mlc::cli {

inline constexpr const char* kHelpCommand = "help";
inline constexpr const char* kExitCodesTopic = "exit-codes";

// Another tool of the family, and what it does that this one does not.
struct Neighbour {
  std::string name;
  std::vector<std::string> commands;
};

// Owns its commands and their options: handles of them (base/cli/command.h) are good as long as it lives.
class Program {
 public:
  // With --version, and help texts of 80 columns with the examples on top. `examples`: two lines, indented by two, as everywhere
  // here.
  // `tool`: of a program that is that tool with a container in its own file. Examples of commands are written without a container then.
  Program(const std::string& name, const std::string& summary, const std::string& examples, const std::string& tool = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] const std::string& name() const;

  // A command with the options that every command has (--help, --json).
  Command add_command(const std::string& name, const std::string& summary, const std::string& examples, bool& as_json);
  // `help [topic]`: on the tool, a command, the exit codes, or the number of an error.
  void add_help_command(const std::string& examples);

  // A word that is one of its commands, and neither a command nor a file here, is refused with the name of that tool.
  void set_neighbour(Neighbour tool);

  // Parses `words` (without the program's name), runs the command that they name, and returns the exit code: that of the
  // command, or that of the command line's own fault. Nothing is thrown. Call once.
  // `implied`: the command that a first word means which is none itself, or nothing if there must be one. `values_of`: for
  // the completion of words.
  [[nodiscard]] int run(std::vector<std::string> words, const std::string& implied, const ValuesOf& values_of);

 private:
  std::unique_ptr<CLI::App> app_;
  std::string tool_;
  Neighbour neighbour_;
  int exit_code_ = 0;  // of the command that ran
};

}  // namespace mlc::cli
