#include "base/cli/report.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/text/text.h"

namespace mlc::cli {
namespace {

void print(std::FILE* stream, const std::string& text) { std::fwrite(text.data(), 1, text.size(), stream); }

// Names in a file may be as long as the file: of a long line its ends are told.
std::string shortened(const std::string& text) {
  constexpr size_t kLongest = 4000, kHead = 2400, kTail = 800;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end - at <= kLongest)
      out.append(text, at, end - at);
    else
      out.append(text, at, kHead).append(" ... (" + std::to_string(end - at - kHead - kTail) + " bytes) ... ").append(text, end - kTail, kTail);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace

Json to_json(const Status& status) {
  Json json;
  if (status.number != 0) json["code"] = "E" + std::to_string(status.number);
  json["message"] = status.message;
  if (!status.facts.empty()) json["facts"] = status.facts;
  if (!status.help.empty()) json["help"] = status.help;
  return json;
}

Json first_fields(std::string_view command, const Status& failure) {
  Json json;
  json["schema"] = "mlc." + std::string(command) + "/1";
  json["ok"] = failure.ok();
  if (failure.ok()) return json;
  json["exit_code"] = static_cast<int>(failure.code);
  json.update(to_json(failure));
  return json;
}

// Strings may come from a file: bytes that are no UTF-8 are replaced, never passed on.
std::string line_of(const Json& json) {
  return json.print() + "\n";
}

std::string failure_json(std::string_view command, const Status& failure) { return line_of(first_fields(command, failure)); }

int finish(std::string_view command, bool as_json, const Result<Report>& result) {
  const Status& failure = result.ok() ? result->failure : result.status();
  if (as_json) {
    Json json = first_fields(command, failure);
    if (result.ok()) json.update(result->json);
    print(stdout, line_of(json));
  } else {
    const bool is_no = result.ok() && failure.code == Code::No;  // an answer, and no error
    if (result.ok()) print(stdout, printable_lines(is_no ? result->text + failure.message + "\n" : result->text));
    if (!failure.ok() && !is_no) note(shortened(failure.text()));
  }
  return failure.ok() ? flush_answer() : static_cast<int>(failure.code);
}

// A full disk or a closed pipe behind stdout must not look like success.
int flush_answer() {
  const bool was_written = std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (was_written) return 0;
  note("error: the answer could not be written to standard output");
  return static_cast<int>(Code::NotFound);
}

void note(const std::string& line) { print(stderr, printable_lines(line) + "\n"); }

namespace {

std::string escaped_text(std::string_view text, std::string_view kept) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    uint32_t c = 0;
    const unsigned length = decode_utf8(text, at, c);
    if (length > 0 && (!is_unseen(c) || (length == 1 && kept.find(text[at]) != kept.npos))) {
      out += text.substr(at, length);
    } else {
      char escaped[16];
      if (length > 1) std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      else std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(text[at]));
      out += escaped;
    }
    at += std::max(length, 1u);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped_text(text, ""); }

std::string printable_lines(std::string_view text) { return escaped_text(text, "\n\t"); }

}  // namespace mlc::cli
