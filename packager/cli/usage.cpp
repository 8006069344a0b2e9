#include "packager/cli/usage.h"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/nearest_name.h"
#include "packager/cli/report.h"

namespace mlc::cli {
namespace {

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

Status reason(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const auto parsed = app.get_subcommands();
  if (parsed.empty()) {
    if (words.empty()) return Status(Code::Usage, "a command is missing");
    return Status(Code::Usage, is_option(words[0]) ? unknown_word("option", words[0], options_of(app))
                                                   : unknown_word("command", words[0], commands_of(app)));
  }
  const CLI::App& command = *parsed.front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    const std::vector<std::string> extras = app.remaining(true);
    const auto option = std::find_if(extras.begin(), extras.end(), is_option);
    if (option != extras.end()) return Status(Code::Usage, unknown_word("option", option->substr(0, option->find('=')), options_of(command)));
    if (!extras.empty()) return Status(Code::Usage, "'" + extras.front() + "' is one argument too many");
  }
  return Status(Code::Usage, error.what());
}

}  // namespace

int refuse(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto parsed = app.get_subcommands();
  const std::string command = parsed.empty() ? "" : parsed.front()->get_name();
  Status status = reason(app, error, words).hint("mlpack " + (command.empty() ? "" : command + " ") + "--help");
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  return finish(command.empty() ? "usage" : command, as_json, std::move(status));
}

}  // namespace mlc::cli
