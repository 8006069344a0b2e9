// What a command line may hold: commands, and their options, flags and positionals. Each is bound to a variable of the
// caller's, which has the value of the line when the command runs.
//
//   struct Flags { std::string file; double seconds = 2; bool all = false, as_json = false; };
//   auto flags = std::make_shared<Flags>();
//   Command command = program.add_command("tune", "measure schedules", "  tool tune a\n  tool tune b\n", flags->as_json);
//   command.add_option("file", flags->file, "the model").required();
//   command.add_option("--time", flags->seconds, "seconds of each run").within(0.0, 3600.0).shows_default();
//   command.add_flag("-a,--all", flags->all, "all of them");
//   command.on_run([flags] { return finish("tune", flags->as_json, tune(*flags)); });
//
// Names are separated by commas: "-o,--output". A name without hyphens is a positional; these are read in the order in
// which they are declared. A variable keeps its value where the line does not name it. A word that fits no name, type or
// bound is refused before the command runs (base/cli/program.h).
//
// Command and Option are handles: copies mean the same thing, which belongs to the Program and lives as long as that.
// Variables must live until it has run: here the function of on_run holds them. Handles are used from one thread.
// A name that is declared twice, or asked for and not declared, is a mistake of the caller's: it ends the program.
//
// CLI11 does the work and stands in .cpp files of this folder only: its templates would cost each source ten seconds of a
// compiler's time and more.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mlc::cli {

class Option {
 public:
  // All of these return the same option.
  Option required(bool is_required = true) const;
  Option one_of(const std::vector<std::string>& words) const;  // help and completion list them
  Option within(int lowest, int highest) const;                // both included
  Option within(double lowest, double highest) const;
  Option not_negative() const;
  Option positive() const;
  Option separated_by(char mark) const;                        // several values in one word: "a,b,c"
  Option excludes(Option other) const;                         // a line may have one of the two
  // Help shows what a line means that does not give the option: the value that the variable has now, or `text`. The variable
  // is left alone.
  Option shows_default() const;
  Option shows_default(const std::string& text) const;
  // "--json" alone is right as well as "--json FILE"; help shows `shown` in the place of the value.
  Option may_lack_value(const std::string& shown) const;

  // On the line that was parsed.
  [[nodiscard]] bool is_given() const;

 private:
  friend class Command;
  explicit Option(CLI::Option* option) : option_(option) {}

  CLI::Option* option_;
};

class Command {
 public:
  // The type of `value` says what is taken, and what help calls it: TEXT, UINT, INT, FLOAT. An option with several values
  // may be given several times; those of the line replace those that the variable had. Any other takes one value.
  Option add_option(const std::string& names, std::string& value, const std::string& description) const;
  Option add_option(const std::string& names, uint32_t& value, const std::string& description) const;
  Option add_option(const std::string& names, uint64_t& value, const std::string& description) const;
  Option add_option(const std::string& names, int64_t& value, const std::string& description) const;
  Option add_option(const std::string& names, double& value, const std::string& description) const;
  Option add_option(const std::string& names, std::vector<std::string>& values, const std::string& description) const;
  Option add_option(const std::string& names, std::set<std::string>& values, const std::string& description) const;
  Option add_option(const std::string& names, std::vector<uint32_t>& values, const std::string& description) const;
  // Without a value; given, it makes `value` true.
  Option add_flag(const std::string& names, bool& value, const std::string& description) const;

  // One that was declared, by one of its names.
  [[nodiscard]] Option option(const std::string& name) const;
  void remove_option(const std::string& name) const;

  // What the command does; the result is the exit code of the tool (base/exit_codes.h).
  void on_run(std::function<int()> run) const;

  [[nodiscard]] const std::string& name() const;

 private:
  friend class Program;
  Command(CLI::App* app, int* exit_code) : app_(app), exit_code_(exit_code) {}

  CLI::App* app_;
  int* exit_code_;
};

}  // namespace mlc::cli
