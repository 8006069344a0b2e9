// What is inside a container, as JSON and as text: read through the one reader, whoever signed the file.
#pragma once

#include <string>

#include "base/cli/report.h"
#include "base/status.h"

namespace mlc::cli {

struct InspectOptions {
  std::string file;
  std::string variant;     // only this one, with every feature
  std::string program;     // only this one
  bool segments = false;   // the text lists segments
  bool tensors = false;    // the text lists tensors
  bool plan = false;       // only the plans of the variants, as text (packager/plan/print.h)
};

// Usage, with the known names, if a variant or program is not in the file.
[[nodiscard]] Result<Report> inspect_container(const InspectOptions& options);

}  // namespace mlc::cli
