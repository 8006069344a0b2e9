#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/exit_codes.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"

namespace mlc::cli {
namespace {

constexpr char kExitCodesTopic[] = "exit-codes";

Result<Report> help_on(const CLI::App& app, const std::string& topic) {
  Report report;
  if (topic == kExitCodesTopic) {
    report.text = exit_codes_text();
    report.json = {{"topic", kExitCodesTopic}, {"codes", ordered_json::array()}};
    for (const ExitCode& code : kExitCodes)
      report.json["codes"].push_back({{"exit", code.number}, {"meaning", code.meaning}});
    return report;
  }
  if (topic.empty()) {
    // app.help() would be the help of the command that was parsed: this one.
    report.text = app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal) + "\nTopics:\n  " +
                  kExitCodesTopic + "\n";
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
  return Status(Code::Usage, "no help on '" + topic + "'").fact(std::move(known));
}

}  // namespace

void add_help_command(CLI::App& app, int& exit_code) {
  auto topic = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  CLI::App* help = add_command(app, "help", "help on a command or a topic",
                               "  mlrun help explain\n  mlrun help exit-codes\n", *as_json);
  help->add_option("topic", *topic, "a command, or exit-codes");
  help->callback([&app, topic, as_json, &exit_code] { exit_code = finish("help", *as_json, help_on(app, *topic)); });
}

}  // namespace mlc::cli
