#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/conformance/results.h"

namespace mlc::conformance {
namespace {

constexpr char kBegin[] = "<!-- table: begin -->\n", kEnd[] = "<!-- table: end -->";

using Column = std::pair<std::string, std::string>;  // set, path

void once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

// Set by set, both in the order in which they first appear.
std::vector<Column> columns_of(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> sets;
  std::map<std::string, std::vector<std::string>> paths;
  for (const Outcome& o : outcomes) once(sets, o.set), once(paths[o.set], o.path);
  std::vector<Column> columns;
  for (const std::string& set : sets)
    for (const std::string& path : paths[set]) columns.emplace_back(set, path);
  return columns;
}

// What cases have in common: without the file, the names in it and how often.
std::string common_reason(const std::string& reason) {
  static const std::regex file(R"(^\S*model\.onnx: |^(input|output)_\d+(\.pb)?: )"), name("'[^']*' "), missing(R"(; (\S+)  \d+ nodes?, first)");
  std::string operators;
  for (std::sregex_iterator at(reason.begin(), reason.end(), missing), end; at != end; ++at) operators += (operators.empty() ? "" : ", ") + at->str(1);
  if (!operators.empty()) return "no such operator: " + operators;
  return std::regex_replace(std::regex_replace(reason, file, ""), name, "");
}

// "12" where all pass, else "10, 1 f, 1 u".
std::string cell(const Count& count) {
  if (count.total() == 0) return "";
  std::string text = std::to_string(count.of[0]);
  constexpr const char* kLetters[kKinds] = {"", " f", " k", " u", " h"};
  for (size_t kind = 1; kind < kKinds; ++kind)
    if (count.of[kind]) text += ", " + std::to_string(count.of[kind]) + kLetters[kind];
  return text;
}

std::string header(const std::string& first, const std::vector<Column>& columns) {
  std::string text = "| " + first + " |", line = "|---|";
  for (const auto& [set, path] : columns) text += " " + set + " " + path + " |", line += "---|";
  return text + "\n" + line + "\n";
}

std::string cell_text(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out.size() > 300 ? out.substr(0, 300) + " ..." : out;
}

}  // namespace

std::string table(const std::vector<Outcome>& outcomes) {
  const std::vector<Column> columns = columns_of(outcomes);
  std::map<std::string, std::map<Column, Count>> by_operator;
  std::map<Column, Count> totals;
  struct Group {
    std::vector<std::string> tests;  // once each
    std::vector<std::string> paths;
  };
  std::map<std::pair<Kind, std::string>, Group> reasons;
  for (const Outcome& o : outcomes) {
    by_operator[o.op][{o.set, o.path}].add(o);
    totals[{o.set, o.path}].add(o);
    if (o.kind == Kind::Pass || o.kind == Kind::Host) continue;
    Group& group = reasons[{o.kind, common_reason(o.reason)}];
    once(group.tests, o.test);
    once(group.paths, o.path);
  }
  std::vector<std::string> all_paths;
  for (const auto& [set, path] : columns) once(all_paths, path);
  std::string text = "\n| set | path | cases | pass | fail | known differences | unsupported | on the host | pass knowing shapes | pass knowing values |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Column& column : columns) {
    const Count& c = totals[column];
    text += "| " + column.first + " | " + column.second + " |";
    for (size_t n : {c.total(), c.of[0], c.of[1], c.of[2], c.of[3], c.of[4], c.given[1], c.given[2] + c.given[3] + c.given[4]}) text += " " + std::to_string(n) + " |";
    text += "\n";
  }
  text += "\nWhat does not pass:\n\n| | reason | paths | cases |\n|---|---|---|---|\n";
  for (const auto& [key, group] : reasons) {
    text += "| " + std::string(key.first == Kind::Fail ? "fails" : kKindNames[static_cast<size_t>(key.first)]) + " | " + cell_text(key.second) + " |";
    std::string paths, tests;
    for (const std::string& path : group.paths) paths += (paths.empty() ? "" : ", ") + path;
    for (const std::string& test : group.tests) tests += (tests.empty() ? "" : ", ") + test;
    text += " " + (group.paths.size() == all_paths.size() ? "all" : paths) + " | " + tests + " |\n";
  }
  text += "\nCases that pass, by operator; f: fail, k: known difference, u: unsupported, h: on the host.\n\n" + header("operator", columns);
  for (const auto& [op, counts] : by_operator) {
    text += "| " + op + " |";
    for (const Column& column : columns) {
      const auto found = counts.find(column);
      text += " " + (found == counts.end() ? std::string() : cell(found->second)) + " |";
    }
    text += "\n";
  }
  return text;
}

Status write_table(const std::string& path, const std::vector<Outcome>& outcomes) {
  std::ifstream in(path);
  if (!in) return Status(Code::NotFound, path + " cannot be read");
  std::ostringstream content;
  content << in.rdbuf();
  const std::string text = content.str();
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return Status(Code::Usage, path + " has no place for the table");
  std::ofstream out(path);
  out << text.substr(0, begin) << kBegin << table(outcomes) << "\n" << text.substr(end);
  out.flush();
  return out ? ok() : Status(Code::Resource, path + " cannot be written");
}

}  // namespace mlc::conformance
