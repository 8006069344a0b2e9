// What is inside a container, as JSON and as text: read through the one reader, whatever its signer.
#pragma once

#include <optional>
#include <string>

#include "base/cli/report.h"
#include "base/status.h"
#include "packager/cli/look.h"
#include "packager/plan/print.h"  // exec::Plan

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
// The same of a container that was opened from `sealed` before.
[[nodiscard]] Result<Report> inspect_opened(const OpenContainer& file, SealedContainer& sealed, const Result<signing::TrustSet>& trust, const InspectOptions& options);

// None where this copy lacks it.
[[nodiscard]] Result<std::optional<exec::Plan>> plan_of(const OpenContainer& file, const format::Variant& variant);

}  // namespace mlc::cli
