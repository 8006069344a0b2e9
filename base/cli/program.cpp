#include "base/cli/program.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/cli/error_numbers.h"
#include "base/cli/report.h"
#include "base/exit_codes.h"
#include "base/files/file_calls.h"
#include "base/text/nearest_name.h"

namespace mlc::cli {
namespace {

// CLI11 prints the footer last; here it holds the examples and goes between the summary and the options.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string examples = app->get_footer();
    return (examples.empty() ? "" : examples + "\n") + CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
  // Breaks a description into lines that fit beside its option.
  std::string make_option(const CLI::Option* option, bool positional) const override {
    constexpr size_t width = 80;
    const std::string name = "  " + make_option_name(option, positional) + make_option_opts(option);
    const size_t column = get_column_width();
    std::string out = name.size() < column ? name + std::string(column - name.size(), ' ')
                                           : name + "\n" + std::string(column, ' ');
    size_t at = column;
    std::istringstream words(make_option_desc(option));
    for (std::string word; words >> word;) {
      if (at > column && at + 1 + word.size() > width) {
        out += "\n" + std::string(column, ' ');
        at = column;
      }
      if (at > column) {
        out += ' ';
        ++at;
      }
      out += word;
      at += word.size();
    }
    return out + "\n";
  }
};

// "--trust KEY FILE": an option that may be given several times takes one value each time, and leaves the next word alone.
void take_one_value_each(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](CLI::Option* o) { return !o->get_positional(); })) option->allow_extra_args(false);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) take_one_value_each(*command);
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

bool knows(const std::vector<std::string>& names, const std::string& word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

Report exit_codes() {
  Report report;
  report.text = exit_codes_text();
  report.json = {{"topic", kExitCodesTopic}, {"codes", Json::array()}};
  for (const ExitCode& code : kExitCodes)
    report.json["codes"].push_back({{"exit", code.number}, {"meaning", code.meaning}});
  return report;
}

// "E4001" or "4001".
std::optional<Report> error_number(std::string_view topic) {
  if (topic.starts_with('E') || topic.starts_with('e')) topic.remove_prefix(1);
  for (const ErrorNumber& e : kErrorNumbers) {
    if (topic != std::to_string(e.number)) continue;
    Report report;
    report.text = "E" + std::string(topic) + "  " + std::string(e.meaning) + "\n  exit code  " + std::string(e.exits) + "\n  see        " + std::string(e.page) + "\n";
    report.json = {{"topic", "E" + std::string(topic)}, {"text", report.text}};
    return report;
  }
  return std::nullopt;
}

Result<Report> help_on(const CLI::App& app, const std::string& topic) {
  if (topic == kExitCodesTopic) return exit_codes();
  if (std::optional<Report> found = error_number(topic)) return std::move(*found);
  Report report;
  if (topic.empty()) {
    // app.help() would be the help of the command that was parsed: this one.
    report.text = app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal) + "\nTopics:\n  " +
                  kExitCodesTopic + ", or the number of an error: E4001\n";
    report.json = {{"text", report.text}};
    return report;
  }
  std::string known = "known: " + std::string(kExitCodesTopic);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == topic) {
      report.text = command->help(app.get_name());
      report.json = {{"topic", topic}, {"text", report.text}};
      return report;
    }
    known += " " + command->get_name();
  }
  return Status(Code::Usage, "no help on '" + topic + "'").fact(std::move(known)).hint("manual pages: man 1 mlpack, 1 mlrun, 5 mlc, 5 mlc-pipeline, 5 mlc-trust");
}

Status in_neighbour(const Neighbour& tool, const std::string& command) {
  return Status(Code::Usage, "'" + command + "' is a command of " + tool.name).hint(tool.name + " " + command + " --help");
}

// Why the words that were `given`, before which `implied` was put if they name no command, are refused.
Status reason(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& given,
              const std::string& implied, const Neighbour& neighbour) {
  const std::string about_all = app.get_name() + " --help";
  const auto unknown = [&](std::string_view what, const std::string& word, const CLI::App& of) {
    return unknown_word(what, word, what == "option" ? options_of(of) : commands_of(of));
  };
  const auto parsed = app.get_subcommands();
  if (parsed.empty()) {
    if (!given.empty() && knows(neighbour.commands, given[0])) return in_neighbour(neighbour, given[0]);
    if (!given.empty())
      return Status(Code::Usage, unknown(is_option(given[0]) ? "option" : "command", given[0], app)).hint(about_all);
    return Status(Code::Usage, implied.empty() ? "a command is missing" : "a command or a file is missing").hint(about_all);
  }
  const CLI::App& command = *parsed.front();
  const std::string about_command = app.get_name() + " " + command.get_name() + " --help";
  // First what is too much: CLI11 would rather say what is missing, which a misspelt word may have been.
  const std::vector<std::string> extras = app.remaining(true);
  const auto option = std::find_if(extras.begin(), extras.end(), is_option);
  if (option != extras.end())
    return Status(Code::Usage, unknown("option", option->substr(0, option->find('=')), command)).hint(about_command);
  if (!extras.empty()) return Status(Code::Usage, "'" + extras.front() + "' is one argument too many").hint(about_command);
  return Status(Code::Usage, error.what()).hint(about_command);
}

