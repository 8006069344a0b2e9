// Writes spec/operators.md: every operator with its definitions, versions, element types and tests.
//   operator_page PAGE TESTS            writes PAGE; TESTS is this folder's README.md, whose table says which tests there are
//   operator_page --check PAGE TESTS    says whether PAGE is up to date
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "packager/compile/expand/graph_expander.h"
#include "packager/lang/lang.h"

namespace mlc::conformance {
namespace {

using Operator = std::vector<lang::OpInfo>;  // its definitions, in the order in which they are tried

constexpr char kIntroduction[] = R"(# Operators

Made by `operator_page spec/operators.md tests/conformance/README.md` from `ops/`; a test says when it is out of date.

A definition stands at the oldest opset whose text it is and serves every later one until the next; several of one version are
told apart by their conditions, in this order. The language is `spec/operator-language.md`. Classes of element types: `float`
(f64, f32, f16, bf16 and those of 8 and 4 bits), `signed` (i64 to i2), `unsigned` (u64 to u2), `int` (both), `num`
(`float` and `int`), `any` (with bool and str). Tests are ONNX's node tests, by set; what passes where is in
`tests/conformance/README.md`.

)";

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  for (size_t k = 1; k < line.size(); ++k) {
    if (line[k] != '|') {
      cell += line[k];
      continue;
    }
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
    cell.clear();
  }
  return cells;
}

// Of the table by operator: "Abs" to "4 of 1.12, 8 of 1.20". A cell like "10, 1 f" counts 11.
std::map<std::string, std::string> tests_of(const std::string& page) {
  std::map<std::string, std::string> tests;
  std::istringstream in(page);
  std::vector<std::string> columns;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| operator |", 0) == 0) {
      columns = cells_of(line);
      continue;
    }
    if (columns.empty() || line.rfind("| ", 0) != 0) continue;
    const std::vector<std::string> cells = cells_of(line);
    std::set<std::string> seen;
    std::string text;
    for (size_t k = 1; k < cells.size() && k < columns.size(); ++k) {
      const std::string set = columns[k].substr(0, columns[k].find(' '));
      if (cells[k].empty() || !seen.insert(set).second) continue;
      int count = 0;
      std::istringstream parts(cells[k]);
      for (std::string part; std::getline(parts, part, ',');) count += std::atoi(part.c_str());
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + set;
    }
    tests[cells[0]] = text;
  }
  return tests;
}

// "T: num, I: int" of "op Name@7<T: num, I: int>(...)"; what the definitions differ in stands once each.
std::string types_of(const Operator& definitions) {
  static const std::regex parameters(R"(^\s*op\s+[\w.]+@\d+<([^>]*)>)");
  std::vector<std::string> found;
  for (const lang::OpInfo& definition : definitions) {
    std::smatch match;
    const std::string types = std::regex_search(definition.text, match, parameters) ? match[1].str() : "as in the definition";
    if (std::find(found.begin(), found.end(), types) == found.end()) found.push_back(types);
  }
  std::string text;
  for (const std::string& types : found) text += (text.empty() ? "" : "; ") + types;
  return text;
}

