// What differs between two containers: identity, interface, pipelines, variants, weights, assets, golden vectors, signers.
#pragma once

#include "base/cli/report.h"
#include "base/status.h"
#include "packager/cli/look.h"

namespace mlc::cli {

// The failure of the report is Code::No where they differ; they are listed in its text or, `as_json`, in its JSON: of a large file there
// are hundreds of thousands.
[[nodiscard]] Result<Report> diff_containers(SealedContainer& a, SealedContainer& b, const Result<signing::TrustSet>& trust, bool as_json);

}  // namespace mlc::cli
