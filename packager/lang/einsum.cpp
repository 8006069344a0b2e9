#include "packager/lang/einsum.h"

#include <algorithm>
#include <map>
#include <vector>

namespace mlc::lang {
namespace {

// One term: letters as names of dims, "..." as the pack "rest...".
Result<std::vector<std::string>> labels_of(const std::string& term) {
  std::vector<std::string> r;
  bool ellipsis = false;
  for (size_t k = 0; k < term.size(); ++k) {
    const char c = term[k];
    if (c == ' ') continue;
    if (c == '.') {
      if (term.compare(k, 3, "...") != 0 || ellipsis) return Status(Code::Malformed, "a stray '.' in term '" + term + "'");
      ellipsis = true;
      r.push_back("...");
      k += 2;
      continue;
    }
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) return Status(Code::Malformed, "'" + std::string(1, c) + "' is no label");
    r.push_back(std::string("l_") + c);  // names of their own: no label is a keyword
  }
  if (r.size() > 32) return Status(Code::Malformed, "a term with more than 32 labels");
  return r;
}

std::string joined(const std::vector<std::string>& labels, const std::string& ellipsis) {
  std::string s;
  for (const auto& l : labels) s += (s.empty() ? "" : ", ") + (l == "..." ? ellipsis : l);
  return s;
}

}  // namespace

Result<std::string> einsum_text(const std::string& equation, size_t operands) {
  if (operands == 0 || operands > 16) return Status(Code::Malformed, "1 to 16 operands are possible");
  std::string left = equation, right;
  const size_t arrow = equation.find("->");
  if (arrow != std::string::npos) {
    left = equation.substr(0, arrow);
    right = equation.substr(arrow + 2);
  }
  std::vector<std::vector<std::string>> terms;
  size_t from = 0;
  while (true) {
    const size_t comma = left.find(',', from);
    MLC_ASSIGN(auto labels, labels_of(left.substr(from, comma == std::string::npos ? comma : comma - from)));
    terms.push_back(std::move(labels));
    if (comma == std::string::npos) break;
    from = comma + 1;
  }
  if (terms.size() != operands)
    return Status(Code::Malformed, "the equation has " + std::to_string(terms.size()) + " terms for " + std::to_string(operands) + " operands");
  std::map<std::string, size_t> count;
  for (const auto& t : terms)
    for (const auto& l : t) ++count[l];
  std::vector<std::string> result;
  if (arrow != std::string::npos) {
    MLC_ASSIGN(result, labels_of(right));
    for (const auto& l : result)
      if (!count.count(l)) return Status(Code::Malformed, "label '" + l.substr(l == "..." ? 0 : 2) + "' of the result is in no operand");
    auto sorted = result;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return Status(Code::Malformed, "a label occurs twice in the result");
  } else {
    if (count.count("...")) result.push_back("...");
    for (const auto& [l, n] : count)
      if (n == 1 && l != "...") result.push_back(l);
  }
  std::string sums;
  for (const auto& [l, n] : count)
    if (std::find(result.begin(), result.end(), l) == result.end()) sums += (sums.empty() ? "" : ", ") + (l == "..." ? std::string("rest") : l);
  std::string params, product;
  for (size_t k = 0; k < terms.size(); ++k) {
    const std::string x = "x" + std::to_string(k);
    params += (k ? ", " : "") + x + ": T[" + joined(terms[k], "~rest...") + "]";
    product += (k ? " * " : "") + x + "[" + joined(terms[k], "rest") + "]";
  }
  return "op Einsum@12<T: num>(" + params + ") -> y: T[" + joined(result, "rest...") + "]\n  attr equation: string\n  y[" +
         joined(result, "rest") + "] = " + (sums.empty() ? product : "sum(" + product + " for " + sums + ")") + "\n";
}

}  // namespace mlc::lang
