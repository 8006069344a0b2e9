// Completion of command lines: a script for the shell, which calls the tool back, and the answer to that call. Commands,
// options and their words come from the parser; what a file says (names of variants, of inputs) from the tool.
//
//   mlrun __complete WORD...    the words of the line without the program's name; the last one is that which is completed,
//                               and may be empty
//
// prints a line for each word that may stand there, with a tab and its meaning behind it where there is one, and a line
// ":files" where the name of a file may stand there, behind the last '=' of the word if it has one.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mlc::cli {

class Program;

inline constexpr const char* kCompleteWord = "__complete";

struct Completions {
  struct Word {
    std::string word, meaning;
  };
  std::vector<Word> words;
  bool files = false;
};

// A command line up to the value that is completed. Options are called as on the line, without hyphens, and by their
// long name where they have one; positionals as in the help.
struct CommandLine {
  std::string command;
  std::string option;
  std::map<std::string, std::vector<std::string>> given;
  std::string word;  // what is there of the value

  // The first value given, or nothing.
  std::string value(const std::string& name) const;
};

// What a tool knows of a value; none: the parser decides, and a value that is any text is the name of a file.
using ValuesOf = std::function<std::optional<Completions>(const CommandLine&)>;

// `completion SHELL`: prints the script.
void add_completion_command(Program& program);

// The answer to `words`. `app`: the parser of the program; `implied`: as in Program::run, which calls this.
std::string complete(const CLI::App& app, const std::string& implied, const std::vector<std::string>& words,
                     const ValuesOf& values_of);

}  // namespace mlc::cli
