#include "base/cli/completion.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/cli/completion_scripts.h"
#include "base/cli/program.h"
#include "base/cli/report.h"

namespace mlc::cli {
namespace {

struct Shell {
  const char* name;
  const char* script;
};
constexpr std::string_view kToolName = "TOOL";
constexpr Shell kShells[] = {{"bash", kBashScript}, {"fish", kFishScript}, {"zsh", kZshScript}};

std::string script_of(std::string_view shell, const std::string& tool) {
  std::string out;
  for (const Shell& s : kShells)
    if (shell == s.name) out = s.script;
  for (size_t at = 0; (at = out.find(kToolName, at)) != out.npos; at += tool.size()) out.replace(at, kToolName.size(), tool);
  return out;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// "variant", "f" where there is no longer one, "file" for a positional.
std::string name_of(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return option.get_lnames().front();
  if (!option.get_snames().empty()) return option.get_snames().front();
  return option.get_name(true);
}

bool is_called(const CLI::Option& option, std::string_view word) {
  const auto is_word = [&](const std::string& hyphens) {
    return [&word, hyphens](const std::string& name) { return word == hyphens + name; };
  };
  return std::any_of(option.get_lnames().begin(), option.get_lnames().end(), is_word("--")) ||
         std::any_of(option.get_snames().begin(), option.get_snames().end(), is_word("-"));
}

const CLI::Option* option_called(const CLI::App& command, std::string_view word) {
  for (const CLI::Option* option : command.get_options())
    if (is_called(*option, word)) return option;
  return nullptr;
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& command) {
  std::vector<const CLI::Option*> found;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) found.push_back(option);
  return found;
}

const CLI::App* command_called(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_name() == name) return command;
  return nullptr;
}

// A command line as it is read from the left, up to its last word.
struct Reading {
  CommandLine line;
  const CLI::Option* wants = nullptr;  // the option whose value is completed; null: an option or a positional
  std::string before;                  // of the last word, what precedes the value: "--variant="
  size_t positionals = 0;
  bool only_positionals = false;       // there was a "--"
};

Reading read_words(const CLI::App& command, const std::vector<std::string>& words) {
  Reading r;
  r.line.command = command.get_name();
  const std::vector<const CLI::Option*> places = positionals_of(command);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_last = i + 1 == words.size();
    const size_t equals = word.find('=');
    if (r.wants && !is_last) {
      r.line.given[name_of(*r.wants)].push_back(word);
      r.wants = nullptr;
    } else if (!r.wants && !r.only_positionals && word.starts_with("--") && equals != word.npos) {
      const CLI::Option* option = option_called(command, std::string_view(word).substr(0, equals));
      if (option && !is_last) r.line.given[name_of(*option)].push_back(word.substr(equals + 1));
      if (option && is_last) {
        r.wants = option;
        r.before = word.substr(0, equals + 1);
      }
    } else if (!r.wants && !is_last && word == "--") {
      r.only_positionals = true;
    } else if (!r.wants && !is_last && !r.only_positionals && word.starts_with("-") && word.size() > 1) {
      const CLI::Option* option = option_called(command, word);
      if (option && takes_value(*option)) r.wants = option;
      else if (option) r.line.given[name_of(*option)].emplace_back();
    } else if (!r.wants && !is_last) {
      if (r.positionals < places.size()) r.line.given[name_of(*places[r.positionals])].push_back(word);
      ++r.positionals;
    }
  }
  r.line.word = words.back().substr(r.before.size());
  return r;
}

// The first sentence of a description, on one line.
std::string meaning_of(const std::string& description) {
  const size_t end = description.find_first_of(";\n");
  return description.substr(0, end);
}

// What the parser takes: "TEXT:{auto,lazy,full,copy}", "UINT:INT in [1 - 65536]", "TEXT".
Completions of_type(const std::string& type) {
  Completions out;
  const size_t open = type.find('{'), close = type.find('}');
  if (open != type.npos && close != type.npos) {
    std::string word;
    for (const char c : type.substr(open + 1, close - open)) {
      if (c != ',' && c != '}') {
        word += c;
        continue;
      }
      out.words.push_back({std::move(word), ""});
      word.clear();
    }
  }
  out.files = out.words.empty() && type.starts_with("TEXT");
  return out;
}