std::string versions_of(const Operator& definitions) {
  std::set<int64_t> since;
  for (const lang::OpInfo& definition : definitions) since.insert(definition.since);
  std::string text;
  for (int64_t version : since) text += (text.empty() ? "" : ", ") + std::to_string(version);
  return text;
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// The definitions of an operator, then the clauses that they use, each block once.
std::string text_of(const Operator& definitions) {
  static const std::string kBlock = "\nclauses ";
  std::string own, shared;
  std::set<std::string> seen;
  for (const lang::OpInfo& definition : definitions) {
    size_t at = std::min(definition.text.find(kBlock), definition.text.size());
    own += trimmed(definition.text.substr(0, at)) + "\n";
    while (at < definition.text.size()) {
      const size_t end = std::min(definition.text.find(kBlock, at + 1), definition.text.size());
      const std::string block = trimmed(definition.text.substr(at + 1, end - at - 1));
      if (seen.insert(block).second) shared += block + "\n";
      at = end;
    }
  }
  return own + shared;
}

std::string page(const std::string& tests_page) {
  const auto library = lang::Library::parse(lang::Library::builtin_files());
  if (!library.ok()) return "";
  std::map<std::string, std::map<std::string, Operator>> domains;
  for (lang::OpInfo& info : library->operators()) domains[info.domain][info.name].push_back(std::move(info));
  const std::map<std::string, std::string> tests = tests_of(tests_page);
  const auto tests_line = [&](const std::string& domain, const std::string& name) {
    const auto found = tests.find(domain == "ai.onnx" ? name : domain + "." + name);
    return found == tests.end() || found->second.empty() ? std::string() : "; tests: " + found->second;
  };
  std::string text = kIntroduction;
  // By domain. Constant and Einsum have no list of their own anywhere: see the sentence below.
  std::map<std::string, std::set<std::string>> in_code;
  for (const std::string& name : compile::structural_operators()) in_code["ai.onnx"].insert(name);
  in_code["ai.onnx"].insert({"Constant", "Einsum", "ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"});
  in_code["ai.onnx.ml"].insert({"CastMap", "CategoryMapper", "DictVectorizer", "ZipMap"});
  in_code["com.microsoft"].insert("Tokenizer");
  size_t in_text = 0, coded = 0;
  text += "| domain | operators in text | in C++ |\n|---|---|---|\n";
  for (const auto& [domain, operators] : domains) {
    in_text += operators.size();
    coded += in_code[domain].size();
    text += "| " + domain + " | " + std::to_string(operators.size()) + " | " + std::to_string(in_code[domain].size()) + " |\n";
  }
  text += "| all | " + std::to_string(in_text) + " | " + std::to_string(coded) + " |\n\n## In C++\n\n";
  text += "`Constant` is a tensor of the file (`packager/import`). `Einsum` is a text made from its equation (`packager/lang/einsum.cpp`).\n"
          "Control flow runs its graphs as often as the run says and lists are no arrays, which a text about elements cannot say\n"
          "(`packager/compile/expand/control.cpp`, `lists.cpp`). `ImageDecoder` is done by the application\n"
          "(`packager/compile/expand/services.cpp`, `spec/services.md`). What looks into strings is a step of a program, and so are casts\n"
          "from and to them (`packager/compile/expand/strings.cpp`, `tokens.cpp`). Maps are two arrays each (`maps.cpp`):\n\n";
  for (const auto& [domain, names] : in_code)
    for (const std::string& name : names)
      text += "* " + (domain == "ai.onnx" ? "" : domain + ".") + name + tests_line(domain, name) + "\n";
  for (const auto& [domain, operators] : domains) {
    text += "\n## " + domain + "\n";
    for (const auto& [name, definitions] : operators) {
      std::set<std::string> files;
      for (const lang::OpInfo& definition : definitions) files.insert(definition.file);
      text += "\n### " + name + "\n\nSince " + versions_of(definitions) + "; types: " + types_of(definitions) + "; in";
      for (const std::string& file : files) text += " `" + file + "`";
      text += tests_line(domain, name) + ".\n\n```\n" + text_of(definitions) + "```\n";
    }
  }
  return text;
}

int run(int argc, char** argv) {
  const bool check = argc == 4 && std::strcmp(argv[1], "--check") == 0;
  if (argc != 3 && !check) {
    std::fputs("usage: operator_page [--check] PAGE TESTS\n", stderr);
    return 2;
  }
  const std::string path = argv[check ? 2 : 1], text = page(read(argv[check ? 3 : 2]));
  if (text.empty()) return std::fputs("the operator texts do not parse\n", stderr), 1;
  if (check) {
    if (read(path) == text) return 0;
    std::fprintf(stderr, "%s is out of date: run operator_page %s %s\n", path.c_str(), path.c_str(), argv[3]);
    return 1;
  }
  std::ofstream out(path);
  out << text;
  return out.flush() ? 0 : 1;
}

}  // namespace
}  // namespace mlc::conformance

int main(int argc, char** argv) { return mlc::conformance::run(argc, argv); }
