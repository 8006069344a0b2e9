#include "packager/cli/report.h"

#include <cstdio>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>

namespace mlc::cli {

namespace {

void print(std::FILE* stream, const std::string& text) { std::fwrite(text.data(), 1, text.size(), stream); }

// Strings may come from a file: bytes that are no UTF-8 are replaced, never passed on.
std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

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

}  // namespace

void set_help_style(CLI::App& app) {
  auto style = std::make_shared<ExamplesFirst>();
  style->column_width(28);
  app.formatter(style);
}

nlohmann::ordered_json to_json(const Status& status) {
  nlohmann::ordered_json json;
  if (status.number != 0) json["code"] = "E" + std::to_string(status.number);
  json["message"] = status.message;
  if (!status.facts.empty()) json["facts"] = status.facts;
  if (!status.help.empty()) json["help"] = status.help;
  return json;
}

int finish(std::string_view command, bool as_json, const Result<Report>& result) {
  const Status& failure = result.ok() ? result->failure : result.status();
  if (as_json) {
    nlohmann::ordered_json json;
    json["schema"] = "mlc." + std::string(command) + "/1";
    json["ok"] = failure.ok();
    if (!failure.ok()) {
      json["exit_code"] = static_cast<int>(failure.code);
      json.update(to_json(failure));
    }
    if (result.ok()) json.update(result->json);
    print(stdout, dump(json));
  } else {
    if (result.ok()) print(stdout, result->text);
    if (!failure.ok()) print(stderr, failure.text() + "\n");
  }
  return static_cast<int>(failure.code);
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& summary, const std::string& examples,
                      bool& as_json) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->footer("Examples:\n" + examples);
  command->add_flag("--json", as_json, "print one JSON object");
  return command;
}

}  // namespace mlc::cli
