// Evaluates single requirements of a variant against a probe record.
#pragma once

#include <span>
#include <string>

#include "runtime/probe/record.h"
#include "schema/manifest.h"

namespace mlc::match {

struct ClauseAnswer {
  probe::Answer answer = probe::Answer::Unknown;
  std::string text;    // the clause as people read it
  std::string source;  // for numbers with the value found: "4096, AT_PAGESZ"
};

// `services` are those that the application offers.
ClauseAnswer evaluate_flag(const probe::Record& record, std::span<const std::string> services, uint32_t feature);
ClauseAnswer evaluate_clause(const probe::Record& record, const format::Clause& clause);

}  // namespace mlc::match
