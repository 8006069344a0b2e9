// How every command of both tools answers: text or one JSON object on stdout, everything else on stderr, a documented exit
// code (base/exit_codes.h).
//
// --json prints exactly one object, "schema": "mlc.<command>/1" first, "ok" second; a failed command prints the error
// in it (exit_code, code, message, facts, help) and nothing on stderr.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/cli/json_tree.h"
#include "base/status.h"

namespace mlc::cli {

// What a command found. `failure` is set where the answer is complete but bad: a verification that failed, say. Of Code::No its message
// is the last line of the answer.
struct Report {
  std::string text;   // for people, with its line ends
  Json json;          // fields after "schema" and "ok"
  Status failure;
  std::shared_ptr<const void> in_use;  // by the command: released behind the answer, since a large file takes its time
};

// Prints and returns the exit code. An answer that stdout did not take is a failure.
[[nodiscard]] int finish(std::string_view command, bool as_json, const Result<Report>& result);
// 0, or 3 and a line on stderr where standard output does not take what was printed.
[[nodiscard]] int flush_answer();

// What a command that failed prints with --json.
[[nodiscard]] std::string failure_json(std::string_view command, const Status& failure);

// {"code":"E3102","message":...,"facts":[...],"help":...}
[[nodiscard]] Json to_json(const Status& status);

// The fields that every object begins with, those of a failure among them; and an object as the line that is printed.
[[nodiscard]] Json first_fields(std::string_view command, const Status& failure);
[[nodiscard]] std::string line_of(const Json& json);

// A line on stderr.
void note(const std::string& line);

// A string from a file as one line of printable text: what is no UTF-8 is escaped byte by byte, what is_unseen (base/text/text.h) by code
// point.
[[nodiscard]] std::string printable(std::string_view text);
// The same of several lines: their ends and tabs stay. All that goes to a terminal passes through it.
[[nodiscard]] std::string printable_lines(std::string_view text);

}  // namespace mlc::cli