// Words that begin with what could be the name of a file, and is none, and nearly the name of a command: the message about that.
std::string misspelt_command(const CLI::App& app, const std::vector<std::string>& given) {
  const std::string& word = given[0];
  if (given.size() < 2 || is_option(word) || word.find_first_of("./") != std::string::npos || has_file(word)) return {};
  std::string message = unknown_word("command", word, commands_of(app));
  return message.find("did you mean") == std::string::npos ? std::string() : message;
}

// "  mlrun explain cat.mlc --json" as a program with the container in its own file is called: "  cat explain --json".
std::string without_container(const std::string& examples, const std::string& tool, const std::string& name) {
  std::string out;
  std::istringstream lines(examples);
  for (std::string line; std::getline(lines, line); out += "\n") {
    bool has_container = false;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (!has_container && word.ends_with(".mlc")) has_container = true;
      else out += (out.empty() || out.back() == '\n' ? "  " : " ") + (word == tool ? name : word);
    }
  }
  return out;
}

}  // namespace

Program::Program(const std::string& name, const std::string& summary, const std::string& examples, const std::string& tool)
    : app_(std::make_unique<CLI::App>(summary, name)), tool_(tool) {
  app_->footer("Examples:\n" + (tool.empty() ? examples : without_container(examples, tool, name)));
  app_->require_subcommand(1);
  app_->set_version_flag("--version", tool.empty() ? name + " " + MLC_VERSION_TEXT : name + " (" + tool + " " + MLC_VERSION_TEXT + ")");
  auto style = std::make_shared<ExamplesFirst>();
  style->column_width(28);
  app_->formatter(style);  // which commands inherit
}

Program::~Program() = default;

void Program::set_neighbour(Neighbour tool) { neighbour_ = std::move(tool); }

const std::string& Program::name() const { return app_->get_name(); }

Command Program::add_command(const std::string& name, const std::string& summary, const std::string& examples, bool& as_json) {
  const Command command(app_->add_subcommand(name, summary), &exit_code_);
  command.app_->footer("Examples:\n" + (tool_.empty() ? examples : without_container(examples, tool_, this->name())));
  command.add_flag("--json", as_json, "print one JSON object");
  return command;
}

void Program::add_help_command(const std::string& examples) {
  auto topic = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  const Command help = add_command(kHelpCommand, "help on a command or a topic", examples, *as_json);
  help.add_option("topic", *topic, "a command, exit-codes, or the number of an error");
  help.on_run([app = app_.get(), topic, as_json] { return finish(kHelpCommand, *as_json, help_on(*app, *topic)); });
}

int Program::run(std::vector<std::string> words, const std::string& implied, const ValuesOf& values_of) {
  CLI::App& app = *app_;
  const std::vector<std::string> given = words;
  const bool about_all = !words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "--version");
  const bool imply = !implied.empty() && !words.empty() && !about_all && !knows(commands_of(app), words[0]);
  if (imply && knows(neighbour_.commands, given[0]) && !has_file(given[0]))
    return finish("usage", knows(words, "--json"), in_neighbour(neighbour_, given[0]));
  if (imply && given[0] != kCompleteWord)
    if (std::string message = misspelt_command(app, given); !message.empty())
      return finish("usage", knows(words, "--json"), Status(Code::Usage, std::move(message)).hint(name() + " --help"));
  if (imply) words.insert(words.begin(), implied);
  take_one_value_each(app);
  try {
    if (!given.empty() && given[0] == kCompleteWord)
      return finish("complete", false, Report{complete(app, implied, {given.begin() + 1, given.end()}, values_of), {}, {}});
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // last word first, as CLI11 wants them
  } catch (const CLI::Success& answered) {
    const int code = app.exit(answered);  // prints the help
    return code == 0 ? flush_answer() : code;
  } catch (const CLI::ParseError& error) {
    const auto parsed = app.get_subcommands();
    const std::string command = parsed.empty() ? "" : parsed.front()->get_name();
    return finish(command.empty() ? "usage" : command, knows(words, "--json"), reason(app, error, given, implied, neighbour_));
  } catch (const std::bad_alloc&) {
    note("error: out of memory");
    return static_cast<int>(Code::Resource);
  } catch (const std::exception& bug) {
    note(std::string("error: internal failure: ") + bug.what());
    return static_cast<int>(Code::Internal);
  }
  return exit_code_;
}

}  // namespace mlc::cli