void add_commands(const CLI::App& app, Completions& out) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    out.words.push_back({command->get_name(), meaning_of(command->get_description())});
}

Completions values(const CLI::App& app, const CLI::Option& option, CommandLine& line, const ValuesOf& values_of) {
  line.option = name_of(option);
  if (line.command == kHelpCommand) {
    Completions topics;
    add_commands(app, topics);
    topics.words.push_back({kExitCodesTopic, "what the tools exit with"});
    return topics;
  }
  Completions parsed = of_type(option.get_type_name());
  if (!parsed.words.empty() || !values_of) return parsed;
  std::optional<Completions> known = values_of(line);
  return known ? std::move(*known) : parsed;
}

// Options that may still be given: those with a value can be given again, flags cannot.
void add_options(const CLI::App& command, const CommandLine& line, Completions& out) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || (!takes_value(*option) && line.given.contains(name_of(*option)))) continue;
    const auto& names = option->get_lnames();
    if (!names.empty()) out.words.push_back({"--" + names.front(), meaning_of(option->get_description())});
    else if (!option->get_snames().empty())
      out.words.push_back({"-" + option->get_snames().front(), meaning_of(option->get_description())});
  }
}

std::string printed(const Completions& found, const std::string& before, const std::string& word) {
  std::string out;
  for (const Completions::Word& w : found.words)
    if (w.word.starts_with(word) && printable(w.word) == w.word)  // a file's names among them
      out += before + w.word + (w.meaning.empty() ? "" : "\t" + printable(w.meaning)) + "\n";
  return found.files ? out + ":files\n" : out;
}

}  // namespace

std::string CommandLine::value(const std::string& name) const {
  const auto found = given.find(name);
  return found == given.end() || found->second.empty() ? std::string() : found->second.front();
}

std::string complete(const CLI::App& app, const std::string& implied, const std::vector<std::string>& words,
                     const ValuesOf& values_of) {
  if (words.empty()) return {};
  Completions found;
  const CLI::App* command = words.size() > 1 ? command_called(app, words[0]) : nullptr;
  const bool is_named = command != nullptr;
  if (!command && !implied.empty()) command = command_called(app, implied);
  if (words.size() == 1) add_commands(app, found);
  if (words.size() == 1 && words[0].starts_with('-')) add_options(app, {}, found);
  if (!command) return printed(found, "", words.back());

  Reading r = read_words(*command, {words.begin() + (is_named ? 1 : 0), words.end()});
  const std::vector<const CLI::Option*> places = positionals_of(*command);
  if (r.wants) {
    found = values(app, *r.wants, r.line, values_of);
  } else if (r.line.word.starts_with('-') && !r.only_positionals) {
    if (words.size() > 1) add_options(*command, r.line, found);
  } else if (r.positionals < places.size()) {
    const Completions here = values(app, *places[r.positionals], r.line, values_of);
    found.words.insert(found.words.end(), here.words.begin(), here.words.end());
    found.files = here.files;
  }
  return printed(found, r.before, r.line.word);
}

void add_completion_command(Program& program) {
  auto shell = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  const std::string tool = program.name();
  const Command command = program.add_command("completion", "print the completion script of a shell",
                                              "  " + tool + " completion bash > ~/.local/share/bash-completion/completions/" + tool +
                                                  "\n  " + tool + " completion fish | source\n", *as_json);
  std::vector<std::string> names;
  for (const Shell& s : kShells) names.emplace_back(s.name);
  command.add_option("shell", *shell, "the shell").required().one_of(names);
  command.on_run([tool, shell, as_json] {
    Report report;
    report.text = script_of(*shell, tool);
    report.json = {{"shell", *shell}, {"script", report.text}};
    return finish("completion", *as_json, report);
  });
}

}  // namespace mlc::cli
