// How every command of mlrun answers: text or one JSON object on stdout, everything else on stderr, a documented exit
// code. --json prints exactly one object, "schema": "mlc.<command>/1" first, "ok" second; a failure is in it too.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace CLI {
class App;
}

namespace mlc::cli {

using nlohmann::ordered_json;

struct Report {
  std::string text;    // for people, with its line ends
  ordered_json json;   // fields after "schema" and "ok"
  Status failure;      // set where the answer is complete but bad
};

// Prints and returns the exit code.
int finish(std::string_view command, bool as_json, const Result<Report>& result);

// A line on stderr.
void note(const std::string& line);

// A string from a file as one line of printable text: control characters are escaped.
std::string printable(std::string_view text);

void set_help_style(CLI::App& app);  // 80 columns, examples on top; before commands are added
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& summary, const std::string& examples,
                      bool& as_json);

std::string ms_text(uint64_t ns);  // "4.6 ms"

}  // namespace mlc::cli
