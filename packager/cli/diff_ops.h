// What differs between two containers: identity, interface, pipelines, variants, weights, assets, golden vectors, signers.
#pragma once

#include <string>

#include "base/cli/report.h"
#include "base/status.h"

namespace mlc::cli {

// The failure of the report is Code::No where they differ.
[[nodiscard]] Result<Report> diff_containers(const std::string& a, const std::string& b);

}  // namespace mlc::cli
