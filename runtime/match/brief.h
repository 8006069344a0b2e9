// Why a variant does not fit, for people: what matters first, the rest as a number. The whole of it is in the clauses.
#pragma once

#include <span>
#include <string>

#include "runtime/match/matcher.h"

namespace mlc::match {

// "built for aarch64": the rest of its requirements tell nothing about this machine. Else "lacks a64.dotprod and 7 more
// (AT_HWCAP bit 20)", or, of what is no feature, "os.page_size divides 65536: no (4096, AT_PAGESZ)". Empty for no clauses.
std::string brief_reason(std::span<const FailingClause> failing);

}  // namespace mlc::match
