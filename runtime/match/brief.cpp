#include "runtime/match/brief.h"

#include <algorithm>
#include <string_view>

#include "base/compose.h"

namespace mlc::match {
namespace {

constexpr std::string_view kOtherMachine = "host.arch == ";
constexpr size_t kMostNamed = 3;

// Of a machine without a name here; one past the end is a zero.
bool is_number(char first) { return first >= '0' && first <= '9'; }

bool is_feature(const FailingClause& f) { return f.clause.find(' ') == std::string::npos; }

// The features that have this answer: "lacks x86.avx512f, x86.avx512bw, x86.avx512cd and 7 more (xcr0 bits 5..7)".
std::string features_text(std::span<const FailingClause> failing, probe::Answer answer, std::string_view verb) {
  std::string out;
  const FailingClause* first = nullptr;
  size_t count = 0;
  for (const FailingClause& f : failing) {
    if (!is_feature(f) || f.answer != answer) continue;
    if (!first) first = &f;
    if (count++ < kMostNamed) out += compose("{}{}", count == 1 ? "" : ", ", f.clause);
  }
  if (count > kMostNamed) out += compose(" and {} more", count - kMostNamed);
  return first ? compose("{} {} ({})", verb, out, first->source) : out;
}

}  // namespace

std::string brief_reason(std::span<const FailingClause> failing) {
  for (const FailingClause& f : failing)
    if (f.clause.starts_with(kOtherMachine) && f.answer == probe::Answer::No)
      return compose("built for {}{}", is_number(f.clause[kOtherMachine.size()]) ? "machine " : "", f.clause.substr(kOtherMachine.size()));
  std::string out = features_text(failing, probe::Answer::No, "lacks");
  const std::string unknown = features_text(failing, probe::Answer::Unknown, "not known here:");
  if (!unknown.empty()) out += compose("{}{}", out.empty() ? "" : "; ", unknown);
  for (const FailingClause& f : failing)
    if (!is_feature(f)) out += compose("{}{}: {} ({})", out.empty() ? "" : "; ", f.clause, name_of(f.answer), f.source);
  return out;
}

}  // namespace mlc::match
