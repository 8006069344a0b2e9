// One case on all paths.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "packager/lang/lang.h"
#include "tests/conformance/case.h"
#include "tests/conformance/run/outcome.h"

namespace mlc::conformance {

struct RunOptions {
  const lang::Library* library = nullptr;
  std::vector<Path> paths;
  std::optional<double> relative;  // instead of the cases' own tolerance
  std::optional<double> most_work; // of a case that executors run; those beyond are left out as unsupported
  bool print = false;   // the expanded function, to standard output
  bool check = false;   // verify with index ranges, and the interpreter before and after every pass
};

// Runs the paths from number `first` on and reports each as it ends.
void run_case(const RunOptions& options, const std::string& set, const Case& c, size_t first, const std::function<void(const Outcome&)>& report);

}  // namespace mlc::conformance
