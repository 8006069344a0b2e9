#include "tests/conformance/expected.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace mlc::conformance {
namespace {

constexpr Standing kFails = std::size(kStandings) - 1;

Result<Standing> parse_standing(const std::string& word) {
  for (Standing k = 0; k < kFails; ++k)
    if (kStandings[k] == word) return k;
  return Status(Code::Malformed, "'" + word + "' is none of the results that a list has");
}

std::string name_of(Standing standing) { return std::string(kStandings[standing]); }

Result<ExpectedCase> parse_case(std::istringstream& words) {
  ExpectedCase expected;
  std::string word;
  if (words >> word) {
    MLC_ASSIGN(expected.usual, parse_standing(word));
  }
  while (words >> word) {
    const size_t colon = word.find(':');
    if (colon == std::string::npos) return Status(Code::Malformed, "'" + word + "' is not PATH:RESULT");
    MLC_ASSIGN(expected.other[word.substr(0, colon)], parse_standing(word.substr(colon + 1)));
  }
  return expected;
}

// What most paths do is the usual; between as many, the better.
ExpectedCase condensed(const std::map<std::string, Standing>& on) {
  std::map<Standing, size_t> counts;
  for (const auto& [path, standing] : on) ++counts[standing];
  ExpectedCase expected;
  size_t most = 0;
  for (const auto& [standing, count] : counts)
    if (count > most) most = count, expected.usual = standing;
  for (const auto& [path, standing] : on)
    if (standing != expected.usual) expected.other[path] = standing;
  return expected;
}

Result<ExpectedSet> read_expected(const std::string& file) {
  std::ifstream in(file);
  if (!in) return Status(Code::NotFound, file + " cannot be read; --update writes it");
  std::ostringstream text;
  text << in.rdbuf();
  auto expected = parse_expected(text.str());
  if (!expected.ok()) return Status(Code::Malformed, file + ": " + expected.status().message);
  return expected;
}

Status write_expected(const std::string& file, const ExpectedSet& expected) {
  std::ofstream out(file);
  out << text_of(expected);
  out.flush();
  return out ? ok() : Status(Code::Resource, file + " cannot be written");
}

}  // namespace

Standing standing_of(const Outcome& outcome) {
  switch (outcome.kind) {
    case Kind::Pass: return static_cast<Standing>(outcome.given);
    case Kind::Host: return kFails - 3;
    case Kind::Known: return kFails - 2;
    case Kind::Unsupported: return kFails - 1;
    case Kind::Fail: break;
  }
  return kFails;
}

Standing ExpectedCase::on(const std::string& path) const {
  const auto found = other.find(path);
  return found == other.end() ? usual : found->second;
}

Result<ExpectedSet> parse_expected(const std::string& text) {
  ExpectedSet expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first[0] == '#') continue;
    if (first == "paths") {
      for (std::string path; words >> path;) expected.paths.push_back(path);
      continue;
    }
    auto one = parse_case(words);
    if (!one.ok()) return Status(Code::Malformed, first + ": " + one.status().message);
    if (!expected.cases.emplace(first, std::move(one).value()).second) return Status(Code::Malformed, first + " has two lines");
  }
  return expected;
}

std::string text_of(const ExpectedSet& expected) {
  std::string text = "# What each case does on each path; written by onnx_node_tests --update, form: tests/conformance/expected.h.\npaths";
  for (const std::string& path : expected.paths) text += " " + path;
  text += "\n";
  for (const auto& [test, one] : expected.cases) {
    text += test;
    if (one.usual != 0 || !one.other.empty()) text += " " + name_of(one.usual);
    for (const auto& [path, standing] : one.other) text += " " + path + ":" + name_of(standing);
    text += "\n";
  }
  return text;
}

std::vector<std::string> changes(const ExpectedSet& expected, const std::vector<Outcome>& outcomes, bool complete) {
  std::vector<std::string> sentences;
  std::set<std::string> seen;
  for (const Outcome& o : outcomes) {
    const bool first = seen.insert(o.test).second;
    const auto found = expected.cases.find(o.test);
    if (found == expected.cases.end()) {
      if (first) sentences.push_back("new: " + o.set + " " + o.test + ": is not in the list");
      continue;
    }
    const Standing before = found->second.on(o.path), now = standing_of(o);
    if (now == before) continue;
    sentences.push_back((now > before ? "worse: " : "better: ") + o.set + " " + o.test + ", " + o.path + ": was '" + name_of(before) + "', is '" + name_of(now) + "'" +
                        (o.reason.empty() ? "" : ": " + o.reason));
  }
  if (!complete || outcomes.empty()) return sentences;
  for (const auto& [test, one] : expected.cases)
    if (!seen.count(test)) sentences.push_back("vanished: " + outcomes[0].set + " " + test + ": is in the list, and was not run");
  return sentences;
}

ExpectedSet updated(const ExpectedSet& expected, const std::vector<Outcome>& outcomes, bool complete) {
  ExpectedSet result;
  result.paths = expected.paths;
  std::map<std::string, std::map<std::string, Standing>> now;
  for (const Outcome& o : outcomes) {
    auto& on = now[o.test];
    if (o.kind != Kind::Fail) on[o.path] = standing_of(o);
    if (std::find(result.paths.begin(), result.paths.end(), o.path) == result.paths.end()) result.paths.push_back(o.path);
  }
  if (!complete) result.cases = expected.cases;
  for (auto& [test, on] : now) {
    const auto before = expected.cases.find(test);
    if (before != expected.cases.end())
      for (const std::string& path : expected.paths) on.emplace(path, before->second.on(path));  // unless it was run
    if (!on.empty()) result.cases[test] = condensed(on);
  }
  return result;
}

Result<std::vector<std::string>> check_expected(const std::string& folder, const std::vector<Outcome>& outcomes, bool complete, bool update) {
  std::map<std::string, std::vector<Outcome>> sets;
  for (const Outcome& o : outcomes) sets[o.set].push_back(o);
  std::vector<std::string> sentences;
  for (const auto& [set, own] : sets) {
    const std::string file = folder + "/" + set + ".txt";
    ExpectedSet expected;
    if (!update || std::filesystem::exists(file)) {
      MLC_ASSIGN(expected, read_expected(file));
    }
    if (update) {
      MLC_RETURN_IF_ERROR(write_expected(file, updated(expected, own, complete)));
      continue;
    }
    for (std::string& sentence : changes(expected, own, complete)) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace mlc::conformance
