// Several problems told at once: the first as message, the others as its facts.
#pragma once

#include <utility>

#include "base/status.h"

namespace mlc {

// Nothing if `problem` is OK. `all` keeps the code and number of the first.
inline void add_problem(Status& all, Status problem) {
  if (problem.ok()) return;
  if (all.ok()) {
    all = std::move(problem);
    return;
  }
  all.facts.push_back(std::move(problem.message));
  for (std::string& fact : problem.facts) all.facts.push_back(std::move(fact));
}

}  // namespace mlc
