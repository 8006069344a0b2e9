// Evaluates single requirements of a variant against a probe record.
#pragma once

#include <string>
#include <string_view>

#include "runtime/match/matcher.h"
#include "runtime/probe/record.h"
#include "schema/manifest.h"

namespace mlc::match {

struct ClauseAnswer {
  probe::Answer answer = probe::Answer::Unknown;
  std::string text;    // the clause as people read it
  std::string source;  // for numbers with the value found: "4096, AT_PAGESZ"
};

// Whether the feature is the service of this name.
bool is_service_named(uint32_t feature, std::string_view service);
// `device`: whose facts are asked for; null: of none.
ClauseAnswer evaluate_flag(const probe::Record& record, const MatchPolicy& policy, uint32_t feature, const NamedDevice* device = nullptr);
ClauseAnswer evaluate_clause(const probe::Record& record, const format::Clause& clause, const NamedDevice* device = nullptr);

}  // namespace mlc::match
