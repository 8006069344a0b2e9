// How every command of mlpack answers: text or one JSON object on stdout, errors on stderr, a documented exit code.
//
// --json prints exactly one object, "schema": "mlc.<command>/1" first, "ok" second; a failed command prints the error
// in it (code, message, facts, help) and nothing on stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace CLI {
class App;
}

namespace mlc::cli {

// What a command found. `failure` is set where the answer is complete but bad: a verification that failed, say.
struct Report {
  std::string text;             // for people, with its line ends
  nlohmann::ordered_json json;  // fields after "schema" and "ok"
  Status failure;
};

// Prints and returns the exit code.
[[nodiscard]] int finish(std::string_view command, bool as_json, const Result<Report>& result);

// {"code":"E3102","message":...,"facts":[...],"help":...}
[[nodiscard]] nlohmann::ordered_json to_json(const Status& status);

// Help texts of 80 columns with the examples on top. Call before commands are added: they inherit it.
void set_help_style(CLI::App& app);

// A subcommand with the options that every command has (--json). `examples`: two lines, indented by two.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& summary, const std::string& examples,
                      bool& as_json);

}  // namespace mlc::cli
