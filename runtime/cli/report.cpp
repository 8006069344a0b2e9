#include "runtime/cli/report.h"

#include <cstdio>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>

namespace mlc::cli {
namespace {

void print(std::FILE* stream, const std::string& text) { std::fwrite(text.data(), 1, text.size(), stream); }

// CLI11 prints the footer last; here it holds the examples and goes between the summary and the options.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string examples = app->get_footer();
    return (examples.empty() ? "" : examples + "\n") + CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
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

ordered_json to_json(const Status& status) {
  ordered_json json;
  if (status.number != 0) json["code"] = "E" + std::to_string(status.number);
  json["message"] = status.message;
  if (!status.facts.empty()) json["facts"] = status.facts;
  if (!status.help.empty()) json["help"] = status.help;
  return json;
}

}  // namespace

int finish(std::string_view command, bool as_json, const Result<Report>& result) {
  const Status& failure = result.ok() ? result->failure : result.status();
  if (as_json) {
    ordered_json json;
    json["schema"] = "mlc." + std::string(command) + "/1";
    json["ok"] = failure.ok();
    if (!failure.ok()) {
      json["exit_code"] = static_cast<int>(failure.code);
      json.update(to_json(failure));
    }
    if (result.ok()) json.update(result->json);
    // Strings may come from a file: bytes that are no UTF-8 are replaced, never passed on.
    print(stdout, json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  } else {
    if (result.ok()) print(stdout, result->text);
    if (!failure.ok()) note(failure.text());
  }
  // A full disk or a closed pipe behind stdout must not look like success.
  if (std::fflush(stdout) != 0 && failure.ok()) {
    note("error: the answer could not be written to standard output");
    return static_cast<int>(Code::NotFound);
  }
  return static_cast<int>(failure.code);
}

void note(const std::string& line) { print(stderr, line + "\n"); }

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      out += escaped;
    }
  }
  return out;
}

void set_help_style(CLI::App& app) {
  auto style = std::make_shared<ExamplesFirst>();
  style->column_width(28);
  app.formatter(style);
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& summary, const std::string& examples,
                      bool& as_json) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->footer("Examples:\n" + examples);
  command->add_flag("--json", as_json, "print one JSON object");
  return command;
}

std::string ms_text(uint64_t ns) {
  char text[32];
  if (ns < 100'000) std::snprintf(text, sizeof text, "%.1f us", static_cast<double>(ns) / 1e3);
  else if (ns < 10'000'000) std::snprintf(text, sizeof text, "%.2f ms", static_cast<double>(ns) / 1e6);
  else std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(ns) / 1e6);
  return text;
}

}  // namespace mlc::cli
