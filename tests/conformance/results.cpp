#include "tests/conformance/results.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

namespace mlc::conformance {

std::string line_of(const Outcome& o) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", o.seconds);
  const std::string fields[] = {o.set, o.test, o.op, o.path, std::to_string(static_cast<int>(o.kind)), std::to_string(static_cast<int>(o.given)), seconds, o.reason};
  std::string line;
  for (const std::string& field : fields) {
    if (&field != fields) line += '\t';
    for (char c : field) line += c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
  }
  return line;
}

Result<Outcome> outcome_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (char c : line) {
    if (c == '\t') fields.emplace_back();
    else fields.back() += c;
  }
  if (fields.size() != 8) return Status(Code::Malformed, "not the line of a result: " + line);
  const int kind = std::atoi(fields[4].c_str()), given = std::atoi(fields[5].c_str());
  if (kind < 0 || kind >= static_cast<int>(kKinds) || given < 0 || given >= static_cast<int>(kGivens)) return Status(Code::Malformed, "not the line of a result: " + line);
  return Outcome{fields[0], fields[1], fields[2], fields[3], static_cast<Kind>(kind), static_cast<Given>(given), std::atof(fields[6].c_str()), fields[7]};
}

Status save(const std::string& path, const std::vector<Outcome>& outcomes) {
  std::ofstream out(path);
  for (const Outcome& o : outcomes) out << line_of(o) << '\n';
  out.flush();
  return out ? ok() : Status(Code::Resource, path + " cannot be written");
}

Result<std::vector<Outcome>> load_outcomes(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status(Code::NotFound, path + " cannot be read");
  std::vector<Outcome> outcomes;
  for (std::string line; std::getline(in, line);) {
    MLC_ASSIGN(Outcome o, outcome_of(line));
    outcomes.push_back(std::move(o));
  }
  return outcomes;
}

std::string summary(const std::vector<Outcome>& outcomes) {
  std::map<std::pair<std::string, std::string>, Count> counts;
  std::map<std::pair<std::string, std::string>, double> seconds;
  std::map<std::string, std::vector<std::string>> reasons;  // "kind: path: reason" to cases
  for (const Outcome& o : outcomes) {
    counts[{o.set, o.path}].add(o);
    seconds[{o.set, o.path}] += o.seconds;
    if (o.kind == Kind::Pass || o.kind == Kind::Host) continue;
    reasons[std::string(kKindNames[static_cast<size_t>(o.kind)]) + ", " + o.path + ": " + o.reason].push_back(o.test);
  }
  std::string text;
  for (const auto& [reason, tests] : reasons) {
    text += reason + " (" + std::to_string(tests.size()) + "):";
    for (const std::string& test : tests) text += " " + test;
    text += "\n";
  }
  for (const auto& [key, count] : counts) {
    char line[256];
    std::snprintf(line, sizeof line, "%s %-12s %4zu passed, %zu failed, %zu known differences, %zu unsupported, %zu on the host alone; %zu passed knowing shapes, %zu knowing values; %.1f s\n", key.first.c_str(), key.second.c_str(),
                  count.of[0], count.of[1], count.of[2], count.of[3], count.of[4], count.given[1], count.given[2] + count.given[3] + count.given[4], seconds[key]);
    text += line;
  }
  return text;
}

}  // namespace mlc::conformance
