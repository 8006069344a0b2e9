// The ports of a method as the manifest has them, and as the plan does. They are two parts of a file, and either may lie.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "runtime/plan/execute/executor.h"
#include "schema/manifest.h"
#include "schema/plan/plan.h"

namespace mlc::api {

// The arrays that a plan takes and gives: the core ports where a method has such.
const std::vector<format::Port>& ports_of(const format::Method& method, bool is_output);

// Malformed unless the plan has a function for each of these methods of the manifest, with as many ports, of the same names, element types, depths of lists,
// numbers of axes, and with the constant extents that the manifest promises. Extents of what a program gives are in no plan:
// `check_results` sees them.
Status check_ports(const format::Manifest& manifest, std::span<const uint32_t> methods, const exec::Plan& plan);

// Malformed if what a run of this function gave has another extent than the manifest promises.
Status check_results(const format::Manifest& manifest, const exec::Function& function, std::span<const exec::OutputArg> results);

}  // namespace mlc::api
