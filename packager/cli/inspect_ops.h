// What is inside a container, as JSON and as text: read through the one reader, whoever signed the file.
#pragma once

#include <string>

#include "base/cli/report.h"
#include "base/status.h"
#include "packager/cli/look.h"

namespace mlc::cli {

struct InspectOptions {
  std::string variant;     // only this one, with every feature
  std::string program;     // only this one
  bool segments = false;   // the text lists segments
  bool tensors = false;    // the text lists tensors
  bool plan = false;       // only the plans of the variants, as text (packager/plan/print.h)
};

// `sealed` is opened a second time, for the signers in the eyes of `trust`. Usage, with the known names, if a variant or program is not in the
// file.
[[nodiscard]] Result<Report> inspect_container(SealedContainer& sealed, const Result<signing::TrustSet>& trust, const InspectOptions& options);

}  // namespace mlc::cli
